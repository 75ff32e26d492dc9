// Ring: a fixed number of blocks in which position p stands in slot p modulo their size, so a new token takes the place
// of one that no row sees any more. Only for rows that see a window. Blocks with pinned positions stand apart.
//
// A ring of at least window + max_step_tokens - 1 slots never overwrites what a step still sees: its last row writes
// over a position that is a whole ring behind it, before the window of its first row. One block may hold the end of the
// window and the newest tokens at once; then two entries of the table name it.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kvcache/placement/placement.h"

namespace kvern {
namespace {

struct RingSize {
  uint64_t ring = 0;    // Blocks that positions go round in.
  uint64_t pinned = 0;  // Blocks that stand apart.
};

RingSize SizeOf(const BlockLayout& layout, const SequenceCourse& course) {
  const uint64_t all = layout.BlocksFor(course.max_tokens);
  const uint64_t step = std::max<uint64_t>(1, std::min<uint64_t>(course.max_step_tokens, course.max_tokens));
  const uint64_t pinned = course.NumPinned(all, layout.block_size());
  return {std::max<uint64_t>(1, std::min(layout.BlocksFor(course.span.window - 1 + step), all)), pinned};
}

class RingTable final : public BlockTable {
 public:
  RingTable(BlockPool& pool, const SequenceCourse& course)
      : BlockTable(pool, course), size_(SizeOf(pool.layout(), course)) {
    KVERN_CHECK(course.span.window > 0);
  }

  Status Fork(const BlockTable& table) override;
  Status Reserve(uint64_t num_tokens) override;
  uint64_t NumMissing(uint64_t) const override { return is_leased() ? 0 : size_.ring + size_.pinned; }
  void MarkComputed(uint64_t count) override;
  Status Truncate(uint64_t num_tokens) override;
  void Release() override;

 private:
  bool is_leased() const { return num_held() > 0; }
  uint64_t ring_slots() const { return size_.ring * block_size(); }
  bool IsPinned(uint64_t i) const { return course_.IsPinned(i, block_size()); }
  // The block that entry `i` names while a row may see it. Blocks before the pinned ones count as the ring's own: the
  // ring goes by position, whatever stands apart.
  BlockIndex BlockOf(uint64_t i) const {
    return IsPinned(i) ? apart_.blocks()[course_.NumPinned(i, block_size())] : lease_.blocks()[i % size_.ring];
  }
  Status Lease();
  // Entries for positions below `num_tokens`; those behind the window of a row at `next` name nothing. Those below
  // `first` stay as they are.
  void SetEntries(uint64_t num_tokens, uint64_t next, uint64_t first);
  // The first entry that a step may have changed: a window moves by less than a ring and a block at a time.
  uint64_t FirstChanged(uint64_t next) const {
    const uint64_t first_seen = course_.WindowBegin(next) / block_size();
    return first_seen - std::min(first_seen, size_.ring + 1);
  }
  // A block is full where the last entry that names it is.
  void SetState(BlockIndex block, bool is_full);

