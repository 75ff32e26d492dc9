// Paged: blocks are leased as the sequence grows, so it never holds more than one that is not full between steps. Full
// blocks are shared with forks; the one that is filled never is. Blocks behind a window are given back one by one.
// Source: arXiv:2309.06180.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/checked_math.h"
#include "kvcache/placement/placement.h"

namespace kvern {
namespace {

// Blocks that `num_tokens` consecutive positions touch, wherever the first of them stands in its block.
uint64_t MostTouched(uint64_t num_tokens, uint32_t block_size) { return CeilDiv(num_tokens - 1, block_size) + 1; }

class PagedTable final : public BlockTable {
 public:
  PagedTable(BlockPool& pool, const SequenceCourse& course) : BlockTable(pool, course) {}

  Status Adopt(std::span<const BlockIndex> cached, uint64_t num_tokens) override;
  Status Fork(const BlockTable& table) override;
  Status Reserve(uint64_t num_tokens) override;
  uint64_t NumMissing(uint64_t num_tokens) const override {
    return std::max(pool_.layout().BlocksFor(num_tokens), entries_.size()) - entries_.size();
  }
  void MarkComputed(uint64_t count) override;
  void DropUnseen() override;
  Status Truncate(uint64_t num_tokens) override;
  Status Restore(uint64_t num_tokens) override;
  void Release() override;

 private:
  uint64_t num_passed_ = 0;  // Leading blocks that are behind the window; those of them that are pinned stay.
};

Status PagedTable::Adopt(std::span<const BlockIndex> cached, uint64_t num_tokens) {
  KVERN_CHECK(entries_.empty() && cached.size() == pool_.layout().BlocksFor(num_tokens));
  const uint64_t num_full = num_tokens / block_size();
  const bool has_partial = num_tokens % block_size() != 0;
  KVERN_RETURN_IF_ERROR(CheckRoom(num_tokens, has_partial ? 1 : 0));
  lease_ = pool_.Share(cached.first(num_full));
  if (has_partial) {
    BlockLease own = pool_.Lease(1).value();
    pool_.Copy(cached[num_full], own.blocks()[0]);
    lease_.Append(std::move(own));
  }
  entries_ = lease_.blocks();
  num_tokens_ = num_tokens;
  num_passed_ = std::min(course_.WindowBegin(num_tokens) / block_size(), entries_.size());
  return Status::Ok();
}

Status PagedTable::Fork(const BlockTable& table) {
  const auto& other = static_cast<const PagedTable&>(table);
  KVERN_CHECK(&pool_ == &other.pool_);
  return Adopt(other.entries_.first(pool_.layout().BlocksFor(other.num_tokens_)), other.num_tokens_);
}

Status PagedTable::Reserve(uint64_t num_tokens) {
  const uint64_t num_missing = NumMissing(num_tokens);
  KVERN_RETURN_IF_ERROR(CheckRoom(num_tokens, num_missing));
  if (num_missing == 0) return Status::Ok();
  const BlockIndex last = entries_.empty() ? kNoBlock : entries_.back();
  lease_.Append(pool_.Lease(static_cast<uint32_t>(num_missing), last).value());
  entries_ = lease_.blocks();
  return Status::Ok();
}

void PagedTable::MarkComputed(uint64_t count) {
  KVERN_CHECK(count <= entries_.size() * block_size() - num_tokens_);
  const uint64_t first_open = num_tokens_ / block_size();
  num_tokens_ += count;
  for (uint64_t i = first_open; i < num_tokens_ / block_size(); ++i) pool_.MarkFull(entries_[i]);
}

// The next row stands at position num_tokens_.
void PagedTable::DropUnseen() {
  const uint64_t end = course_.WindowBegin(num_tokens_) / block_size();
  for (; num_passed_ < std::min(end, entries_.size()); ++num_passed_) {
    if (!course_.IsPinned(num_passed_, block_size())) lease_.Drop(num_passed_);
  }
}

Status PagedTable::Truncate(uint64_t num_tokens) {
  KVERN_CHECK(num_tokens <= num_tokens_);
  if (num_tokens == 0) {
    Release();
    return Status::Ok();
  }
  const uint64_t first_seen = course_.WindowBegin(num_tokens) / block_size();
  for (uint64_t i = first_seen; i < std::min(num_passed_, pool_.layout().BlocksFor(num_tokens)); ++i) {
    if (entries_[i] != kNoBlock) continue;
    return Status::InvalidArgument("KV cache: a row at position " + std::to_string(num_tokens) + " sees position " +
                                   std::to_string(i * block_size()) + ", which was given back at " +
                                   std::to_string(num_tokens_) + " tokens");
  }
  const uint64_t open = num_tokens / block_size();
  if (num_tokens % block_size() != 0 && pool_.state(entries_[open]) == BlockState::kFull) {
    if (pool_.IsOwn(entries_[open])) {
      pool_.MarkFilling(entries_[open]);
    } else {  // Others read it or may find it: its tokens go on in a block of this table's own.
      KVERN_RETURN_IF_ERROR(CheckRoom(num_tokens, 1));
      BlockLease own = pool_.Lease(1).value();
      pool_.Copy(entries_[open], own.blocks()[0]);
      lease_.Replace(open, std::move(own));
    }
  }
  lease_.Shrink(pool_.layout().BlocksFor(num_tokens));
  entries_ = lease_.blocks();
  num_tokens_ = num_tokens;
  num_passed_ = std::min(num_passed_, first_seen);
  return Status::Ok();
}

Status PagedTable::Restore(uint64_t num_tokens) {
  KVERN_CHECK(entries_.empty());
  const uint64_t num_entries = pool_.layout().BlocksFor(num_tokens);
  const uint64_t num_passed = std::min(course_.WindowBegin(num_tokens) / block_size(), num_entries);
  const uint64_t num_kept = num_entries - num_passed + course_.NumPinned(num_passed, block_size());
  KVERN_RETURN_IF_ERROR(CheckRoom(num_tokens, num_kept));
  for (uint64_t i = 0; i < num_entries; ++i) {
    if (i < num_passed && !course_.IsPinned(i, block_size())) {
      lease_.AppendNone();
      continue;
    }
    lease_.Append(pool_.Lease(1, i == 0 ? kNoBlock : lease_.blocks().back()).value());
    if ((i + 1) * block_size() <= num_tokens) pool_.MarkFull(lease_.blocks().back());
  }
  entries_ = lease_.blocks();
  num_tokens_ = num_tokens;
  num_passed_ = num_passed;
  return Status::Ok();
}

void PagedTable::Release() {
  lease_.Release();
  entries_ = {};
  num_tokens_ = num_passed_ = 0;
}

class Paged final : public Placement {
 public:
  std::string_view Name() const override { return "paged"; }
  bool gives_back() const override { return true; }
  bool leases_on_demand() const override { return true; }
  bool shares_blocks() const override { return true; }

