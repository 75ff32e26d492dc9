// kvern bench: prefill, decode and batched decode speed, beside what the machine can do at that moment.
#include <CLI/CLI.hpp>

#include "cli/bench_measure.h"
#include "cli/bench_plan.h"
#include "cli/bench_report.h"
#include "cli/command.h"
#include "cli/engine_flags.h"
#include "cli/exit_code.h"
#include "cli/format.h"
#include "cli/generation.h"
#include "cli/output.h"

namespace kvern::cli {
namespace {

constexpr char kExamples[] =
    "Examples:\n"
    "  kvern bench\n"
    "  kvern bench --prefill 512 --depth none --batch 1,8,32 --shared-prompt 4096 -r 9 --json\n"
    "\n"
    "Rows of several sequences count the tokens of all of them together, in steps in which all decode. With a shared\n"
    "prompt they are answers to one prompt, which is computed once.\n"
    "\n"
    "Every row has a probe of the machine of its own, taken just before it, since memory speed changes within "
    "minutes.\n"
    "Share of a limit: prefill and several sequences = 2 x weights of all layers x tok/s / int8 peak (embedding, "
    "output\n"
    "head and attention not counted); one sequence = (bytes of all weights + of the KV read) x tok/s / read bandwidth\n"
    "(> 100 %: from a cache).";

class BenchCommand : public Command {
 public:
  explicit BenchCommand(CLI::App& app)
      : serve_app_(app.add_subcommand("serve", "Load on a server: time to first token, between tokens, tokens/s")),
        serve_(MakeBenchServeCommand(*serve_app_)) {
    const auto add_list = [&app](const char* name, std::string& value, const char* help) {
      app.add_option(name, value, help)->capture_default_str()->type_name("LIST");
    };
    add_list("--prefill", prefill_, "Prompt lengths, or none");
    add_list("--depth", depth_, "Tokens in the context where decoding begins, or none");
    add_list("--batch", batch_, "Numbers of sequences that decode together, or none");
    app.add_option("--own-prompt", plan_.own_prompt, "Prompt tokens of each sequence of a batch")
        ->capture_default_str()
        ->check(CLI::Range(1u, 1u << 20))
        ->type_name("TOKENS");
    app.add_option("--shared-prompt", shared_prompt_,
                   "Batches again with one prompt for all, of so many tokens, or none")
        ->capture_default_str()
        ->type_name("TOKENS");
    app.add_option("-n,--gen", plan_.num_generated, "Tokens to decode in each sample")
        ->capture_default_str()
        ->check(CLI::Range(1u, 1u << 20))
        ->type_name("N");
    app.add_option("-r,--repetitions", plan_.repetitions, "Samples per row; the median is shown")
        ->capture_default_str()
        ->check(CLI::Range(1u, 1000u))
        ->type_name("N");
    app.add_flag("--no-probe", is_probe_off_, "Do not measure the machine's limits");
    app.add_flag("--json", is_json_, "One JSON object");
    engine_.AddAllTo(app, "Longest sequence; default: what the longest row needs");
    app.footer(kExamples);
  }

  int Run() override {
    if (serve_app_->parsed()) return serve_->Run();
    if (const Status status = ReadLists(); !status.ok()) return FailUsage(status);
    Result<EngineOptions> options = engine_.ToOptions();
    if (!options.ok()) return FailUsage(options.status());
    options->cache.reuses_prefixes = false;  // Each repetition computes all of its row.
    options->step_budget_ms = 0;
    const Result<ModelInfo> info = InspectModel(options->model_path);
    if (!info.ok()) return Fail(info.status());
    std::vector<BenchRow> rows = plan_.Rows();
    FitRows(plan_, *info, *options, rows);
    if (rows.empty()) {
      return FailUsage(Status::InvalidArgument("there is no row to measure: see --prefill, --depth and --batch"));
    }
    if (const Status status = CheckCodecs(*options, engine_.lossy); !status.ok()) return Fail(status);
    const auto engine = OpenEngine(*options);
    if (!engine.ok()) return Fail(engine.status());

    const Status status = MeasureRows(**engine, plan_, !is_probe_off_, rows);
    WriteOut(is_json_ ? Dump(BenchJson(**engine, plan_, rows)) : BenchTable(**engine, plan_, rows));
    return status.ok() ? kExitDone : Fail(status);
  }

 private:
  Status ReadLists() {
    const auto read = [](const char* name, const std::string& text, std::vector<uint32_t>& counts) -> Status {
      Result<std::vector<uint32_t>> parsed = ParseCounts(text);
      if (!parsed.ok()) return Status::InvalidArgument(std::string(name) + ": " + parsed.status().message());
      counts = *std::move(parsed);
      return Status::Ok();
    };
    KVERN_RETURN_IF_ERROR(read("--prefill", prefill_, plan_.prefill));
    KVERN_RETURN_IF_ERROR(read("--depth", depth_, plan_.depth));
    KVERN_RETURN_IF_ERROR(read("--batch", batch_, plan_.batch));
    std::vector<uint32_t> shared;
    KVERN_RETURN_IF_ERROR(read("--shared-prompt", shared_prompt_, shared));
    if (shared.size() > 1) return Status::InvalidArgument("--shared-prompt: expected one length or none");
    plan_.shared_prompt = shared.empty() ? 0 : shared.front();
    return plan_.Validate();
  }

  CLI::App* const serve_app_;
  const std::unique_ptr<Command> serve_;
  EngineFlags engine_;
  BenchPlan plan_;
  std::string prefill_ = "128,512,2048";
  std::string depth_ = "0,1024,4096,16384";
  std::string batch_ = "1,2,4,8,16,32";
  std::string shared_prompt_ = "2048";
  bool is_probe_off_ = false;
  bool is_json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeBenchCommand(CLI::App& app) { return std::make_unique<BenchCommand>(app); }

}  // namespace kvern::cli
