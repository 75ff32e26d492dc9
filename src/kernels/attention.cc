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
constexpr uint32_t kPrefillTileRows[] = {4 * kAttentionRowBlock, 2 * kAttentionRowBlock, kAttentionRowBlock};
constexpr uint32_t kTilesPerWorker = 4;
constexpr uint32_t kSplitsPerTask =
    16;  // Tasks of a worker are made smaller and more when they would have more splits.

constexpr uint32_t kNoGroup = UINT32_MAX;

// One tile of the batch, before a layer's pointers are known.
struct TilePlan {
  uint32_t sequence;
  uint32_t kv_head;
  uint32_t token_begin, token_end;
  uint32_t split_begin, split_end;
  uint32_t group;  // Index of the MergeGroup that the tile is a part of, or kNoGroup.
  bool reads_stored;
};

// Tiles that a worker runs one after the other without asking for more.
struct Task {
  uint32_t tile_begin, tile_end;
  uint64_t cost;  // Query-key products.
};

// Rows of one KV head whose splits are spread over several tasks: the last to finish merges them.
struct MergeGroup {
  size_t partials;  // Offset in floats.
  uint32_t num_splits;
  std::atomic<uint32_t> num_done{0};  // Splits finished in the running layer; back at 0 when merged.

  MergeGroup(size_t offset, uint32_t splits) : partials(offset), num_splits(splits) {}
  MergeGroup(MergeGroup&& other) noexcept : partials(other.partials), num_splits(other.num_splits) {}
};

uint32_t NumSplits(uint32_t last_position) { return last_position / kAttentionSplitSlots + 1; }

// Needed query-key products of tokens [token_begin, token_end) against the given splits, for one query head.
uint64_t NumProducts(const SequenceRows& rows, const TilePlan& tile) {
  const uint64_t begin = static_cast<uint64_t>(tile.split_begin) * kAttentionSplitSlots;
  const uint64_t end = static_cast<uint64_t>(tile.split_end) * kAttentionSplitSlots;
  uint64_t sum = 0;
  for (uint32_t token = tile.token_begin; token < tile.token_end; ++token) {
    const uint64_t visible = static_cast<uint64_t>(rows.first_position) + token + 1;
    if (visible > begin) sum += std::min(visible, end) - begin;
  }
  return sum;
}

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
  uint32_t num_heads = 0;
  uint32_t num_kv_heads = 1;
  uint32_t head_dim = 0;
  uint32_t num_workers = 1;

  std::vector<TilePlan> tiles;
  std::vector<Task> tasks;
  std::vector<MergeGroup> groups;
  size_t num_partial_floats = 0;
  size_t scratch_stride = 0;  // Bytes from one worker's scratch to the next.
  AlignedBuffer scratch;
  AlignedBuffer partials;
  alignas(64) std::atomic<uint32_t> next_task{0};
  alignas(64) std::atomic<uint32_t> num_finished{0};

  uint32_t group_size() const { return num_heads / num_kv_heads; }

  void AddPrefillTasks();
  void AddSplitTasks();
  TilePlan WholeSequence(uint32_t sequence, uint32_t kv_head) const;
  void AddSplits(const TilePlan& whole, TaskCutter& cutter);
  Status AllocateScratch(MemoryAllocator& allocator);
  AttentionTile MakeTile(const TilePlan& plan, const AttentionArgs& args, uint8_t* worker_scratch);
  uint64_t RunTask(const Task& task, const AttentionArgs& args, uint8_t* worker_scratch);
};

