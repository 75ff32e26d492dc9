#include "kvcache/block_table.h"

#include <algorithm>
#include <limits>
#include <string>

namespace kvern {

bool SequenceCourse::IsPinned(uint64_t i, uint32_t block_size) const {
  const uint64_t begin = i * block_size, end = begin + block_size;
  return std::ranges::any_of(span.pinned, [&](const PositionRange& r) { return r.begin < end && begin < r.end; });
}

uint64_t SequenceCourse::NumPinned(uint64_t num_blocks, uint32_t block_size) const {
  uint64_t count = 0, next = 0;  // Ranges ascend: blocks below `next` are counted.
  for (const PositionRange& range : span.pinned) {
    const uint64_t begin = std::max<uint64_t>(next, range.begin / block_size);
    const uint64_t end = std::min<uint64_t>(num_blocks, (range.end - 1) / block_size + 1);
    if (begin >= end) continue;
    count += end - begin;
    next = end;
  }
  return count;
}

Status BlockTable::Adopt(std::span<const BlockIndex>, uint64_t) {
  return Status::Unsupported("KV cache: this placement does not take blocks that another sequence has computed");
}

Status BlockTable::Restore(uint64_t) {
  return Status::Unsupported("KV cache: this placement does not bring sequences back from a second memory");
}

Status BlockTable::CheckRoom(uint64_t num_tokens, uint64_t num_missing) const {
  if (num_tokens > course_.max_tokens) {
    return Status::InvalidArgument("KV cache: room for " + std::to_string(num_tokens) +
                                   " tokens, of a sequence of up to " + std::to_string(course_.max_tokens));
  }
  if (num_missing <= pool_.free_blocks()) return Status::Ok();
  const uint64_t block_bytes = pool_.layout().block_bytes();
  // A count whose bytes do not fit 64 bits is far beyond any pool; the message then names the count.
  const std::string needed = num_missing <= std::numeric_limits<uint64_t>::max() / block_bytes
                                 ? std::to_string(num_missing * block_bytes) + " bytes"
                                 : std::to_string(num_missing) + " blocks";
  return Status::ResourceExhausted("KV cache: room for " + std::to_string(num_tokens) + " tokens needs " + needed +
                                   " more, " + std::to_string(pool_.free_blocks() * block_bytes) + " bytes are free");
}

}  // namespace kvern
