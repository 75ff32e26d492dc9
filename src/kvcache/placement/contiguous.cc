// Contiguous: one reservation of the sequence's maximum length, made with its first token. Nothing ever moves; what it
// does not come to use is lost to others. Forks get a reservation and a copy of their own.
#include "kvcache/placement/placement.h"
#include "kvcache/placement/whole_table.h"

namespace kvern {
namespace {

class ContiguousTable final : public WholeTable {
 public:
  ContiguousTable(BlockPool& pool, const SequenceCourse& course) : WholeTable(pool, course) {}

 protected:
  uint64_t NextCapacity(uint64_t) const override { return pool_.layout().BlocksFor(course_.max_tokens); }
};

class Contiguous final : public Placement {
 public:
  std::string_view Name() const override { return "contiguous"; }
  bool gives_back() const override { return false; }

  uint64_t MostBlocks(const BlockLayout& layout, const SequenceCourse& course) const override {
    return layout.BlocksFor(course.max_tokens);
  }
  uint64_t HeldBlocks(const BlockLayout& layout, const SequenceCourse& course, uint64_t) const override {
    return layout.BlocksFor(course.max_tokens);
  }
  std::unique_ptr<BlockTable> MakeTable(BlockPool& pool, const SequenceCourse& course) const override {
    return std::make_unique<ContiguousTable>(pool, course);
  }
};

}  // namespace

const Placement& ContiguousPlacement() {
  static const Contiguous kContiguous;
  return kContiguous;
}

}  // namespace kvern
