#include "kvcache/placement/placement.h"

namespace kvern {

Status Placement::Check(const AttentionSpan&) const { return Status::Ok(); }

uint64_t Placement::SharedBlocks(const BlockLayout&, const SequenceCourse&, uint64_t) const { return 0; }

}  // namespace kvern
