// kvern ppl: how well a model predicts a text.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>

#include "cli/command.h"
#include "cli/engine_flags.h"
#include "cli/exit_code.h"
#include "cli/format.h"
#include "cli/generation.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/perplexity.h"
#include "cli/recompute.h"

namespace kvern::cli {
namespace {

constexpr char kExamples[] =
    "Examples:\n"
    "  kvern ppl -f wiki.test.txt\n"
    "  kvern ppl -f book.txt -c 20000 --chunks 1 --score-from 4000 --window 1024 --sinks 4 --recompute-every 64\n"
    "\n"
    "Without --stride: consecutive chunks of --ctx-size tokens, each begun with BOS if the model adds one, the second "
    "half\n"
    "of each scored; what remains of the text is left out (so llama-perplexity does it). With --stride N: windows "
    "that\n"
    "begin every N tokens, every token but the first scored once.\n"
    "\n"
    "--recompute-every N shows what --window and --sinks cost against giving the model the last tokens alone, "
    "computed\n"
    "anew for each token: both ways for every Nth token, and their mean difference. Each takes a pass over a window.";

constexpr uint32_t kDefaultWindow = 512;

class PplCommand : public Command {
 public:
  explicit PplCommand(CLI::App& app) {
    app.add_option("-f,--file", file_, "Text to score; - is stdin")->type_name("FILE");
    app.add_option("--ids", ids_file_, "Token ids to score instead of a text: a JSON array; - is stdin")
        ->type_name("FILE");
    auto* const stride =
        app.add_option("--stride", stride_, "Slide by so many tokens instead of scoring half of each chunk");
    stride->type_name("N");
    app.add_option("--score-from", score_from_, "Score the tokens from this one of each chunk on, not its second half")
        ->check(CLI::Range(1u, 1u << 20))
        ->excludes(stride)
        ->type_name("N");
    app.add_option("--recompute-every", recompute_every_,
                   "With --window: score every Nth token behind it with the window recomputed too")
        ->check(CLI::Range(1u, 1u << 20))
        ->type_name("N");
    app.add_option("--chunks", max_windows_, "Score only so many chunks; 0: all")
        ->capture_default_str()
        ->type_name("N");
    app.add_flag("--json", is_json_, "One JSON object");
    engine_.context_tokens = kDefaultWindow;
    engine_.AddAllTo(app, "Tokens per chunk or window; default 512");
    app.footer(kExamples);
    app.callback([this, &app] { has_stride_ = app.count("--stride") > 0; });
  }

  int Run() override {
    if (file_.empty() == ids_file_.empty()) {
      return FailUsage(Status::InvalidArgument("give either --file FILE or --ids FILE (see kvern ppl --help)"));
    }
    Result<EngineOptions> options = engine_.ToOptions();
    if (!options.ok()) return FailUsage(options.status());
    options->max_sequences = 1;
    if (recompute_every_ > 0) {
      auto recomputed = RecomputedWindow::Create(options->cache, recompute_every_);
      if (!recomputed.ok()) return FailUsage(recomputed.status());
      recomputed_ = *std::move(recomputed);
    }
    const Result<std::string> text = ReadInput(file_.empty() ? ids_file_ : file_);
    if (!text.ok()) return Fail(text.status());
    const auto engine = OpenEngine(*options);
    if (!engine.ok()) return Fail(engine.status());

    const Tokenizer& tokenizer = (*engine)->tokenizer();
    const auto tokens = file_.empty() ? ParseTokenIds(*text, tokenizer.vocab_size()) : tokenizer.Encode(*text);
    if (!tokens.ok()) return Fail(tokens.status());
    const size_t size = (*engine)->options().context_tokens;
    auto windows =
        has_stride_ ? SlidingWindows(tokens->size(), size, stride_) : ChunkedWindows(tokens->size(), size, score_from_);
    if (!windows.ok()) return Fail(windows.status());
    if (max_windows_ != 0 && windows->size() > max_windows_) windows->resize(max_windows_);
    if (recomputed_ && NumRecomputed(*windows) == 0) {
      return Fail(Status::InvalidArgument("no scored token has more than window and sinks before it: --ctx-size is " +
                                          std::to_string(size) + ", give more"));
    }
    if (Status status = ScoreAll(**engine, *tokens, *windows); !status.ok()) {
      const int exit_code = Fail(status);
      if (exit_code == kExitInterrupted && nll_.count() > 0) Report(**engine, tokens->size());
      return exit_code;
    }
    Report(**engine, tokens->size());
    return kExitDone;
  }

