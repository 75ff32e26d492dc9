// kvern compare: every way to keep keys and values, measured on one model and one text, in one table.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "cli/command.h"
#include "cli/compare_measure.h"
#include "cli/compare_plan.h"
#include "cli/compare_report.h"
#include "cli/engine_flags.h"
#include "cli/exit_code.h"
#include "cli/format.h"
#include "cli/output.h"
#include "cli/sample_text.h"
#include "kvern/diagnostics.h"

namespace kvern::cli {
namespace {

constexpr char kExamples[] =
    "Examples:\n"
    "  kvern compare --html compare.html\n"
    "  kvern compare --only f16 --only int8 --length 4096 --text book.txt --format markdown\n"
    "\n"
    "Speed is measured row by row, then the quality of all codecs in lock-step with f32, then sequences that decode\n"
    "together. Ctrl-C prints what is done (exit code 130). The row 'int8 per tensor' is no cache but a\n"
    "recipe to compare int8 with: it has bytes and quality, and no times.";

class CompareCommand : public Command {
 public:
  explicit CompareCommand(CLI::App& app) {
    const auto add_count = [&app](const char* name, auto& value, const char* help, uint32_t max) {
      app.add_option(name, value, help)->capture_default_str()->check(CLI::Range(0u, max))->type_name("N");
    };
    app.add_option("--only", only_, "Measure this row only; may be given again. An unknown name lists them all")
        ->type_name("ROW")
        ->allow_extra_args(false);
    add_count("--length", plan_.length, "Tokens in the longest prompt", 1u << 20);
    add_count("--quality-tokens", plan_.quality_tokens, "Tokens to score per codec; 0: no quality", 1u << 24);
    add_count("--batch", plan_.batch, "Sequences that decode together; 0: leave them out", 256);
    add_count("--batch-tokens", plan_.batch_tokens, "Tokens of each of them", 1u << 20);
    app.add_option("--text", text_path_, "Text to read, also as .gz; - is stdin; default: Debian's FAQ")
        ->type_name("FILE");
    app.add_option("--format", format_, "table, markdown, csv or json")->capture_default_str()->type_name("NAME");
    app.add_option("--html", html_path_, "Write a page with tables and plots to this file too")->type_name("FILE");
    engine_.AddAllTo(app, "Not used: rows have room for twice what they need");
    app.footer(kExamples);
  }

  int Run() override {
    const Result<TableFormat> format = ParseTableFormat(format_);
    if (!format.ok()) return FailUsage(format.status());
    const Result<EngineOptions> options = engine_.ToOptions();
    if (!options.ok()) return FailUsage(options.status());
    auto cases = ChooseCases(AllCases(plan_, options->cache), only_);
    if (!cases.ok()) return FailUsage(cases.status());
    const Result<ModelInfo> info = InspectModel(options->model_path);
    if (!info.ok()) return Fail(info.status());
    if (const Status status = plan_.Validate(*info); !status.ok()) return FailUsage(status);
    auto text = SampleTokens(text_path_, options->model_path, plan_.TextTokens(), plan_.TextTokens());
    if (!text.ok()) return Fail(text.status());

    CompareRun run{.plan = plan_, .options = *options, .model = *info, .text = *std::move(text), .results = {}};
    if (run.options.num_threads == 0) run.options.num_threads = UsableCpuCount();
    if (run.options.isa == "auto") run.options.isa = RunnableIsas().back();
    const Status status = MeasureCases(*cases, run);
    if (status.ok() || !run.results.empty()) WriteOut(CompareText(run, *format));
    if (!html_path_.empty()) {
      if (const Status written = WriteFile(html_path_, CompareHtml(run)); !written.ok()) return Fail(written);
    }
    return status.ok() ? kExitDone : Fail(status);
  }

 private:
  EngineFlags engine_;
  ComparePlan plan_;
  std::vector<std::string> only_;
  std::string text_path_;
  std::string format_ = "table";
  std::string html_path_;
};

}  // namespace

std::unique_ptr<Command> MakeCompareCommand(CLI::App& app) { return std::make_unique<CompareCommand>(app); }

}  // namespace kvern::cli