// Ranges of tokens, each over all its splits; the costliest first, so that the end is even.
void AttentionPlan::State::AddPrefillTasks() {
  uint32_t tile_tokens = 1;
  for (const uint32_t tile_rows : kPrefillTileRows) {
    tile_tokens = std::max<uint32_t>(1, tile_rows / group_size());
    uint64_t num_tiles = 0;
    for (const SequenceRows& rows : sequences) {
      if (!IsCutBySplits(rows)) num_tiles += (rows.num_rows + tile_tokens - 1) / tile_tokens;
    }
    if (num_tiles * num_kv_heads >= static_cast<uint64_t>(kTilesPerWorker) * num_workers) break;
  }

  for (uint32_t s = 0; s < sequences.size(); ++s) {
    const SequenceRows& rows = sequences[s];
    if (IsCutBySplits(rows)) continue;
    for (uint32_t begin = 0; begin < rows.num_rows; begin += tile_tokens) {
      const uint32_t end = std::min(begin + tile_tokens, rows.num_rows);
      const uint32_t num_splits = NumSplits(rows.first_position + end - 1);
      for (uint32_t head = 0; head < num_kv_heads; ++head) {
        const TilePlan tile{s, head, begin, end, 0, num_splits, kNoGroup, false};
        const uint32_t index = static_cast<uint32_t>(tiles.size());
        tasks.push_back({index, index + 1, NumProducts(rows, tile)});
        tiles.push_back(tile);
      }
    }
  }
  std::stable_sort(tasks.begin(), tasks.end(), [](const Task& a, const Task& b) { return a.cost > b.cost; });
}

// All splits of all KV heads of the sequences with few tokens stand in one line, which is cut into tasks of even cost.
void AttentionPlan::State::AddSplitTasks() {
  uint64_t total_cost = 0, num_units = 0;
  for (uint32_t s = 0; s < sequences.size(); ++s) {
    if (!IsCutBySplits(sequences[s])) continue;
    const TilePlan whole = WholeSequence(s, 0);
    total_cost += NumProducts(sequences[s], whole) * num_kv_heads;
    num_units += static_cast<uint64_t>(whole.split_end) * num_kv_heads;
  }
  if (num_units == 0) return;

  const uint64_t tasks_per_worker =
      num_workers == 1 ? 1 : std::clamp<uint64_t>(num_units / (uint64_t{num_workers} * kSplitsPerTask), 1, 4);
  TaskCutter cutter(total_cost, tasks_per_worker * num_workers);
  tasks.push_back({static_cast<uint32_t>(tiles.size()), static_cast<uint32_t>(tiles.size()), 0});
  for (uint32_t s = 0; s < sequences.size(); ++s) {
    if (!IsCutBySplits(sequences[s])) continue;
    for (uint32_t head = 0; head < num_kv_heads; ++head) AddSplits(WholeSequence(s, head), cutter);
  }
  tasks.back().tile_end = static_cast<uint32_t>(tiles.size());
}

TilePlan AttentionPlan::State::WholeSequence(uint32_t sequence, uint32_t kv_head) const {
  const SequenceRows& rows = sequences[sequence];
  const bool reads_stored = rows.num_rows == 1 || rows.num_rows * group_size() <= kMaxRowsReadingStored;
  return {sequence, kv_head,     0, rows.num_rows, 0, NumSplits(rows.first_position + rows.num_rows - 1),
          kNoGroup, reads_stored};
}

// Appends the splits of one (sequence, KV head) to the last task and opens new tasks where the cutter says. Splits that
// stay in one task make one tile, which needs no merge.
void AttentionPlan::State::AddSplits(const TilePlan& whole, TaskCutter& cutter) {
  const size_t first_tile = tiles.size();
  TilePlan tile = whole;
  for (uint32_t split = 0; split < whole.split_end; ++split) {
    TilePlan unit = whole;
    unit.split_begin = split;
    unit.split_end = split + 1;
    const uint64_t cost = NumProducts(sequences[whole.sequence], unit);
    if (cutter.CutsBefore(cost)) {
      if (tile.split_begin < split) {
        tile.split_end = split;
        tiles.push_back(tile);
        tile.split_begin = split;
      }
      const uint32_t num_tiles = static_cast<uint32_t>(tiles.size());
      tasks.back().tile_end = num_tiles;
      tasks.push_back({num_tiles, num_tiles, 0});
    }
    tasks.back().cost += cost;
  }
  tile.split_end = whole.split_end;
  tiles.push_back(tile);
  if (tiles.size() - first_tile == 1) return;

  for (size_t t = first_tile; t < tiles.size(); ++t) tiles[t].group = static_cast<uint32_t>(groups.size());
  groups.emplace_back(num_partial_floats, whole.split_end);
  const uint32_t num_rows = (whole.token_end - whole.token_begin) * group_size();
  num_partial_floats += static_cast<size_t>(whole.split_end) * num_rows * AttentionStateFloats(head_dim);
}

