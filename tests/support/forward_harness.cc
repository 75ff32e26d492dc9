#include "tests/support/forward_harness.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <numeric>

#include "base/check.h"
#include "base/checked_math.h"
#include "kvcache/block_layout.h"

namespace kvern {
namespace {

std::string CompareFloats(const char* what, const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size())
    return std::string(what) + ": sizes " + std::to_string(a.size()) + ", " + std::to_string(b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const bool both_nan = std::isnan(a[i]) && std::isnan(b[i]);
    if (!both_nan && std::memcmp(&a[i], &b[i], sizeof(float)) != 0) {
      return std::string(what) + "[" + std::to_string(i) + "]: " + std::to_string(a[i]) + " != " + std::to_string(b[i]);
    }
  }
  return "";
}

// The blocks of one layer group for all sequences: in poisoned memory, dealt in a shuffled but reproducible order.
class GroupBlocks {
 public:
  GroupBlocks(const ModelConfig& config, const LayerGroup& group, const std::vector<std::vector<TokenId>>& sequences,
              const ForwardPlan& plan)
      : span_(group.window == 0 ? plan.span : AttentionSpan{group.window}), tables_(sequences.size()) {
    const auto layout = BlockLayout::Create(
        {.num_layers = group.num_layers, .num_kv_heads = config.num_kv_heads, .head_dim = config.head_dim},
        plan.block_size, plan.kv_type, plan.v_type.value_or(plan.kv_type));
    KVERN_CHECK(layout.ok());
    block_bytes_ = layout->block_bytes();
    uint64_t num_blocks = 0;
    for (const auto& tokens : sequences) num_blocks += layout->BlocksFor(tokens.size());
    std::vector<BlockIndex> order(num_blocks);
    std::iota(order.begin(), order.end(), 0);
    uint64_t state = 12345 + group.window;
    for (size_t i = order.size(); i > 1; --i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      std::swap(order[i - 1], order[(state >> 33) % i]);
    }
    auto memory = HeapAllocator().Allocate(num_blocks * block_bytes_);
    KVERN_CHECK(memory.ok());
    memory_ = std::move(memory).value();
    std::memset(memory_.data(), 0xff, memory_.size());
    size_t dealt = 0;
    for (size_t s = 0; s < sequences.size(); ++s) {
      for (uint64_t b = layout->BlocksFor(sequences[s].size()); b > 0; --b) tables_[s].push_back(order[dealt++]);
    }
    view_ = layout->View(memory_.data());
    if (plan.has_key_centres && CentresKeys(plan.kv_type) && span_.pinned.empty()) {
      key_centres_.resize(size_t{group.num_layers} * config.num_kv_heads * config.head_dim);
      for (size_t i = 0; i < key_centres_.size(); ++i) {
        key_centres_[i] = static_cast<float>(static_cast<int>(i * 37 % 64) - 32) / 64;
      }
      view_.key_centres = key_centres_.data();
    }
  }

  const AttentionSpan& span() const { return span_; }
  const KvView& view() const { return view_; }
  const std::vector<BlockIndex>& table(size_t sequence) const { return tables_[sequence]; }
  // The table of a step whose first row stands at `position`, with entries that lead nowhere for blocks that no row
  // sees.
  std::vector<BlockIndex> TableOfSeen(size_t sequence, uint32_t position) const {
    std::vector<BlockIndex> seen = tables_[sequence];
    for (uint64_t b = 0; b < position / view_.block_size; ++b) {
      const uint64_t begin = b * view_.block_size, end = begin + view_.block_size;
      // Later rows see no more of it than the first one, but for pinned slots.
      bool is_seen = span_.SlotsSeen(position, begin, end) > 0;
      for (const PositionRange& r : span_.pinned) is_seen |= CommonPositions(begin, end, r.begin, r.end) > 0;
      if (!is_seen) seen[b] = UINT32_MAX;
    }
    return seen;
  }
  // Nothing of what the blocks of `sequence` hold is left.
  void Poison(size_t sequence) {
    for (BlockIndex block : tables_[sequence]) std::memset(memory_.data() + block * block_bytes_, 0xff, block_bytes_);
  }

 private:
  const AttentionSpan span_;
  uint64_t block_bytes_ = 0;
  AlignedBuffer memory_;
  std::vector<std::vector<BlockIndex>> tables_;
  std::vector<float> key_centres_;
  KvView view_;
};

}  // namespace

