#include "cli/bench_report.h"

#include <utility>

#include "cli/engine_flags.h"
#include "cli/format.h"
#include "cli/measurement.h"

namespace kvern::cli {
namespace {

// Read for one decoded token, on the average over the samples.
double BytesPerToken(const Engine& engine, const BenchPlan& plan, const BenchRow& row) {
  const CacheOptions& cache = engine.options().cache;
  const double context = plan.PromptTokens(row) + 0.5 * plan.SamplesPerRun(row) * plan.num_generated;
  return static_cast<double>(engine.Stats().weight_bytes) +
         context * static_cast<double>(engine.model_info().KvBytesPerToken(cache.k_type, cache.v_type));
}

// Bytes of the model file that were loaded per second, in units of 1e9.
double LoadRate(const Engine& engine) {
  const uint64_t load_us = engine.Stats().load_us;
  return load_us == 0 ? 0 : static_cast<double>(engine.model_info().file_bytes) / (1e3 * static_cast<double>(load_us));
}

std::string LimitText(const MachineLimits& limits, bool is_compute) {
  if (is_compute) return limits.int8_tops <= 0 ? "-" : FormatFixed(limits.int8_tops, 2) + " TOPS int8";
  return limits.read_gb_per_s <= 0 ? "-" : FormatFixed(limits.read_gb_per_s, 1) + " GB/s read";
}

const char* TestName(BenchKind kind) {
  switch (kind) {
    case BenchKind::kPrefill: return "prefill";
    case BenchKind::kDecode: return "decode";
    case BenchKind::kBatch: return "batch";
  }
  return "";
}

nlohmann::ordered_json RowJson(const Engine& engine, const BenchPlan& plan, const BenchRow& row) {
  const Spread spread = SpreadOf(row.samples);
  const LimitShare limit = ShareOf(engine, plan, row);
  return {{"test", TestName(row.kind)},
          {"length", row.length},
          {"sequences", row.num_sequences},
          {"shared_prompt", row.shared_prompt},
          {"generated", row.kind == BenchKind::kPrefill ? 0u : plan.num_generated},
          {"tok_per_s", {{"median", spread.median}, {"min", spread.min}, {"max", spread.max}}},
          {"samples", row.samples},
          {"limits",
           {{"int8_tops", row.limits.int8_tops},
            {"f32_tflops", row.limits.f32_tflops},
            {"read_gb_per_s", row.limits.read_gb_per_s},
            {"nops_per_ns", row.limits.nops_per_ns}}},
          {"share_of", limit.is_compute ? "int8_tops" : "read_gb_per_s"},
          {"share", limit.share}};
}

}  // namespace

LimitShare ShareOf(const Engine& engine, const BenchPlan& plan, const BenchRow& row) {
  const double rate = SpreadOf(row.samples).median;
  if (row.kind == BenchKind::kPrefill || row.num_sequences > 1) {
    const double operations = 2.0 * static_cast<double>(WeightsPerPromptToken(engine.model_info()));
    const double peak = row.limits.int8_tops * 1e12;
    return {.is_compute = true, .share = peak <= 0 ? 0 : operations * rate / peak};
  }
  const double bandwidth = row.limits.read_gb_per_s * 1e9;
  return {.is_compute = false, .share = bandwidth <= 0 ? 0 : BytesPerToken(engine, plan, row) * rate / bandwidth};
}

std::string BenchTable(const Engine& engine, const BenchPlan& plan, const std::vector<BenchRow>& rows) {
  const EngineOptions& options = engine.options();
  const EngineStats stats = engine.Stats();
  std::string text = options.model_path + ", " + options.isa + ", " + std::to_string(options.num_threads) +
                     " threads, " + ActivationModeName(options.activations) + " activations, " +
                     KvTypesName(options.cache) + " KV" + (options.cache.is_enabled ? "" : ", no cache") + "\n";
  if (!rows.front().limits.cpu.empty()) text += rows.front().limits.cpu + "\n";
  text += FormatBytes(stats.weight_bytes) + " of weights, up to " +
          FormatBytes(stats.cache.total_blocks * stats.cache.block_bytes) + " of KV, " +
          FormatBytes(stats.huge_page_bytes) + " on huge pages; loaded in " + FormatSeconds(stats.load_us) + ", " +
          FormatFixed(LoadRate(engine), 2) + " GB/s of file\n";
  std::vector<std::vector<std::string>> cells = {{"", "tok/s", "min", "max", "limit", "share"}};
  for (const BenchRow& row : rows) {
    if (row.samples.empty()) continue;
    const Spread spread = SpreadOf(row.samples);
    const LimitShare limit = ShareOf(engine, plan, row);
    cells.push_back({NameOf(row), FormatRate(spread.median), FormatRate(spread.min), FormatRate(spread.max),
                     LimitText(row.limits, limit.is_compute), FormatPercent(limit.share)});
  }
  return text + "\n" + FormatTable(cells);
}

nlohmann::ordered_json BenchJson(const Engine& engine, const BenchPlan& plan, const std::vector<BenchRow>& rows) {
  const EngineOptions& options = engine.options();
  const EngineStats stats = engine.Stats();
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  for (const BenchRow& row : rows) {
    if (!row.samples.empty()) results.push_back(RowJson(engine, plan, row));
  }
  return {{"model", options.model_path},
          {"cpu", rows.front().limits.cpu},
          {"isa", options.isa},
          {"threads", options.num_threads},
          {"activations", ActivationModeName(options.activations)},
          {"kv_type", KvTypesName(options.cache)},
          {"is_cache_enabled", options.cache.is_enabled},
          {"block_size", options.cache.block_size},
          {"prefill_chunk", options.prefill_chunk},
          {"weights_per_prompt_token", WeightsPerPromptToken(engine.model_info())},
          {"weight_bytes", stats.weight_bytes},
          {"kv_bytes", stats.cache.total_blocks * stats.cache.block_bytes},
          {"huge_page_bytes", stats.huge_page_bytes},
          {"load_us", stats.load_us},
          {"load_gb_per_s", LoadRate(engine)},
          {"peak_memory_bytes", PeakMemoryBytes()},
          {"results", std::move(results)}};
}

}  // namespace kvern::cli
