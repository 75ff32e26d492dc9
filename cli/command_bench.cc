// kvern bench: prefill and decode speed at several lengths, beside what the machine can do at that moment.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "cli/command.h"
#include "cli/engine_flags.h"
#include "cli/exit_code.h"
#include "cli/format.h"
#include "cli/generation.h"
#include "cli/interrupt.h"
#include "cli/measurement.h"
#include "cli/output.h"
#include "kvern/diagnostics.h"

namespace kvern::cli {
namespace {

constexpr char kExamples[] =
    "Examples:\n"
    "  kvern bench\n"
    "  kvern bench --prefill 512 --depth 0,4096 -r 9 --threads 2 --json\n"
    "\n"
    "Every row has a probe of the machine of its own, taken just before it, since memory speed changes within "
    "minutes.\n"
    "Share of a limit: prefill = 2 x weights of all layers x tok/s / int8 peak (embedding, output head and attention\n"
    "not counted); decode = (bytes of all weights + of the KV read) x tok/s / read bandwidth (> 100 %: from a cache).";

// One line of the result: prompts of `length` tokens, or answers after `length` tokens.
struct Case {
  bool is_prefill = true;
  uint32_t length = 0;
  std::vector<double> samples;  // Tokens per second.
  MachineLimits limits;
  double share = 0;  // Of the int8 peak (prefill) or of the read bandwidth (decode); 0 where there is no probe.
};

class BenchCommand : public Command {
 public:
  explicit BenchCommand(CLI::App& app) {
    app.add_option("--prefill", prefill_, "Prompt lengths, or none")->capture_default_str()->type_name("LIST");
    app.add_option("--depth", depth_, "Tokens in the context where decoding begins, or none")
        ->capture_default_str()
        ->type_name("LIST");
    app.add_option("-n,--gen", num_generated_, "Tokens to decode at each depth")
        ->capture_default_str()
        ->check(CLI::Range(2u, 1u << 20))
        ->type_name("N");
    app.add_option("-r,--repetitions", repetitions_, "Samples per row; the median is shown")
        ->capture_default_str()
        ->check(CLI::Range(1u, 1000u))
        ->type_name("N");
    app.add_flag("--no-probe", is_probe_off_, "Do not measure the machine's limits");
    app.add_flag("--json", is_json_, "One JSON object");
    engine_.AddAllTo(app, "Longest sequence; default: what the longest row needs");
    app.footer(kExamples);
  }

  int Run() override {
    const auto prefill = ParseCounts(prefill_);
    if (!prefill.ok()) return FailUsage(Status::InvalidArgument("--prefill: " + prefill.status().message()));
    const auto depth = ParseCounts(depth_);
    if (!depth.ok()) return FailUsage(Status::InvalidArgument("--depth: " + depth.status().message()));
    if (std::count(prefill->begin(), prefill->end(), 0u) > 0) {
      return FailUsage(Status::InvalidArgument("--prefill: a prompt has at least one token"));
    }
    Result<EngineOptions> options = engine_.ToOptions();
    if (!options.ok()) return FailUsage(options.status());

    const Result<ModelInfo> info = InspectModel(options->model_path);
    if (!info.ok()) return Fail(info.status());
    const uint32_t limit = options->context_tokens != 0 ? options->context_tokens : info->context_tokens;
    for (const uint32_t length : *prefill) AddCase(true, length, limit);
    for (const uint32_t length : *depth) AddCase(false, length, limit);
    if (cases_.empty())
      return FailUsage(Status::InvalidArgument("there is no row to measure: see --prefill and --depth"));
    if (options->context_tokens == 0) options->context_tokens = longest_;
    options->max_sequences = 1;
    const auto engine = OpenEngine(*options);
    if (!engine.ok()) return Fail(engine.status());

    const Status status = MeasureAll(**engine);
    Report(**engine);
    return status.ok() ? kExitDone : Fail(status);
  }

 private:
  // Tokens of context that a row needs: a decode at depth 0 still starts from one token.
  uint64_t Needed(bool is_prefill, uint32_t length) const {
    return is_prefill ? length : uint64_t{std::max(length, 1u)} + num_generated_;
  }

  void AddCase(bool is_prefill, uint32_t length, uint32_t limit) {
    const uint64_t needed = Needed(is_prefill, length);
    if (limit != 0 && needed > limit) {
      std::fprintf(stderr, "kvern: %s at %u left out: %llu tokens do not fit the context of %u\n",
                   is_prefill ? "prefill" : "decode", length, static_cast<unsigned long long>(needed), limit);
      return;
    }
    cases_.push_back({.is_prefill = is_prefill, .length = length, .samples = {}, .limits = {}, .share = 0});
    longest_ = std::max(longest_, static_cast<uint32_t>(needed));
  }

  Status MeasureAll(Engine& engine) {
    const OnInterrupt keep_running;                                  // Rows that are done are still reported.
    KVERN_RETURN_IF_ERROR(Sample(engine, cases_.front(), nullptr));  // Warms caches and threads.
    ProgressBar bar("measuring", cases_.size() * repetitions_);
    uint64_t done = 0;
    for (Case& row : cases_) {
      if (WasInterrupted()) return Status::Cancelled("interrupted");
      if (!is_probe_off_) row.limits = ProbeMachineLimits(engine.options().num_threads);
      for (uint32_t i = 0; i < repetitions_; ++i) {
        KVERN_RETURN_IF_ERROR(Sample(engine, row, &row.samples));
        bar.Update(++done);
      }
      row.share = Share(engine, row);
    }
    return Status::Ok();
  }

