#include "kernels/attention.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/attention_tile.h"

namespace kvern {
namespace {

// Rows (token, head) of one KV head up to which K and V are read as stored: beyond, decoding them once per tile is
// cheaper than decoding them in the registers of every group of rows.
constexpr uint32_t kMaxRowsReadingStored = 12;
// Tokens of a sequence up to which its work is cut between splits; beyond, between ranges of tokens.
constexpr uint32_t kMaxTokensCutBySplits = 16;
// Sizes of a prefill tile in rows, best first: larger tiles decode K and V less often, smaller ones balance better.
constexpr uint32_t kPrefillTileRows[] = {8 * kAttentionRowBlock, 4 * kAttentionRowBlock, 2 * kAttentionRowBlock,
                                         kAttentionRowBlock};
constexpr uint32_t kTilesPerWorker = 4;
// Tasks of a worker are made smaller and more when they would have more splits.
constexpr uint32_t kSplitsPerTask = 16;
// Rows of sequences that share a prefix in one tile: with more of them, arithmetic hides that it is read again.
constexpr uint32_t kMaxSharingRows = 8 * kAttentionRowBlock;
// Reading a slot takes as long as multiplying it with about this many rows, whatever the head size.
constexpr uint32_t kRowsPerSlotRead = 14;

constexpr size_t kNoPartials = SIZE_MAX;

// One tile of the batch, before a layer's pointers are known.
struct TilePlan {
  uint32_t sequence;  // Whose block table leads to K and V.
  uint32_t kv_head;
  uint32_t token_begin, token_end;  // In State::tokens.
  uint32_t splits_offset;           // Of the splits that these tokens visit in State::splits.
  uint32_t split_begin, split_end;  // Among those.
  bool reads_stored;
  bool is_partial = false;                    // Other tiles have other splits of the same rows.
  uint32_t member_begin = 0, member_end = 0;  // In State::few_row_sequences: those whose rows these are.
};

// Tiles that a worker runs one after the other without asking for more.
struct Task {
  uint32_t tile_begin, tile_end;
  uint64_t cost;  // By which tasks of prefill are ordered.
};

// Splits that some tokens of a sequence visit: those of which one of them sees a slot, ascending.
struct VisitedSplits {
  uint32_t offset;  // In State::splits.
  uint32_t count;
};

// Tokens of a sequence with few rows in this step: their splits are cut between tasks.
struct FewRowSequence {
  uint32_t sequence;
  uint32_t token_begin, token_end;
  uint32_t splits_offset;          // In State::splits.
  uint32_t num_splits;             // Visited.
  uint32_t num_shared_splits = 0;  // Leading splits that tiles of several sequences have.
};

// Rows of one sequence and KV head whose splits are spread over several tiles: the last to finish folds them.
struct Merge {
  uint32_t first_partial = 0;         // The first visited split that has a partial result.
  std::atomic<uint32_t> num_done{0};  // Splits finished in the running layer; back at 0 when merged.

  Merge() = default;
  Merge(Merge&& other) noexcept : first_partial(other.first_partial) {}
};

bool IsCutBySplits(const SequenceRows& rows) { return rows.num_rows >= 1 && rows.num_rows <= kMaxTokensCutBySplits; }

// Cuts a line of units into `num_tasks` tasks: a task ends where the cost so far is closest to its even share.
class TaskCutter {
 public:
  TaskCutter(uint64_t total_cost, uint64_t num_tasks) : total_cost_(total_cost), num_tasks_(num_tasks) {}

  // Says whether a new task begins before the next unit, which costs `cost`.
  bool CutsBefore(uint64_t cost) {
    const uint64_t boundary = (num_cuts_ + 1) * total_cost_ / num_tasks_;
    const bool cuts = num_cuts_ + 1 < num_tasks_ && cost_ > 0 && cost_ + cost / 2 >= boundary;
    if (cuts) ++num_cuts_;
    cost_ += cost;
    return cuts;
  }