 private:
  uint64_t NumRecomputed(const std::vector<ScoreWindow>& windows) const {
    uint64_t count = 0;
    for (const ScoreWindow& window : windows) {
      count += recomputed_->Targets(window.end - window.begin, window.first_scored - window.begin).size();
    }
    return count;
  }

  Status ScoreAll(Engine& engine, const std::vector<TokenId>& tokens, const std::vector<ScoreWindow>& windows) {
    uint64_t total = 0;
    for (const ScoreWindow& window : windows) total += window.end - window.begin;
    if (recomputed_) total += NumRecomputed(windows) * recomputed_->TokensPerTarget();
    // BOS where encoding puts it; it takes the place of the first token of a window, which is never scored.
    const auto begun = engine.tokenizer().Encode("");
    const std::optional<TokenId> bos =
        begun.ok() && !begun->empty() && !file_.empty() ? engine.tokenizer().bos() : std::nullopt;
    const OnInterrupt keep_running;  // The progress callback ends the scoring in order.
    ProgressBar bar("scoring", total);
    uint64_t done = 0;
    for (const ScoreWindow& window : windows) {
      ScoreRequest request;
      request.tokens.assign(tokens.begin() + static_cast<ptrdiff_t>(window.begin),
                            tokens.begin() + static_cast<ptrdiff_t>(window.end));
      if (bos) request.tokens.front() = *bos;
      request.first_scored = static_cast<uint32_t>(window.first_scored - window.begin);
      const auto goes_on = [&](uint64_t tokens_done) {
        bar.Update(done + tokens_done);
        return !WasInterrupted();
      };
      KVERN_ASSIGN_OR_RETURN(const auto scores, engine.Score(request, goes_on));
      for (const TokenScore& score : scores) nll_.Add(score.log_prob);
      done += window.end - window.begin;
      window_means_.push_back(nll_.mean());
      if (!recomputed_) continue;
      KVERN_RETURN_IF_ERROR(recomputed_->Add(engine, request.tokens, request.first_scored, scores, goes_on));
      done += recomputed_->Targets(request.tokens.size(), request.first_scored).size() * recomputed_->TokensPerTarget();
    }
    return Status::Ok();
  }

  void Report(const Engine& engine, size_t num_tokens) const {
    if (is_json_) {
      WriteOut(Dump({{"model", engine.options().model_path},
                     {"ctx_size", engine.options().context_tokens},
                     {"stride", has_stride_ ? nlohmann::ordered_json(stride_) : nlohmann::ordered_json(nullptr)},
                     {"activations", ActivationModeName(engine.options().activations)},
                     {"kv_type", KvTypesName(engine.options().cache)},
                     {"tokens", num_tokens},
                     {"scored", nll_.count()},
                     {"windows", window_means_.size()},
                     {"nll", nll_.mean()},
                     {"nll_error", nll_.standard_error()},
                     {"perplexity", nll_.perplexity()},
                     {"perplexity_error", nll_.perplexity_error()},
                     {"nll_after_window", window_means_},
                     {"recompute", recomputed_ ? recomputed_->Json() : nlohmann::ordered_json(nullptr)}}));
      return;
    }
    WriteOut("tokens " + FormatCount(num_tokens) + ", scored " + FormatCount(nll_.count()) + " in " +
             FormatCount(window_means_.size()) + " windows of " + FormatCount(engine.options().context_tokens) + "\n" +
             "NLL " + FormatFixed(nll_.mean(), 5) + " +- " + FormatFixed(nll_.standard_error(), 5) + "\n" +
             "perplexity " + FormatFixed(nll_.perplexity(), 4) + " +- " + FormatFixed(nll_.perplexity_error(), 4) +
             "\n" + (recomputed_ ? "\n" + recomputed_->Text() : ""));
  }

  EngineFlags engine_;
  std::string file_;
  std::string ids_file_;
  uint32_t stride_ = 0;
  uint32_t score_from_ = 0;
  uint32_t recompute_every_ = 0;
  std::optional<RecomputedWindow> recomputed_;
  uint32_t max_windows_ = 0;
  bool has_stride_ = false;
  bool is_json_ = false;
  NllMean nll_;
  std::vector<double> window_means_;  // Mean NLL of all tokens scored up to the end of each window.
};

}  // namespace

std::unique_ptr<Command> MakePplCommand(CLI::App& app) { return std::make_unique<PplCommand>(app); }

}  // namespace kvern::cli
