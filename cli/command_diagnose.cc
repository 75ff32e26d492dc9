// kvern diagnose: what a model's keys and values look like, and which codecs that allows.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "cli/codec_check.h"
#include "cli/command.h"
#include "cli/diagnosis_report.h"
#include "cli/engine_flags.h"
#include "cli/exit_code.h"
#include "cli/format.h"
#include "cli/generation.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/quality_report.h"
#include "cli/sample_text.h"
#include "cli/verdict_store.h"

namespace kvern::cli {
namespace {

constexpr char kExamples[] =
    "Examples:\n"
    "  kvern diagnose\n"
    "  kvern diagnose --text book.txt --tokens 4096 --html heads.html\n"
    "\n"
    "Columns, per layer and KV head, K as stored (after RoPE): range, mean and deviation; norm of a row; outlier: "
    "largest\n"
    "magnitude / mean magnitude; in means: share of the squares in fixed channel means; lag-1: correlation with the "
    "token\n"
    "before, without RoPE; cosines with the other heads and with the layer before; attention entropy in nats and the "
    "share\n"
    "that goes to the first 4 and the last 64 tokens; noise8, noise4: by how much K in 8 or 4 bits moves attention "
    "scores.";

class DiagnoseCommand : public Command {
 public:
  explicit DiagnoseCommand(CLI::App& app) {
    app.add_option("--text", text_path_, "Text to read, also as .gz; - is stdin; default: Debian's FAQ")
        ->type_name("FILE");
    app.add_option("-n,--tokens", num_tokens_, "Tokens of it")
        ->capture_default_str()
        ->check(CLI::Range(2u, 1u << 20))
        ->type_name("N");
    app.add_option("--html", html_path_, "Write heat maps of layers and heads to this file too")->type_name("FILE");
    app.add_flag("--json", is_json_, "One JSON object, channel means included");
    engine_.AddAllTo(app, "Not used: the text is one sequence of --tokens");
    app.footer(kExamples);
  }

  int Run() override {
    const Result<EngineOptions> options = engine_.ToOptions();
    if (!options.ok()) return FailUsage(options.status());
    const Result<ModelInfo> info = InspectModel(options->model_path);
    if (!info.ok()) return Fail(info.status());
    const size_t count = std::min<size_t>(num_tokens_, std::max(info->context_tokens, 2u));
    const auto tokens = SampleTokens(text_path_, options->model_path, 2, count);
    if (!tokens.ok()) return Fail(tokens.status());

    const OnInterrupt keep_running;  // The progress callback ends the diagnosis in order.
    ProgressBar bar("diagnosing", 1);
    const auto diagnosis = DiagnoseKv(*options, *tokens, [&](uint32_t done, uint32_t total) {
      bar.SetTotal(total);
      bar.Update(done);
      return !WasInterrupted();
    });
    bar.Erase();
    if (!diagnosis.ok()) return Fail(diagnosis.status());
    return Report(*options, *diagnosis);
  }

 private:
  int Report(const EngineOptions& options, const KvDiagnosis& diagnosis) {
    if (is_json_) {
      nlohmann::ordered_json json = {{"model", options.model_path}};
      json.update(DiagnosisJson(diagnosis));
      WriteOut(Dump(json));
    } else {
      WriteOut(options.model_path + ": " + DiagnosisTable(diagnosis) + Verdicts(options));
    }
    if (html_path_.empty()) return kExitDone;
    const Status status = WriteFile(html_path_, DiagnosisHtml(diagnosis, options.model_path));
    return status.ok() ? kExitDone : Fail(status);
  }

  // What kvern quality has found of this model, since a measurement goes before advice.
  std::string Verdicts(const EngineOptions& options) const {
    VerdictStore store(VerdictsPath(engine_.lossy));
    const auto digest = store.DigestOf(options.model_path);
    const auto verdicts = digest.ok() ? store.AllOf(*digest) : std::vector<CodecVerdict>();
    if (verdicts.empty()) return "- None of this is a verdict: kvern quality measures what each codec really costs.\n";
    std::string text = "- Measured on this model by kvern quality:\n";
    for (const CodecVerdict& verdict : verdicts) {
      text += "    " + verdict.codecs + (verdict.is_passed ? " passed" : " FAILED") + " the " + verdict.gate +
              " gate: KLD " + FormatEstimate(verdict.kld_mean) + ", same top " + FormatPercent(verdict.same_top.value) +
              "\n";
    }
    return text;
  }

  EngineFlags engine_;
  std::string text_path_;
  std::string html_path_;
  uint32_t num_tokens_ = 2048;
  bool is_json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeDiagnoseCommand(CLI::App& app) { return std::make_unique<DiagnoseCommand>(app); }

}  // namespace kvern::cli
