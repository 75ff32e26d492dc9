// Model: a transformer that maps a batch of token rows to logits. It knows tensors and kernels, never a pool, a request
// or a tokenizer: keys and values live wherever the view of the batch points.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/aligned_buffer.h"
#include "base/thread_pool.h"
#include "gguf/gguf_file.h"
#include "kernels/kernel_table.h"
#include "kernels/kv_view.h"
#include "kvern/options.h"
#include "kvern/tokenizer.h"
#include "model/model_config.h"

namespace kvern {

// Sees the residual stream after the embedding (layer 0) and after each layer (1 .. num_layers), before the final norm.
// Called by one worker while the others go on; x: [rows][stride], of which the first `width` values count.
using HiddenObserver = std::function<void(uint32_t layer, const float* x, size_t stride)>;

// Queries, keys and values of all rows in one layer.
struct AttentionRows {
  uint32_t layer = 0;
  bool is_rotated = false;   // False: before RoPE; true: as attention reads them and the cache stores them.
  const float* q = nullptr;  // [rows][q_stride], num_heads * head_dim values count.
  size_t q_stride = 0;
  const float* k = nullptr;  // [rows][kv_stride], num_kv_heads * head_dim values count; v likewise.
  const float* v = nullptr;
  size_t kv_stride = 0;
  float scale = 0;  // Of a query-key product before softmax.
};
// Sees each layer twice, before RoPE and after it. Called by one worker while the others wait or only read the rows.
using AttentionObserver = std::function<void(const AttentionRows& rows)>;

// May change the keys (rotated) and values of a row in one layer before they are stored: k and v, each of num_kv_heads
// * head_dim values. Called by several workers at once, each with rows of its own.
using KvEditor = std::function<void(uint32_t layer, std::span<float> k, std::span<float> v)>;

// One step's rows. The K and V of every row are written to its slot (block position / block_size of its sequence's
// table, slot position % block_size) before attention reads them; those of all earlier positions must be there already.
struct ForwardBatch {
  std::span<const TokenId> tokens;                        // [rows], each in [0, vocab_size).
  std::span<const SequenceRows> sequences;                // Disjoint, ascending, covering all rows.
  std::array<KvView, kMaxLayerGroups> kv;                 // One for each layer group of the model.
  std::span<const uint32_t> logit_rows;                   // Rows whose logits are wanted, ascending; may be empty.
  std::array<AttentionSpan, kMaxLayerGroups> spans = {};  // What the rows see in each layer group.
  // Leading slots that sequences have in common in layer group 0; may be empty, and is where that has a window.
  std::span<const SharedPrefix> shared_prefixes = {};
  const HiddenObserver* observer = nullptr;  // For tests and diagnostics, as is the next.
  const AttentionObserver* attention_observer = nullptr;
  const KvEditor* kv_editor = nullptr;  // For measuring what a way to store them would cost.
};

// What a step really did, counted where it is done.
struct ForwardStats {
  uint64_t rows_computed = 0;       // Tokens whose K and V were computed, each over all layers.
  uint64_t query_key_products = 0;  // Needed ones, over all layers and heads.
  uint64_t kv_values_lost = 0;      // Of K and V, that the codecs could not hold (KernelTable::store_kv).
};

struct ModelOptions {
  ActivationMode activations = ActivationMode::kInt8;
  const KernelTable* kernels = nullptr;  // Required.
  ThreadPool* pool = nullptr;            // Required; must outlive the model.
  MemoryAllocator* allocator = nullptr;  // Required; for weights and step buffers.
  // Called from the loading thread with the file bytes packed so far; false cancels (kCancelled).
  std::function<bool(uint64_t bytes_done, uint64_t bytes_total)> progress = {};
};

class Model {
 public:
  virtual ~Model() = default;

  virtual const ModelConfig& config() const = 0;
  // Bytes of packed weights in memory.
  virtual uint64_t weight_bytes() const = 0;

  // logits: [logit_rows.size()][vocab_size]. Bits depend on each row's own sequence only, not on what else is in the
  // batch. kResourceExhausted when step buffers cannot be allocated. One caller at a time.
  virtual Result<ForwardStats> Forward(const ForwardBatch& batch, std::span<float> logits) = 0;
};

// Packs the weights of `file` (which may be closed afterwards) for its architecture. kUnsupported for an unknown
// architecture or tensor type, kCorruption for missing or misshapen tensors and values that are not finite.
Result<std::unique_ptr<Model>> LoadModel(const GgufFile& file, const ModelOptions& options);

}  // namespace kvern
