#include "cli/bench_plan.h"

#include <algorithm>
#include <cstdio>

#include "cli/format.h"

namespace kvern::cli {
namespace {

constexpr uint32_t kMaxSequences = 4096;
constexpr uint32_t kLongPrompt = 1024;
// The first sequences of a batch decode while the last prompts are computed: so many more tokens keep them running.
constexpr uint32_t kHeadStart = 64;

uint64_t RoundUp(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

std::string NameOf(const BenchRow& row) {
  const std::string length = std::to_string(row.length);
  if (row.kind == BenchKind::kPrefill) return "prefill " + length;
  if (row.kind == BenchKind::kDecode) return "decode at " + length;
  const std::string name = std::to_string(row.num_sequences) + (row.num_sequences == 1 ? " sequence" : " sequences");
  return row.shared_prompt == 0 ? name : name + ", shared " + std::to_string(row.shared_prompt);
}

Status BenchPlan::Validate() const {
  if (std::ranges::count(prefill, 0u) > 0) return Status::InvalidArgument("--prefill: a prompt has at least one token");
  for (const uint32_t count : batch) {
    if (count >= 1 && count <= kMaxSequences) continue;
    return Status::InvalidArgument("--batch: " + std::to_string(count) + " sequences, expected 1 to " +
                                   std::to_string(kMaxSequences));
  }
  return Status::Ok();
}

std::vector<BenchRow> BenchPlan::Rows() const {
  std::vector<BenchRow> rows;
  for (const uint32_t length : prefill) rows.push_back({.kind = BenchKind::kPrefill, .length = length});
  for (const uint32_t length : depth) rows.push_back({.kind = BenchKind::kDecode, .length = length});
  for (const uint32_t count : batch) {
    rows.push_back({.kind = BenchKind::kBatch, .length = own_prompt, .num_sequences = count});
  }
  for (const uint32_t count : batch) {
    if (shared_prompt == 0) break;
    rows.push_back({.kind = BenchKind::kBatch, .shared_prompt = shared_prompt, .num_sequences = count});
  }
  return rows;
}

uint32_t BenchPlan::PromptTokens(const BenchRow& row) const {
  return row.shared_prompt != 0 ? row.shared_prompt : std::max(row.length, 1u);
}

uint32_t BenchPlan::SamplesPerRun(const BenchRow& row) const {
  return row.kind != BenchKind::kPrefill && PromptTokens(row) >= kLongPrompt ? repetitions : 1;
}

uint32_t BenchPlan::AnswerTokens(const BenchRow& row) const {
  if (row.kind == BenchKind::kPrefill) return 0;
  return 1 + SamplesPerRun(row) * num_generated + (row.num_sequences > 1 ? kHeadStart : 0);
}

uint64_t BenchPlan::CacheTokens(const BenchRow& row, uint32_t block_size) const {
  const uint64_t shared = row.shared_prompt / block_size * block_size;
  return shared + row.num_sequences * RoundUp(ContextTokens(row) - shared, block_size);
}

void FitRows(const BenchPlan& plan, const ModelInfo& model, EngineOptions& options, std::vector<BenchRow>& rows) {
  const uint32_t context = options.context_tokens != 0 ? options.context_tokens : model.context_tokens;
  const uint64_t bytes_per_token = model.KvBytesPerToken(options.cache.k_type, options.cache.v_type);
  const uint64_t budget = options.cache.budget_bytes;
  const auto bytes_of = [&](const BenchRow& row) {
    return plan.CacheTokens(row, options.cache.block_size) * bytes_per_token;
  };
  const auto leaves_out = [](const BenchRow& row, const std::string& why) {
    std::fprintf(stderr, "kvern: %s left out: %s\n", NameOf(row).c_str(), why.c_str());
    return true;
  };
  std::erase_if(rows, [&](const BenchRow& row) {
    const uint64_t needed = plan.ContextTokens(row);
    if (context != 0 && needed > context) {
      return leaves_out(row, std::to_string(needed) + " tokens do not fit the context of " + std::to_string(context));
    }
    if (budget != 0 && bytes_of(row) > budget) {
      return leaves_out(
          row, FormatBytes(bytes_of(row)) + " of keys and values do not fit the budget of " + FormatBytes(budget));
    }
    if (row.num_sequences > 1 && !options.cache.is_enabled) {
      return leaves_out(row, "without the cache sequences take turns");
    }
    return false;
  });
  uint64_t longest = 1;
  options.max_sequences = 1;
  for (const BenchRow& row : rows) {
    longest = std::max(longest, plan.ContextTokens(row));
    options.max_sequences = std::max(options.max_sequences, row.num_sequences);
    if (budget == 0) options.cache.budget_bytes = std::max(options.cache.budget_bytes, bytes_of(row));
  }
  if (options.context_tokens == 0) options.context_tokens = static_cast<uint32_t>(longest);
}

}  // namespace kvern::cli
