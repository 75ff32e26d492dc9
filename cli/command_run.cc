// kvern run: one prompt in, text out as it comes.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/cache_report.h"
#include "cli/command.h"
#include "cli/engine_flags.h"
#include "cli/exit_code.h"
#include "cli/generation.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/sampling_flags.h"

namespace kvern::cli {
namespace {

constexpr char kExamples[] =
    "Examples:\n"
    "  kvern run \"The capital of France is\" -n 32\n"
    "  kvern run --file question.txt --temp 0.8 --top-p 0.95 --seed 7 --stop \"\\n\\n\"\n"
    "\n"
    "Text goes to stdout; the last line on stderr has the numbers. Ctrl-C keeps the text so far (exit code 130).";

class RunCommand : public Command {
 public:
  explicit RunCommand(CLI::App& app) {
    auto* prompt = app.add_option("PROMPT", prompt_, "Text to continue, as it is")->type_name("");
    app.add_option("-f,--file", file_, "Read the prompt from a file; - is stdin")->type_name("FILE");
    app.add_option("-n,--max-tokens", max_tokens_, "Most tokens to generate; 0 only fills the cache")
        ->capture_default_str()
        ->type_name("N");
    app.add_option("--stop", stop_, "End before this text; may be given up to 16 times")
        ->type_name("TEXT")
        ->allow_extra_args(false);
    app.add_flag("--parse-special", parse_special_, "Text like <|im_start|> in the prompt counts as a control token");
    app.add_flag("--ignore-eos", ignore_eos_, "Go on after the model has ended its answer");
    app.add_flag("--stats", has_stats_, "What the cache costs before the run and what it held after it, on stderr");
    app.add_flag("--json", is_json_, "One JSON object at the end instead of text: text, ids, stats, finish reason");

    AddSamplingTo(app, sampling_);
    engine_.AddAllTo(app, "Longest prompt and answer together; default: the model's, at most 8192");
    app.footer(kExamples);
    app.callback([this, prompt, &app] { num_prompts_ = prompt->count() + app.count("--file"); });
  }

  int Run() override {
    if (num_prompts_ != 1) {
      return FailUsage(Status::InvalidArgument("give either PROMPT or --file FILE (see kvern run --help)"));
    }
    Request request;
    request.max_tokens = max_tokens_;
    request.sampling = sampling_;
    request.stop = stop_;
    request.ends_at_eos = !ignore_eos_;
    request.prompt = {0};  // Stands in until the tokenizer is there, so that wrong options fail before the model loads.
    if (Status status = request.Validate(); !status.ok()) return FailUsage(status);
    const Result<EngineOptions> options = engine_.ToOptions();
    if (!options.ok()) return FailUsage(options.status());

    if (!file_.empty()) {
      Result<std::string> text = ReadInput(file_);
      if (!text.ok()) return Fail(text.status());
      prompt_ = std::move(text).value();
    }
    if (const Status status = CheckCodecs(*options, engine_.lossy); !status.ok()) return Fail(status);
    const auto engine = OpenEngine(*options);
    if (!engine.ok()) return Fail(engine.status());
    if (has_stats_ || !engine_.kv_budget.empty()) {
      std::fprintf(stderr, "%s\n", CacheCostText((*engine)->cache_cost(), (*engine)->options().cache).c_str());
    }
    auto prompt = (*engine)->tokenizer().Encode(prompt_, {.add_special = true, .parse_special = parse_special_});
    if (!prompt.ok()) return Fail(prompt.status());
    if (prompt->empty())
      return Fail(Status::InvalidArgument("the prompt is empty, and this model puts no token before it"));
    request.prompt = std::move(prompt).value();
    return Answer(**engine, std::move(request));
  }

 private:
  int Answer(Engine& engine, Request request) const {
    const std::vector<TokenId> prompt = request.prompt;
    const Result<Generation> made = Generate(engine, std::move(request), [this](const TokenEvent& event) {
      return is_json_ || event.text.empty() || (WriteOut(event.text) && FlushOut());
    });
    if (!made.ok()) return Fail(made.status());
    if (is_json_) {
      WriteOut(Dump({{"model", engine.options().model_path},
                     {"text", made->text},
                     {"ids", made->tokens},
                     {"prompt_ids", prompt},
                     {"finish_reason", FinishReasonName(made->finish_reason)},
                     {"stats", ToJson(made->stats)}}));
    } else if (!made->text.empty() && made->text.back() != '\n') {
      WriteOut("\n");
    }
    FlushOut();
    if (has_stats_) std::fprintf(stderr, "%s", CacheStatsText(engine.Stats()).c_str());
    std::fprintf(stderr, "%s%s\n", LostValuesWarning(engine).c_str(), Summary(made->stats).c_str());
    return WasInterrupted() ? kExitInterrupted : kExitDone;
  }

  EngineFlags engine_;
  SamplingOptions sampling_;
  std::string prompt_;
  std::string file_;
  std::vector<std::string> stop_;
  uint32_t max_tokens_ = Request().max_tokens;
  size_t num_prompts_ = 0;
  bool parse_special_ = false;
  bool ignore_eos_ = false;
  bool has_stats_ = false;
  bool is_json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeRunCommand(CLI::App& app) { return std::make_unique<RunCommand>(app); }

}  // namespace kvern::cli