  const RingSize size_;
  BlockLease apart_;
  std::vector<BlockIndex> table_;
  uint64_t num_reserved_ = 0;  // Tokens that there is room for.
  uint64_t num_written_ = 0;   // Positions below it may have been written: those a ring behind it are lost.
};

Status RingTable::Lease() {
  KVERN_RETURN_IF_ERROR(CheckRoom(course_.max_tokens, size_.ring + size_.pinned));
  std::optional<BlockLease> ring = pool_.LeaseRun(static_cast<uint32_t>(size_.ring));
  lease_ = ring.has_value() ? *std::move(ring) : pool_.Lease(static_cast<uint32_t>(size_.ring)).value();
  apart_ = pool_.Lease(static_cast<uint32_t>(size_.pinned)).value();
  num_apart_ = size_.pinned;
  return Status::Ok();
}

Status RingTable::Reserve(uint64_t num_tokens) {
  KVERN_RETURN_IF_ERROR(CheckRoom(num_tokens, NumMissing(num_tokens)));
  if (num_tokens <= num_reserved_) return Status::Ok();
  if (num_tokens > ring_slots() && num_tokens - ring_slots() > course_.WindowBegin(num_tokens_)) {
    return Status::InvalidArgument("KV cache: a step of " + std::to_string(num_tokens - num_tokens_) +
                                   " tokens in a ring made for steps of " + std::to_string(course_.max_step_tokens));
  }
  if (!is_leased()) KVERN_RETURN_IF_ERROR(Lease());
  const uint64_t first_new = table_.size();
  SetEntries(num_tokens, num_tokens_, FirstChanged(num_tokens_));
  for (uint64_t i = first_new; i < table_.size(); ++i) SetState(table_[i], /*is_full=*/false);
  num_reserved_ = num_tokens;
  num_written_ = std::max(num_written_, num_tokens);
  return Status::Ok();
}

void RingTable::MarkComputed(uint64_t count) {
  KVERN_CHECK(count <= num_reserved_ - num_tokens_);
  const uint64_t first_open = num_tokens_ / block_size();
  num_tokens_ += count;
  for (uint64_t i = first_open; i < num_tokens_ / block_size(); ++i) {
    const bool is_last = IsPinned(i) || i + size_.ring >= table_.size();
    if (is_last) SetState(table_[i], /*is_full=*/true);
  }
  SetEntries(num_reserved_, num_tokens_, FirstChanged(num_tokens_));
}

Status RingTable::Truncate(uint64_t num_tokens) {
  KVERN_CHECK(num_tokens <= num_tokens_);
  const uint64_t num_lost = num_written_ - std::min(num_written_, ring_slots());
  if (num_tokens > 0 && course_.WindowBegin(num_tokens) < num_lost && num_tokens != num_tokens_) {
    return Status::InvalidArgument("KV cache: a row at position " + std::to_string(num_tokens) + " sees position " +
                                   std::to_string(course_.WindowBegin(num_tokens)) + ", the ring holds those from " +
                                   std::to_string(num_lost) + " on");
  }
  if (num_tokens == 0) num_written_ = 0;
  num_tokens_ = num_reserved_ = num_tokens;
  SetEntries(num_tokens, num_tokens, FirstChanged(num_tokens));
  for (const BlockIndex block : lease_.blocks()) SetState(block, /*is_full=*/false);
  for (const BlockIndex block : apart_.blocks()) SetState(block, /*is_full=*/false);
  const uint64_t num_full = num_tokens / block_size();
  for (uint64_t i = 0; i < num_full; ++i) {
    const bool is_last = IsPinned(i) || i + size_.ring >= table_.size();
    if (is_last && table_[i] != kNoBlock) SetState(table_[i], /*is_full=*/true);
  }
  return Status::Ok();
}

Status RingTable::Fork(const BlockTable& table) {
  const auto& other = static_cast<const RingTable&>(table);
  KVERN_CHECK(&pool_ == &other.pool_ && !is_leased());
  if (!other.is_leased()) return Status::Ok();
  KVERN_RETURN_IF_ERROR(Lease());
  const auto copy = [this](const BlockLease& from, const BlockLease& to) {
    for (size_t i = 0; i < from.blocks().size(); ++i) {
      pool_.Copy(from.blocks()[i], to.blocks()[i]);
      SetState(to.blocks()[i], pool_.state(from.blocks()[i]) == BlockState::kFull);
    }
  };
  copy(other.lease_, lease_);
  copy(other.apart_, apart_);
  num_tokens_ = other.num_tokens_;
  num_reserved_ = other.num_reserved_;
  num_written_ = other.num_written_;
  SetEntries(num_reserved_, num_tokens_, 0);
  return Status::Ok();
}

void RingTable::Release() {
  lease_.Release();
  apart_.Release();
  table_.clear();
  entries_ = {};
  num_apart_ = num_tokens_ = num_reserved_ = num_written_ = 0;
}

void RingTable::SetEntries(uint64_t num_tokens, uint64_t next, uint64_t first) {
  const uint64_t first_seen = course_.WindowBegin(next) / block_size();
  table_.resize(pool_.layout().BlocksFor(num_tokens), kNoBlock);
  for (uint64_t i = first; i < table_.size(); ++i) table_[i] = i >= first_seen || IsPinned(i) ? BlockOf(i) : kNoBlock;
  entries_ = table_;
}

void RingTable::SetState(BlockIndex block, bool is_full) {
  if ((pool_.state(block) == BlockState::kFull) == is_full) return;
  is_full ? pool_.MarkFull(block) : pool_.MarkFilling(block);
}

class Ring final : public Placement {
 public:
  std::string_view Name() const override { return "ring"; }
  bool gives_back() const override { return true; }
  // Its blocks are overwritten as positions go round.
  bool reuses_blocks() const override { return false; }
  Status Check(const AttentionSpan& span) const override {
    if (span.window > 0) return Status::Ok();
    return Status::InvalidArgument(
        "placement ring holds a window of the last tokens, and layers of this model see all: give a window "
        "(--window), or take placement paged");
  }

  uint64_t MostBlocks(const BlockLayout& layout, const SequenceCourse& course) const override {
    const RingSize size = SizeOf(layout, course);
    return size.ring + size.pinned;
  }
  uint64_t HeldBlocks(const BlockLayout& layout, const SequenceCourse& course, uint64_t) const override {
    return MostBlocks(layout, course);
  }
  std::unique_ptr<BlockTable> MakeTable(BlockPool& pool, const SequenceCourse& course) const override {
    return std::make_unique<RingTable>(pool, course);
  }
};

}  // namespace

const Placement& RingPlacement() {
  static const Ring kRing;
  return kRing;
}

}  // namespace kvern