std::string ForwardPlan::ToString() const {
  return "block size " + std::to_string(block_size) + ", chunk " + (chunk == 0 ? "whole" : std::to_string(chunk)) +
         ", K " + std::string(KvTypeName(kv_type)) + ", V " + std::string(KvTypeName(v_type.value_or(kv_type))) +
         (is_uncached ? ", uncached" : "") + (span.window > 0 ? ", window " + std::to_string(span.window) : "") +
         (span.pinned.empty() ? "" : ", pinned up to " + std::to_string(span.PinnedEnd()));
}

std::string ForwardTrace::FirstDifference(const ForwardTrace& other) const {
  std::string difference = CompareFloats("k", k, other.k);
  if (difference.empty()) difference = CompareFloats("v", v, other.v);
  if (difference.empty()) difference = CompareFloats("logits", logits, other.logits);
  return difference;
}

ForwardOutcome RunForward(Model& model, const KernelTable& kernels, const std::vector<std::vector<TokenId>>& sequences,
                          const ForwardPlan& plan) {
  const ModelConfig& config = model.config();
  std::deque<GroupBlocks> groups;
  ForwardBatch batch;
  for (size_t g = 0; g < config.layer_groups.size(); ++g) {
    const GroupBlocks& group = groups.emplace_back(config, config.layer_groups[g], sequences, plan);
    batch.kv[g] = group.view();
    batch.spans[g] = group.span();
  }

  ForwardOutcome outcome;
  outcome.traces.resize(sequences.size());
  for (size_t s = 0; s < sequences.size(); ++s)
    outcome.traces[s].logits.resize(sequences[s].size() * config.vocab_size);

  std::vector<uint32_t> done(sequences.size(), 0);
  while (true) {
    std::vector<TokenId> tokens;
    std::vector<SequenceRows> rows;
    std::deque<std::vector<BlockIndex>> step_tables;
    std::vector<uint32_t> logit_rows;
    std::vector<float*> targets;
    for (size_t s = 0; s < sequences.size(); ++s) {
      const auto total = static_cast<uint32_t>(sequences[s].size());
      if (done[s] == total) continue;
      const uint32_t end = plan.chunk == 0 ? total : std::min(total, done[s] + plan.chunk);
      const uint32_t begin = plan.is_uncached ? 0 : done[s];
      rows.push_back(
          {.first_row = static_cast<uint32_t>(tokens.size()), .num_rows = end - begin, .first_position = begin});
      for (size_t g = 0; g < groups.size(); ++g) {
        if (plan.is_uncached) groups[g].Poison(s);
        rows.back().block_tables[g] = step_tables.emplace_back(groups[g].TableOfSeen(s, begin));
      }
      for (uint32_t i = begin; i < end; ++i) {
        if (i >= done[s]) {
          logit_rows.push_back(static_cast<uint32_t>(tokens.size()));
          targets.push_back(&outcome.traces[s].logits[static_cast<size_t>(i) * config.vocab_size]);
        }
        tokens.push_back(sequences[s][i]);
      }
      done[s] = end;
    }
    if (tokens.empty()) break;

    std::vector<float> logits(logit_rows.size() * config.vocab_size);
    batch.tokens = tokens;
    batch.sequences = rows;
    batch.logit_rows = logit_rows;
    const auto stats = model.Forward(batch, logits);
    KVERN_CHECK(stats.ok());
    outcome.rows_computed += stats->rows_computed;
    outcome.query_key_products += stats->query_key_products;
    for (size_t i = 0; i < targets.size(); ++i) {
      std::memcpy(targets[i], &logits[i * config.vocab_size], config.vocab_size * sizeof(float));
    }
  }

  const size_t row_values = static_cast<size_t>(config.num_kv_heads) * config.head_dim;
  for (size_t s = 0; s < sequences.size(); ++s) {
    ForwardTrace& trace = outcome.traces[s];
    trace.k.resize(config.num_layers * sequences[s].size() * row_values);
    trace.v.resize(trace.k.size());
    size_t at = 0;
    for (const LayerPlace& place : config.layer_places) {
      const GroupBlocks& group = groups[place.group];
      for (uint32_t i = 0; i < sequences[s].size(); ++i, at += row_values) {
        kernels.load_kv(group.view(), place.index, group.table(s)[i / plan.block_size], i % plan.block_size,
                        &trace.k[at], &trace.v[at]);
      }
    }
  }
  return outcome;
}

}  // namespace kvern