  uint64_t MostBlocks(const BlockLayout& layout, const SequenceCourse& course) const override {
    return MostSeen(layout, course, course.max_tokens, course.max_step_tokens);
  }
  // Those of a window may be given back by one of the forks while another still sees them: not counted.
  uint64_t SharedBlocks(const BlockLayout& layout, const SequenceCourse& course, uint64_t num_tokens) const override {
    return course.span.window == 0 ? num_tokens / layout.block_size() : 0;
  }
  // After the step of one token that made it so long.
  uint64_t HeldBlocks(const BlockLayout& layout, const SequenceCourse& course, uint64_t num_tokens) const override {
    const uint64_t end = layout.BlocksFor(num_tokens);
    const uint64_t begin = std::min(course.WindowBegin(num_tokens) / layout.block_size(), end);
    return end - begin + course.NumPinned(begin, layout.block_size());
  }
  std::unique_ptr<BlockTable> MakeTable(BlockPool& pool, const SequenceCourse& course) const override {
    return std::make_unique<PagedTable>(pool, course);
  }

 private:
  // The rows of a step see their own positions and the window before the first of them.
  static uint64_t MostSeen(const BlockLayout& layout, const SequenceCourse& course, uint64_t num_tokens,
                           uint64_t step_tokens) {
    const uint64_t all = layout.BlocksFor(num_tokens);
    if (course.span.window == 0) return all;
    const uint64_t step = std::max<uint64_t>(1, std::min(step_tokens, num_tokens));
    const uint64_t in_window = MostTouched(course.span.window - 1 + step, layout.block_size());
    return std::min(all, in_window + course.NumPinned(all, layout.block_size()));
  }
};

}  // namespace

const Placement& PagedPlacement() {
  static const Paged kPaged;
  return kPaged;
}

}  // namespace kvern