 private:
  uint64_t total_cost_, num_tasks_;
  uint64_t cost_ = 0, num_cuts_ = 0;
};

}  // namespace

// Tasks are taken one by one through `next_task`; the last worker that finds none left sets it back for the next layer,
// which the caller's barrier keeps from starting before. Which worker runs a task never changes a bit of the result.
struct AttentionPlan::State {
  const KernelTable* kernels = nullptr;
  std::span<const SequenceRows> sequences;
  AttentionShape shape = {1, 1, kGranuleSlots};
  uint32_t num_workers = 1;

  std::vector<AttentionToken> tokens;
  std::vector<uint32_t> splits;  // Lists of visited ones; without a window one of all, from 0 on, that serves everyone.
  std::vector<FewRowSequence> few_row_sequences;
  std::vector<TilePlan> uncut;  // What becomes tiles when it has been cut between splits.
  std::vector<TilePlan> tiles;
  std::vector<Task> tasks;
  std::vector<Merge> merges;  // [few_row_sequences][num_kv_heads]
  size_t num_partial_floats = 0;
  size_t scratch_stride = 0;  // Bytes from one worker's scratch to the next.
  AlignedBuffer scratch;
  AlignedBuffer partials;
  alignas(64) std::atomic<uint32_t> next_task{0};
  alignas(64) std::atomic<uint32_t> num_finished{0};

  uint32_t group_size() const { return shape.num_heads / shape.num_kv_heads; }
  uint32_t NumRows(const TilePlan& tile) const { return (tile.token_end - tile.token_begin) * group_size(); }
  Merge& MergeOf(uint32_t member, uint32_t kv_head) { return merges[member * shape.num_kv_heads + kv_head]; }

  void Clear();
  void AddTokens(const SequenceRows& rows);
  uint32_t EndOfTokensAlike(uint32_t token, uint32_t end) const;
  VisitedSplits AddSplits(uint32_t token_begin, uint32_t token_end);
  void AddSplitRange(size_t list_begin, uint64_t begin, uint64_t end);
  uint64_t Cost(const TilePlan& tile, uint32_t index) const;
  // ---- sequences with many rows
  void AddPrefillTasks();
  // ---- sequences with few
  void AddFewRowSequences();
  void AddSharedPrefix(const SharedPrefix& prefix);
  void AddUncut(TilePlan whole);
  void AddSplitTasks();
  void CutSplits(const TilePlan& whole, TaskCutter& cutter);
  void ReservePartials(uint32_t member);

