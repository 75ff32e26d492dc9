#include "tests/support/forward_harness.h"

#include <algorithm>
#include <cmath>
#include <cstring>
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

}  // namespace

std::string ForwardPlan::ToString() const {
  return "block size " + std::to_string(block_size) + ", chunk " + (chunk == 0 ? "whole" : std::to_string(chunk)) +
         ", K " + std::string(KvTypeName(kv_type)) + ", V " + std::string(KvTypeName(v_type.value_or(kv_type))) +
         (is_uncached ? ", uncached" : "");
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
  const auto layout = BlockLayout::Create(
      {.num_layers = config.num_layers, .num_kv_heads = config.num_kv_heads, .head_dim = config.head_dim},
      plan.block_size, plan.kv_type, plan.v_type.value_or(plan.kv_type));
  KVERN_CHECK(layout.ok());

  // Blocks of all sequences in one poisoned buffer, dealt in a shuffled but reproducible order.
  std::vector<std::vector<BlockIndex>> tables(sequences.size());
  uint64_t num_blocks = 0;
  for (const auto& tokens : sequences) num_blocks += layout->BlocksFor(tokens.size());
  std::vector<BlockIndex> order(num_blocks);
  std::iota(order.begin(), order.end(), 0);
  uint64_t state = 12345;
  for (size_t i = order.size(); i > 1; --i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    std::swap(order[i - 1], order[(state >> 33) % i]);
  }
  auto memory = HeapAllocator().Allocate(num_blocks * layout->block_bytes());
  KVERN_CHECK(memory.ok());
  std::memset(memory->data(), 0xff, memory->size());
  size_t dealt = 0;
  for (size_t s = 0; s < sequences.size(); ++s) {
    for (uint64_t b = layout->BlocksFor(sequences[s].size()); b > 0; --b) tables[s].push_back(order[dealt++]);
  }
  const KvView kv = layout->View(memory->data());

  ForwardOutcome outcome;
  outcome.traces.resize(sequences.size());
  for (size_t s = 0; s < sequences.size(); ++s)
    outcome.traces[s].logits.resize(sequences[s].size() * config.vocab_size);

  std::vector<uint32_t> done(sequences.size(), 0);
  while (true) {
    std::vector<TokenId> tokens;
    std::vector<SequenceRows> rows;
    std::vector<uint32_t> logit_rows;
    std::vector<float*> targets;
    for (size_t s = 0; s < sequences.size(); ++s) {
      const auto total = static_cast<uint32_t>(sequences[s].size());
      if (done[s] == total) continue;
      const uint32_t end = plan.chunk == 0 ? total : std::min(total, done[s] + plan.chunk);
      const uint32_t begin = plan.is_uncached ? 0 : done[s];
      if (plan.is_uncached) {  // Nothing of the last step may be left.
        for (BlockIndex block : tables[s]) {
          std::memset(memory->data() + block * layout->block_bytes(), 0xff, layout->block_bytes());
        }
      }
      rows.push_back({.first_row = static_cast<uint32_t>(tokens.size()),
                      .num_rows = end - begin,
                      .first_position = begin,
                      .block_tables = {tables[s]}});
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
    const auto stats =
        model.Forward({.tokens = tokens, .sequences = rows, .kv = {kv}, .logit_rows = logit_rows}, logits);
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
    for (uint32_t layer = 0; layer < config.num_layers; ++layer) {
      for (uint32_t i = 0; i < sequences[s].size(); ++i, at += row_values) {
        kernels.load_kv(kv, layer, tables[s][i / plan.block_size], i % plan.block_size, &trace.k[at], &trace.v[at]);
      }
    }
  }
  return outcome;
}

}  // namespace kvern
