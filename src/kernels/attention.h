// Causal attention over the paged KV cache, cut into tiles that workers take one by one.
//   out[r,h,:] = sum_t softmax_t(scale * dot(q[r,h,:], k[t,g,:])) * v[t,g,:],  g = h / (num_heads / num_kv_heads)
// over the slots t that row r sees under the span of its layer group (kv_view.h): without a window all up to its own
// position; with one, the last of these and the pinned ones. Pinned slots before the window are scored with q_pinned.
// What no row of a tile sees is not read and its blocks are not looked up: work, memory and time of a token depend on
// the span, not on its position.
// Steps and their order (docs/numerics.md) are those of a row alone: a tile, a chunk of prefill, a decode step and any
// number of workers give the same bits. All query heads of a KV head share one pass over a block, and so do sequences
// with a prefix in common.
// Source: one-pass softmax, arXiv:1805.02867 alg. 3; split over positions, arXiv:2311.01282; paging, arXiv:2309.06180.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/thread_pool.h"
#include "kernels/kernel_table.h"

namespace kvern {

struct AttentionArgs {
  const float* q;   // [rows][q_stride]: num_heads x head_dim per row.
  size_t q_stride;  // In floats.
  float* out;       // [rows][out_stride], must not overlap q.
  size_t out_stride;
  KvView kv;
  uint32_t layer;
  uint32_t num_heads;  // A multiple of kv.num_kv_heads.
  float scale;         // Usually 1 / sqrt(head_dim).
  // The queries as pinned slots see them, laid out like q; null where the span has none. Rows at positions up to
  // PinnedQueryPosition hold the same bits as in q.
  const float* q_pinned = nullptr;
};

struct AttentionShape {
  uint32_t num_heads;  // A multiple of num_kv_heads.
  uint32_t num_kv_heads;
  uint32_t head_dim;         // A multiple of 16.
  uint32_t layer_group = 0;  // Whose block tables and span these are.
  AttentionSpan span = {};
};

// The cut of one batch into tiles: built once per step on one thread, used for every layer.
class AttentionPlan {
 public:
  AttentionPlan();
  ~AttentionPlan();

  // Cuts the batch for `num_workers`. `sequences`, the span and what they point to must stay valid until the next
  // Build. Sequences with more than a few rows in this step read a shared prefix for themselves, and so do all under a
  // window. kResourceExhausted when scratch cannot be allocated.
  Status Build(const KernelTable& kernels, std::span<const SequenceRows> sequences,
               std::span<const SharedPrefix> shared_prefixes, const AttentionShape& shape, uint32_t num_workers,
               MemoryAllocator& allocator);

  // This worker's share of one layer's attention. Called by every worker of the region with the same `args`; on return
  // from all of them (a barrier is the caller's) `out` is complete. Returns the query-key products that the rows of its
  // tiles needed; over all workers these are the products of each sequence alone.
  uint64_t Run(const AttentionArgs& args, Worker& worker);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvern
