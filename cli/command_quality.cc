// kvern quality: what each codec of keys and values costs on this model, and whether it passes its gate.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "cli/codec_check.h"
#include "cli/codec_pair.h"
#include "cli/command.h"
#include "cli/engine_flags.h"
#include "cli/exit_code.h"
#include "cli/format.h"
#include "cli/generation.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/quality_report.h"
#include "cli/sample_text.h"
#include "cli/verdict_store.h"
#include "kvern/quality.h"

namespace kvern::cli {
namespace {

constexpr char kExamples[] =
    "Examples:\n"
    "  kvern quality\n"
    "  kvern quality int8 f16/int8 --text book.txt --tokens 16384 --json\n"
    "\n"
    "Each codec goes through the text in lock-step with f32 keys and values; both are read back from their cache. KLD "
    "is\n"
    "the divergence from the f32 distribution per token, in nats; same top: both find the same token most likely; RMS\n"
    "dp: change in the probability of the token that follows; dNLL: change of its negative log-likelihood. Errors are\n"
    "standard errors as if tokens were independent.\n"
    "\n"
    "With 8,000 tokens or more the outcome is a verdict, which is kept for this model (whatever its file is called): "
    "run\n"
    "and bench refuse a codec of 8 bits or fewer whose gate has failed, unless --allow-lossy is given. Activations are "
    "f32\n"
    "here: with int8, every small change flips roundings of activations and hides what the codec itself costs.";

class QualityCommand : public Command {
 public:
  explicit QualityCommand(CLI::App& app) {
    app.add_option("CODEC", names_, "Like int8, or f16/int8 for keys and values apart; default: all of this build")
        ->type_name("");
    app.add_option("--text", text_path_, "Text to read, also as .gz; - is stdin; default: Debian's FAQ")
        ->type_name("FILE");
    app.add_option("-n,--tokens", num_tokens_, "Tokens to score; a verdict needs 8,000")
        ->capture_default_str()
        ->check(CLI::Range(1u, 1u << 24))
        ->type_name("N");
    app.add_flag("--json", is_json_, "One JSON object");
    engine_.context_tokens = kDefaultSequence;
    engine_.activations = "f32";
    engine_.AddAllTo(app, "Tokens per sequence that the text is cut into; default 4096");
    app.footer(kExamples);
  }

  int Run() override {
    Result<EngineOptions> options = engine_.ToOptions();
    if (!options.ok()) return FailUsage(options.status());
    const Result<std::vector<CodecPair>> codecs = ChosenCodecs();
    if (!codecs.ok()) return FailUsage(codecs.status());
    const Result<ModelInfo> info = InspectModel(options->model_path);
    if (!info.ok()) return Fail(info.status());
    QualityRequest request;
    request.engine = *options;
    request.num_scored = num_tokens_;
    for (const CodecPair& pair : *codecs) {
      // Not all heads can be stored in every way; those that were asked for are refused below, with the rule.
      if (names_.empty() && info->KvBytesPerToken(pair.k, pair.v) == 0) continue;
      CacheOptions cache = options->cache;
      cache.k_type = pair.k;
      cache.v_type = pair.v;
      request.candidates.push_back(cache);
    }
    request.sequence_tokens = std::min(options->context_tokens, info->context_tokens);
    auto tokens = SampleTokens(text_path_, options->model_path, num_tokens_ + 1, num_tokens_ + 1);
    if (!tokens.ok()) return Fail(tokens.status());
    request.tokens = std::move(tokens).value();
    return Measure(request);
  }

 private:
  static constexpr uint32_t kDefaultSequence = 4096;

  Result<std::vector<CodecPair>> ChosenCodecs() const {
    std::vector<CodecPair> codecs;
    for (const std::string& name : names_) {
      KVERN_ASSIGN_OR_RETURN(const CodecPair pair, ParseCodecPair(name));
      codecs.push_back(pair);
    }
    if (!codecs.empty()) return codecs;
    codecs = AllCodecPairs();
    std::erase(codecs, CodecPair{KvType::kF32, KvType::kF32});
    return codecs;
  }

  int Measure(const QualityRequest& request) {
    const OnInterrupt keep_running;  // The progress callback ends the measurement in order.
    ProgressBar bar("measuring", request.num_scored, /*shows_time_left=*/true);
    const auto reports = MeasureQuality(request, [&](uint64_t done, uint64_t total) {
      bar.SetTotal(total);
      bar.Update(done);
      return !WasInterrupted();
    });
    bar.Erase();
    if (!reports.ok()) return Fail(reports.status());
    Print(request, *reports);
    if (WasInterrupted()) return Fail(Status::Cancelled("interrupted"));
    return Record(request, *reports);
  }

  void Print(const QualityRequest& request, const std::vector<QualityReport>& reports) const {
    const uint64_t num_tokens = reports.front().all.num_tokens;
    if (is_json_) {
      WriteOut(Dump({{"model", request.engine.model_path},
                     {"activations", ActivationModeName(request.engine.activations)},
                     {"sequence_tokens", request.sequence_tokens},
                     {"tokens", num_tokens},
                     {"results", QualityJson(reports)}}));
      return;
    }
    const Estimate nll = reports.front().all.reference_nll;
    WriteOut(request.engine.model_path + ", " + ActivationModeName(request.engine.activations) + " activations: " +
             FormatCount(num_tokens) + " tokens in sequences of " + FormatCount(request.sequence_tokens) +
             ", against f32 keys and values (NLL " + FormatFixed(nll.value, 4) + ")\n\n" + QualityTable(reports));
  }

  // Verdicts on codecs that have a gate.
  int Record(const QualityRequest& request, const std::vector<QualityReport>& reports) {
    if (request.engine.activations != ActivationMode::kF32) {
      std::fprintf(stderr, "kvern: no verdict is kept: int8 activations add a divergence of their own\n");
      return kExitDone;
    }
    if (reports.front().all.num_tokens < kVerdictTokens) return kExitDone;
    VerdictStore store(VerdictsPath(engine_.lossy));
    const auto digest = store.DigestOf(request.engine.model_path);
    if (!digest.ok()) return Fail(digest.status());
    for (const QualityReport& report : reports) {
      const auto gate = GateFor(report.cache.k_type, report.cache.v_type);
      if (!gate) continue;
      const Status status = store.Record({.model_digest = *digest,
                                          .codecs = NameOf(CodecsOf(report)),
                                          .gate = std::string(gate->name),
                                          .is_passed = PassesGate(*gate, report.all),
                                          .num_tokens = report.all.num_tokens,
                                          .kld_mean = report.all.kld_mean,
                                          .same_top = report.all.same_top});
      if (!status.ok()) return Fail(status);
    }
    return kExitDone;
  }

  EngineFlags engine_;
  std::vector<std::string> names_;
  std::string text_path_;
  uint32_t num_tokens_ = 8192;
  bool is_json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeQualityCommand(CLI::App& app) { return std::make_unique<QualityCommand>(app); }

}  // namespace kvern::cli