Status AttentionPlan::State::AllocateScratch(MemoryAllocator& allocator) {
  uint32_t max_rows = 0;
  for (const TilePlan& tile : tiles) max_rows = std::max(max_rows, (tile.token_end - tile.token_begin) * group_size());
  scratch_stride = (AttentionScratchBytes(head_dim, max_rows) + 127) / 128 * 128;
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
  const SequenceRows& rows = sequences[plan.sequence];
  const size_t first_head = size_t{plan.kv_head} * group_size() * head_dim;
  AttentionTile tile;
  tile.kv = &args.kv;
  tile.block_table = rows.block_table.data();
  tile.layer = args.layer;
  tile.kv_head = plan.kv_head;
  tile.group_size = group_size();
  tile.first_position = rows.first_position;
  tile.token_begin = plan.token_begin;
  tile.token_end = plan.token_end;
  tile.split_begin = plan.split_begin;
  tile.split_end = plan.split_end;
  tile.scale = args.scale;
  tile.q = args.q + rows.first_row * args.q_stride + first_head;
  tile.q_stride = args.q_stride;
  tile.out = args.out + rows.first_row * args.out_stride + first_head;
  tile.out_stride = args.out_stride;
  tile.reads_stored = plan.reads_stored;
  if (plan.group != kNoGroup) tile.partials = partials.as<float>() + groups[plan.group].partials;
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

    if (tiles[t].group != kNoGroup) {
      MergeGroup& group = groups[tiles[t].group];
      const uint32_t num_splits = tile.split_end - tile.split_begin;
      // acq_rel: the partial results of all others are visible to the last one.
      if (group.num_done.fetch_add(num_splits, std::memory_order_acq_rel) + num_splits == group.num_splits) {
        group.num_done.store(0, std::memory_order_relaxed);  // Nobody looks before the next layer.
        kernels->attention_merge(tile);
      }
    }
    tile = next;
  }
  return num_products;
}

AttentionPlan::AttentionPlan() : state_(std::make_unique<State>()) {}
AttentionPlan::~AttentionPlan() = default;

Status AttentionPlan::Build(const KernelTable& kernels, std::span<const SequenceRows> sequences, uint32_t num_heads,
                            uint32_t num_kv_heads, uint32_t head_dim, uint32_t num_workers,
                            MemoryAllocator& allocator) {
  KVERN_DCHECK(num_workers >= 1 && num_kv_heads >= 1 && num_heads >= 1 && num_heads % num_kv_heads == 0);
  KVERN_DCHECK(head_dim >= kGranuleSlots && head_dim % kGranuleSlots == 0);
  State& state = *state_;
  state.kernels = &kernels;
  state.sequences = sequences;
  state.num_heads = num_heads;
  state.num_kv_heads = num_kv_heads;
  state.head_dim = head_dim;
  state.num_workers = num_workers;
  state.tiles.clear();
  state.tasks.clear();
  state.groups.clear();
  state.num_partial_floats = 0;
  state.next_task.store(0, std::memory_order_relaxed);
  state.num_finished.store(0, std::memory_order_relaxed);

  state.AddPrefillTasks();
  state.AddSplitTasks();
  return state.AllocateScratch(allocator);
}

uint64_t AttentionPlan::Run(const AttentionArgs& args, Worker& worker) {
  State& state = *state_;
  KVERN_DCHECK(worker.count() <= state.num_workers);
  KVERN_DCHECK(args.num_heads == state.num_heads && args.kv.num_kv_heads == state.num_kv_heads);
  KVERN_DCHECK(args.kv.head_dim == state.head_dim && args.kv.block_size % kGranuleSlots == 0);
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
