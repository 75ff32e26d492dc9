// Growing: a run of neighbouring blocks that doubles when the sequence outgrows it, as a vector does. Old and new stand
// side by side while the bytes are copied, so n tokens that come one by one copy fewer than 2n, and a jump from 1 token
// to n is one lease and the copy of one block.
#include <algorithm>

#include "kvcache/placement/placement.h"
#include "kvcache/placement/whole_table.h"

namespace kvern {
namespace {

// Never beyond what the course can fill.
uint64_t Doubled(uint64_t num_held, uint64_t num_needed, uint64_t num_most) {
  return std::max(num_needed, std::min(2 * num_held, num_most));
}

class GrowingTable final : public WholeTable {
 public:
  GrowingTable(BlockPool& pool, const SequenceCourse& course) : WholeTable(pool, course) {}

 protected:
  uint64_t NextCapacity(uint64_t num_needed) const override {
    return Doubled(entries_.size(), num_needed, pool_.layout().BlocksFor(course_.max_tokens));
  }
};

class Growing final : public Placement {
 public:
  std::string_view Name() const override { return "growing"; }
  bool gives_back() const override { return false; }

  // At the worst, all blocks but one are held when all are needed.
  uint64_t MostBlocks(const BlockLayout& layout, const SequenceCourse& course) const override {
    const uint64_t num_most = layout.BlocksFor(course.max_tokens);
    return num_most <= 1 ? num_most : 2 * num_most - 1;
  }
  uint64_t HeldBlocks(const BlockLayout& layout, const SequenceCourse& course, uint64_t num_tokens) const override {
    const uint64_t num_needed = layout.BlocksFor(num_tokens), num_most = layout.BlocksFor(course.max_tokens);
    uint64_t num_held = 1;
    while (num_held < num_needed) num_held = Doubled(num_held, num_held + 1, num_most);
    return num_held;
  }
  std::unique_ptr<BlockTable> MakeTable(BlockPool& pool, const SequenceCourse& course) const override {
    return std::make_unique<GrowingTable>(pool, course);
  }
};

}  // namespace

const Placement& GrowingPlacement() {
  static const Growing kGrowing;
  return kGrowing;
}

}  // namespace kvern