  Status AllocateScratch(MemoryAllocator& allocator);
  AttentionTile MakeTile(const TilePlan& plan, const AttentionArgs& args, uint8_t* worker_scratch);
  uint64_t RunTask(const Task& task, const AttentionArgs& args, uint8_t* worker_scratch);
  void FinishSplits(const TilePlan& plan, const AttentionArgs& args, uint8_t* worker_scratch);
};

void AttentionPlan::State::Clear() {
  tokens.clear();
  splits.clear();
  few_row_sequences.clear();
  uncut.clear();
  tiles.clear();
  tasks.clear();
  merges.clear();
  num_partial_floats = 0;
  next_task.store(0, std::memory_order_relaxed);
  num_finished.store(0, std::memory_order_relaxed);
}

void AttentionPlan::State::AddTokens(const SequenceRows& rows) {
  for (uint32_t i = 0; i < rows.num_rows; ++i) {
    const uint32_t position = rows.first_position + i, window_begin = shape.span.WindowBegin(position);
    uint32_t first_slot = window_begin;
    if (!shape.span.pinned.empty()) first_slot = std::min(first_slot, shape.span.pinned.front().begin);
    tokens.push_back({rows.first_row + i, position, window_begin, first_slot / kAttentionSplitSlots, kNoPartials});
  }
}

// The end of those from `token` on (up to `end`, all of one sequence) that a tile may have together: pinned slots have
// queries of their own for all of them or for none.
uint32_t AttentionPlan::State::EndOfTokensAlike(uint32_t token, uint32_t end) const {
  const uint32_t first = tokens[token].position, last_alike = shape.span.PinnedQueryPosition();
  if (shape.span.pinned.empty() || first > last_alike) return end;
  return static_cast<uint32_t>(std::min<uint64_t>(end, uint64_t{token} + (last_alike - first) + 1));
}

// For consecutive tokens of a sequence. The work is that of the splits visited, wherever they stand.
VisitedSplits AttentionPlan::State::AddSplits(uint32_t token_begin, uint32_t token_end) {
  const AttentionToken& first = tokens[token_begin];
  const AttentionToken& last = tokens[token_end - 1];
  const uint64_t end = uint64_t{last.position} + 1;
  if (shape.span.window == 0) {
    AddSplitRange(0, splits.size() * kAttentionSplitSlots, end);
    return {0, last.position / kAttentionSplitSlots + 1};
  }
  const size_t list_begin = splits.size();
  for (const PositionRange& range : shape.span.pinned) {
    AddSplitRange(list_begin, range.begin, std::min(range.end, last.window_begin));
  }
  // Splits that the windows visit in any case, however many pinned slots they hold.
  while (splits.size() > list_begin && splits.back() >= first.window_begin / kAttentionSplitSlots) splits.pop_back();
  AddSplitRange(list_begin, first.window_begin, end);
  return {static_cast<uint32_t>(list_begin), static_cast<uint32_t>(splits.size() - list_begin)};
}

// Appends the splits that slots [begin, end) touch to the list that starts at list_begin, but for one that ends it.
void AttentionPlan::State::AddSplitRange(size_t list_begin, uint64_t begin, uint64_t end) {
  if (begin >= end) return;
  for (uint64_t split = begin / kAttentionSplitSlots; split <= (end - 1) / kAttentionSplitSlots; ++split) {
    if (splits.size() > list_begin && splits.back() == split) continue;
    splits.push_back(static_cast<uint32_t>(split));
  }
}

// Slots that are read times rows.
uint64_t AttentionPlan::State::Cost(const TilePlan& tile, uint32_t index) const {
  const uint32_t split = splits[tile.splits_offset + index];
  const AttentionToken& first = tokens[tile.token_begin];
  const AttentionToken& last = tokens[tile.token_end - 1];
  const uint64_t begin = uint64_t{split} * kAttentionSplitSlots;
  const uint64_t num_slots =
      SlotsSeenOfSplit(shape.span, last.position, split) +
      CommonPositions(first.window_begin, last.window_begin, begin, begin + kAttentionSplitSlots);
  return num_slots * std::max(NumRows(tile), kRowsPerSlotRead);
}

// Ranges of tokens, each over all its splits; the costliest first, so that the end is even.
void AttentionPlan::State::AddPrefillTasks() {
  uint32_t tile_tokens = 1;
  for (const uint32_t tile_rows : kPrefillTileRows) {
    tile_tokens = std::max<uint32_t>(1, tile_rows / group_size());
    uint64_t num_tiles = 0;
    for (const SequenceRows& rows : sequences) {
      if (!IsCutBySplits(rows)) num_tiles += (rows.num_rows + tile_tokens - 1) / tile_tokens;
    }
    if (num_tiles * shape.num_kv_heads >= static_cast<uint64_t>(kTilesPerWorker) * num_workers) break;
  }

  for (uint32_t s = 0; s < sequences.size(); ++s) {
    if (IsCutBySplits(sequences[s])) continue;
    auto token = static_cast<uint32_t>(tokens.size());
    AddTokens(sequences[s]);
    for (const auto last = static_cast<uint32_t>(tokens.size()); token < last;) {
      const uint32_t end = std::min(token + tile_tokens, EndOfTokensAlike(token, last));
      const VisitedSplits visited = AddSplits(token, end);
      for (uint32_t head = 0; head < shape.num_kv_heads; ++head) {
        const TilePlan tile{s, head, token, end, visited.offset, 0, visited.count, /*reads_stored=*/false};
        const auto first_tile = static_cast<uint32_t>(tiles.size());
        tasks.push_back({first_tile, first_tile + 1, 0});
        for (uint32_t index = 0; index < visited.count; ++index) tasks.back().cost += Cost(tile, index);
        tiles.push_back(tile);
      }
      token = end;
    }
  }
  std::stable_sort(tasks.begin(), tasks.end(), [](const Task& a, const Task& b) { return a.cost > b.cost; });
}

void AttentionPlan::State::AddFewRowSequences() {
  for (uint32_t s = 0; s < sequences.size(); ++s) {
    if (!IsCutBySplits(sequences[s])) continue;
    auto token = static_cast<uint32_t>(tokens.size());
    AddTokens(sequences[s]);
    for (const auto last = static_cast<uint32_t>(tokens.size()); token < last;) {
      const uint32_t end = EndOfTokensAlike(token, last);
      const VisitedSplits visited = AddSplits(token, end);
      few_row_sequences.push_back({s, token, end, visited.offset, visited.count});
      token = end;
    }
  }
  merges.resize(few_row_sequences.size() * shape.num_kv_heads);
}

// Makes tiles of the prefix's whole splits with the rows of as many of its sequences as fit.
void AttentionPlan::State::AddSharedPrefix(const SharedPrefix& prefix) {
  const auto is_before = [](const FewRowSequence& s, uint64_t sequence) { return s.sequence < sequence; };
  const auto index_of = [&](uint64_t sequence) {
    const auto first = few_row_sequences.begin();
    return static_cast<uint32_t>(std::lower_bound(first, few_row_sequences.end(), sequence, is_before) - first);
  };
  const uint32_t begin = index_of(prefix.first_sequence);
  const uint32_t end = index_of(uint64_t{prefix.first_sequence} + prefix.num_sequences);
  if (end - begin < 2) return;
  uint32_t num_tokens = prefix.num_tokens;
  for (uint32_t m = begin; m < end; ++m) {  // No row may see less than all of what it shares.
    num_tokens = std::min(num_tokens, sequences[few_row_sequences[m].sequence].first_position);
  }
  const uint32_t num_splits = num_tokens / kAttentionSplitSlots;
  if (num_splits == 0) return;

  const uint32_t num_rows =
      (few_row_sequences[end - 1].token_end - few_row_sequences[begin].token_begin) * group_size();
  const uint32_t num_tiles = (num_rows + kMaxSharingRows - 1) / kMaxSharingRows;
  uint32_t member = begin;
  for (uint32_t tile = 0; tile < num_tiles; ++tile) {
    const uint32_t first = member, last = begin + (tile + 1) * (end - begin) / num_tiles;
    for (; member < last; ++member) few_row_sequences[member].num_shared_splits = num_splits;
    if (first == last) continue;
    const FewRowSequence& front = few_row_sequences[first];
    AddUncut({front.sequence, 0, front.token_begin, few_row_sequences[last - 1].token_end, front.splits_offset, 0,
              num_splits, /*reads_stored=*/false, /*is_partial=*/true, first, last});
  }
}

void AttentionPlan::State::AddUncut(TilePlan whole) {
  whole.reads_stored = whole.token_end - whole.token_begin == 1 || NumRows(whole) <= kMaxRowsReadingStored;
  for (uint32_t head = 0; head < shape.num_kv_heads; ++head) {
    whole.kv_head = head;
    uncut.push_back(whole);
  }
}

// All splits of all KV heads stand in one line, which is cut into tasks of even cost.
void AttentionPlan::State::AddSplitTasks() {
  for (uint32_t m = 0; m < few_row_sequences.size(); ++m) {
    const FewRowSequence& member = few_row_sequences[m];
    AddUncut({member.sequence, 0, member.token_begin, member.token_end, member.splits_offset, member.num_shared_splits,
              member.num_splits, /*reads_stored=*/false, /*is_partial=*/member.num_shared_splits > 0, m, m + 1});
  }
  uint64_t total_cost = 0, num_units = 0;
  for (const TilePlan& whole : uncut) {
    for (uint32_t index = whole.split_begin; index < whole.split_end; ++index) total_cost += Cost(whole, index);
    num_units += whole.split_end - whole.split_begin;
  }
  if (num_units == 0) return;

  const uint64_t tasks_per_worker =
      num_workers == 1 ? 1 : std::clamp<uint64_t>(num_units / (uint64_t{num_workers} * kSplitsPerTask), 1, 4);
  TaskCutter cutter(total_cost, tasks_per_worker * num_workers);
  tasks.push_back({static_cast<uint32_t>(tiles.size()), static_cast<uint32_t>(tiles.size()), 0});
  for (const TilePlan& whole : uncut) CutSplits(whole, cutter);
  tasks.back().tile_end = static_cast<uint32_t>(tiles.size());
}

// Appends the splits of some rows to the last task and opens new tasks where the cutter says. Splits that stay in one
// task make one tile.
void AttentionPlan::State::CutSplits(const TilePlan& whole, TaskCutter& cutter) {
  const size_t first_tile = tiles.size();
  TilePlan tile = whole;
  for (uint32_t index = whole.split_begin; index < whole.split_end; ++index) {
    if (!cutter.CutsBefore(Cost(whole, index))) continue;
    if (tile.split_begin < index) {
      tile.split_end = index;
      tiles.push_back(tile);
      tile.split_begin = index;
    }
    const auto num_tiles = static_cast<uint32_t>(tiles.size());
    tasks.back().tile_end = num_tiles;
    tasks.push_back({num_tiles, num_tiles, 0});
  }
  tile.split_end = whole.split_end;
  tiles.push_back(tile);
  if (!whole.is_partial && tiles.size() - first_tile == 1) return;

  for (size_t t = first_tile; t < tiles.size(); ++t) tiles[t].is_partial = true;
  for (uint32_t m = whole.member_begin; m < whole.member_end; ++m) {
    ReservePartials(m);
    // The tile that begins with the first split folds its splits into the last of them.
    if (whole.split_begin == 0) MergeOf(m, whole.kv_head).first_partial = tiles[first_tile].split_end - 1;
  }
}

void AttentionPlan::State::ReservePartials(uint32_t member) {
  const FewRowSequence& sequence = few_row_sequences[member];
  if (tokens[sequence.token_begin].partials != kNoPartials) return;
  for (uint32_t t = sequence.token_begin; t < sequence.token_end; ++t) {
    tokens[t].partials = num_partial_floats;
    num_partial_floats += size_t{sequence.num_splits} * shape.num_heads * AttentionStateFloats(shape.head_dim);
  }
}

Status AttentionPlan::State::AllocateScratch(MemoryAllocator& allocator) {
  uint32_t max_rows = 0;
  for (const TilePlan& tile : tiles) max_rows = std::max(max_rows, NumRows(tile));
  scratch_stride = (AttentionScratchBytes(shape.head_dim, max_rows, !shape.span.pinned.empty()) + 127) / 128 * 128;
  const size_t scratch_bytes = scratch_stride * num_workers;
  if (scratch.size() < scratch_bytes) {
    scratch = AlignedBuffer();
    KVERN_ASSIGN_OR_RETURN(scratch, allocator.Allocate(scratch_bytes));
  }
  if (partials.size() < num_partial_floats * sizeof(float)) {
    partials = AlignedBuffer();
    KVERN_ASSIGN_OR_RETURN(partials, allocator.Allocate(num_partial_floats * sizeof(float)));
  }
  return Status::Ok();
}

AttentionTile AttentionPlan::State::MakeTile(const TilePlan& plan, const AttentionArgs& args, uint8_t* worker_scratch) {
  const size_t first_head = size_t{plan.kv_head} * group_size();
  AttentionTile tile;
  tile.kv = &args.kv;
  tile.block_table = sequences[plan.sequence].block_tables[shape.layer_group].data();
  tile.layer = args.layer;
  tile.kv_head = plan.kv_head;
  tile.group_size = group_size();
  tile.span = shape.span;
  tile.tokens = tokens.data() + plan.token_begin;
  tile.num_tokens = plan.token_end - plan.token_begin;
  tile.splits = splits.data() + plan.splits_offset;
  tile.split_begin = plan.split_begin;
  tile.split_end = plan.split_end;
  tile.scale = args.scale;
  tile.q = args.q + first_head * shape.head_dim;
  if (!shape.span.pinned.empty() && tile.tokens->position > shape.span.PinnedQueryPosition()) {
    tile.q_pinned = args.q_pinned + first_head * shape.head_dim;
  }
  tile.q_stride = args.q_stride;
  tile.out = args.out + first_head * shape.head_dim;
  tile.out_stride = args.out_stride;
  tile.reads_stored = plan.reads_stored;
  if (plan.is_partial) tile.partials = partials.as<float>() + first_head * AttentionStateFloats(shape.head_dim);
  tile.scratch = worker_scratch;
  return tile;
}

uint64_t AttentionPlan::State::RunTask(const Task& task, const AttentionArgs& args, uint8_t* worker_scratch) {
  uint64_t num_products = 0;
  AttentionTile tile = MakeTile(tiles[task.tile_begin], args, worker_scratch);
  for (uint32_t t = task.tile_begin; t < task.tile_end; ++t) {
    AttentionTile next;
    if (t + 1 < task.tile_end) {
      next = MakeTile(tiles[t + 1], args, worker_scratch);
      tile.next = &next;
    }
    num_products += kernels->attention_tile(tile);
    if (tiles[t].is_partial) FinishSplits(tiles[t], args, worker_scratch);
    tile = next;
  }
  return num_products;
}

// Counts the tile's splits as done for each of its sequences, and merges those that have all of theirs.
void AttentionPlan::State::FinishSplits(const TilePlan& plan, const AttentionArgs& args, uint8_t* worker_scratch) {
  const uint32_t num_splits = plan.split_end - plan.split_begin;
  for (uint32_t m = plan.member_begin; m < plan.member_end; ++m) {
    Merge& merge = MergeOf(m, plan.kv_head);
    const FewRowSequence& member = few_row_sequences[m];
    // acq_rel: the partial results of all others are visible to the last one.
    if (merge.num_done.fetch_add(num_splits, std::memory_order_acq_rel) + num_splits != member.num_splits) continue;
    merge.num_done.store(0, std::memory_order_relaxed);  // Nobody looks before the next layer.
    kernels->attention_merge(
        MakeTile({member.sequence, plan.kv_head, member.token_begin, member.token_end, member.splits_offset,
                  merge.first_partial, member.num_splits, plan.reads_stored, /*is_partial=*/true},
                 args, worker_scratch));
  }
}

AttentionPlan::AttentionPlan() : state_(std::make_unique<State>()) {}
AttentionPlan::~AttentionPlan() = default;

Status AttentionPlan::Build(const KernelTable& kernels, std::span<const SequenceRows> sequences,
                            std::span<const SharedPrefix> shared_prefixes, const AttentionShape& shape,
                            uint32_t num_workers, MemoryAllocator& allocator) {
  KVERN_DCHECK(num_workers >= 1 && shape.num_kv_heads >= 1);
  KVERN_DCHECK(shape.num_heads >= 1 && shape.num_heads % shape.num_kv_heads == 0);
  KVERN_DCHECK(shape.head_dim >= kGranuleSlots && shape.head_dim % kGranuleSlots == 0);
  KVERN_DCHECK(shape.span.window > 0 || shape.span.pinned.empty());
  State& state = *state_;
  state.Clear();
  state.kernels = &kernels;
  state.sequences = sequences;
  state.shape = shape;
  state.num_workers = num_workers;

  state.AddPrefillTasks();
  state.AddFewRowSequences();
  if (shape.span.window == 0) {
    for (const SharedPrefix& prefix : shared_prefixes) state.AddSharedPrefix(prefix);
  }
  state.AddSplitTasks();
  return state.AllocateScratch(allocator);
}

uint64_t AttentionPlan::Run(const AttentionArgs& args, Worker& worker) {
  State& state = *state_;
  KVERN_DCHECK(worker.count() <= state.num_workers);
  KVERN_DCHECK(args.num_heads == state.shape.num_heads && args.kv.num_kv_heads == state.shape.num_kv_heads);
  KVERN_DCHECK(args.q_pinned != nullptr || state.shape.span.pinned.empty());
  KVERN_DCHECK(args.kv.head_dim == state.shape.head_dim && args.kv.block_size % kGranuleSlots == 0);
  uint8_t* const worker_scratch = state.scratch.data() + state.scratch_stride * worker.index();
  const uint32_t num_tasks = static_cast<uint32_t>(state.tasks.size());

  uint64_t num_products = 0;
  for (uint32_t t; (t = state.next_task.fetch_add(1, std::memory_order_relaxed)) < num_tasks;) {
    num_products += state.RunTask(state.tasks[t], args, worker_scratch);
  }
  if (state.num_finished.fetch_add(1, std::memory_order_acq_rel) + 1 == worker.count()) {
    state.num_finished.store(0, std::memory_order_relaxed);
    state.next_task.store(0, std::memory_order_relaxed);
  }
  return num_products;
}

}  // namespace kvern