  Status Sample(Engine& engine, const Case& row, std::vector<double>* samples) {
    Request request;
    request.prompt = BenchTokens(std::max(row.length, 1u), engine.model_info().vocab_size, series_++);
    request.max_tokens = row.is_prefill ? 0 : num_generated_;
    request.ends_at_eos = false;
    KVERN_ASSIGN_OR_RETURN(const Generation made, Generate(engine, std::move(request)));
    if (WasInterrupted()) return Status::Cancelled("interrupted");
    if (samples != nullptr) samples->push_back(row.is_prefill ? PrefillRate(made.stats) : DecodeRate(made.stats));
    return Status::Ok();
  }

  double Share(const Engine& engine, const Case& row) const {
    const ModelInfo& info = engine.model_info();
    const double rate = SpreadOf(row.samples).median;
    if (row.is_prefill) {
      const double operations = 2.0 * static_cast<double>(WeightsPerPromptToken(info));
      return row.limits.int8_tops <= 0 ? 0 : operations * rate / (row.limits.int8_tops * 1e12);
    }
    return row.limits.read_gb_per_s <= 0 ? 0 : BytesPerToken(engine, row) * rate / (row.limits.read_gb_per_s * 1e9);
  }

  // Read for one decoded token, on the average over the answer.
  double BytesPerToken(const Engine& engine, const Case& row) const {
    const CacheOptions& cache = engine.options().cache;
    const double context = std::max(row.length, 1u) + 0.5 * num_generated_;
    return static_cast<double>(engine.Stats().weight_bytes) +
           context * static_cast<double>(engine.model_info().KvBytesPerToken(cache.k_type, cache.v_type));
  }

  void Report(const Engine& engine) const {
    if (is_json_) {
      WriteOut(Dump(Json(engine)));
      return;
    }
    const EngineOptions& options = engine.options();
    std::string text = options.model_path + ", " + options.isa + ", " + std::to_string(options.num_threads) +
                       " threads, " + ActivationModeName(options.activations) + " activations, " +
                       std::string(KvTypeName(options.cache.k_type)) + " KV" +
                       (options.cache.is_enabled ? "" : ", no cache") + "\n";
    if (!cases_.front().limits.cpu.empty()) text += cases_.front().limits.cpu + "\n";
    std::vector<std::vector<std::string>> rows = {{"", "tok/s", "min", "max", "limit", "share"}};
    for (const Case& row : cases_) {
      if (row.samples.empty()) continue;
      const Spread spread = SpreadOf(row.samples);
      rows.push_back({Name(row), FormatRate(spread.median), FormatRate(spread.min), FormatRate(spread.max), Limit(row),
                      FormatPercent(row.share)});
    }
    WriteOut(text + "\n" + FormatTable(rows));
  }

  static std::string Name(const Case& row) {
    return (row.is_prefill ? "prefill " : "decode at ") + std::to_string(row.length);
  }

  static std::string Limit(const Case& row) {
    if (row.is_prefill) return row.limits.int8_tops <= 0 ? "-" : FormatFixed(row.limits.int8_tops, 2) + " TOPS int8";
    return row.limits.read_gb_per_s <= 0 ? "-" : FormatFixed(row.limits.read_gb_per_s, 1) + " GB/s read";
  }

  nlohmann::ordered_json Json(const Engine& engine) const {
    const EngineOptions& options = engine.options();
    const EngineStats stats = engine.Stats();
    nlohmann::ordered_json results = nlohmann::ordered_json::array();
    for (const Case& row : cases_) {
      if (row.samples.empty()) continue;
      const Spread spread = SpreadOf(row.samples);
      results.push_back({{"test", row.is_prefill ? "prefill" : "decode"},
                         {"length", row.length},
                         {"generated", row.is_prefill ? 0u : num_generated_},
                         {"tok_per_s", {{"median", spread.median}, {"min", spread.min}, {"max", spread.max}}},
                         {"samples", row.samples},
                         {"limits",
                          {{"int8_tops", row.limits.int8_tops},
                           {"f32_tflops", row.limits.f32_tflops},
                           {"read_gb_per_s", row.limits.read_gb_per_s},
                           {"nops_per_ns", row.limits.nops_per_ns}}},
                         {"share", row.share}});
    }
    return {{"model", options.model_path},
            {"cpu", cases_.front().limits.cpu},
            {"isa", options.isa},
            {"threads", options.num_threads},
            {"activations", ActivationModeName(options.activations)},
            {"kv_type", KvTypeName(options.cache.k_type)},
            {"is_cache_enabled", options.cache.is_enabled},
            {"block_size", options.cache.block_size},
            {"prefill_chunk", options.prefill_chunk},
            {"weights_per_prompt_token", WeightsPerPromptToken(engine.model_info())},
            {"weight_bytes", stats.weight_bytes},
            {"huge_page_bytes", stats.huge_page_bytes},
            {"load_us", stats.load_us},
            {"peak_memory_bytes", PeakMemoryBytes()},
            {"results", std::move(results)}};
  }

  EngineFlags engine_;
  std::string prefill_ = "128,512,2048";
  std::string depth_ = "0,512,2048";
  uint32_t num_generated_ = 64;
  uint32_t repetitions_ = 5;
  bool is_probe_off_ = false;
  bool is_json_ = false;
  std::vector<Case> cases_;
  uint32_t longest_ = 1;
  uint64_t series_ = 0;
};

}  // namespace

std::unique_ptr<Command> MakeBenchCommand(CLI::App& app) { return std::make_unique<BenchCommand>(app); }

}  // namespace kvern::cli
