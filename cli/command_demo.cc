// kvern demo: one prompt, generated with the cache and without it. Same text; the numbers say what the cache is worth.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "cli/cache_theory.h"
#include "cli/command.h"
#include "cli/engine_flags.h"
#include "cli/exit_code.h"
#include "cli/format.h"
#include "cli/generation.h"
#include "cli/interrupt.h"
#include "cli/output.h"

namespace kvern::cli {
namespace {

constexpr char kExamples[] =
    "Examples:\n"
    "  kvern demo\n"
    "  kvern demo \"Name three uses of a windmill.\" -n 64 --threads 1\n"
    "\n"
    "Ends with exit code 1 if the two texts or the counters are not what theory says.";

struct Pass {
  Generation made;
  uint64_t us() const { return made.stats.prefill_us + made.stats.decode_us; }
};

class DemoCommand : public Command {
 public:
  explicit DemoCommand(CLI::App& app) {
    app.add_option("PROMPT", prompt_, "What to ask")->capture_default_str()->type_name("");
    app.add_option("-n,--max-tokens", max_tokens_, "Most tokens to generate")
        ->capture_default_str()
        ->check(CLI::Range(2u, 1u << 20))
        ->type_name("N");
    engine_.AddAllTo(app, "Longest prompt and answer together; default: the model's, at most 8192");
    app.footer(kExamples);
  }

  int Run() override {
    if (engine_.is_cache_off)
      return FailUsage(Status::InvalidArgument("--no-cache: the demo runs both ways by itself"));
    Result<EngineOptions> options = engine_.ToOptions();
    if (!options.ok()) return FailUsage(options.status());
    options->max_sequences = 1;
    if (const Status status = CheckCodecs(*options, engine_.lossy); !status.ok()) return Fail(status);

    const Result<Pass> cached = RunPass(*options, /*is_cached=*/true);
    if (!cached.ok()) return Fail(cached.status());
    const Result<Pass> uncached = RunPass(*options, /*is_cached=*/false);
    if (!uncached.ok()) return Fail(uncached.status());
    return Report(*cached, *uncached);
  }

 private:
  // Each way has an engine of its own, one after the other, so that neither profits from the other.
  Result<Pass> RunPass(EngineOptions options, bool is_cached) {
    options.cache.is_enabled = is_cached;
    KVERN_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, OpenEngine(options));
    Request request;
    request.max_tokens = max_tokens_;
    KVERN_ASSIGN_OR_RETURN(request.prompt, EncodePrompt(engine->tokenizer()));
    heads_ = uint64_t{engine->model_info().num_layers} * engine->model_info().num_heads;

    if (is_cached) WriteOut("> " + prompt_ + "\n\n");
    ProgressBar bar("without the cache", max_tokens_);
    uint64_t done = 0;
    KVERN_ASSIGN_OR_RETURN(Generation made, Generate(*engine, std::move(request), [&](const TokenEvent& event) {
                             if (!is_cached) bar.Update(++done);
                             return !is_cached || (WriteOut(event.text) && FlushOut());
                           }));
    if (is_cached) WriteOut("\n\n");
    if (WasInterrupted()) return Status::Cancelled("interrupted");
    if (is_cached && !FlushOut()) return Status::IoError("the answer cannot be shown");
    return Pass{std::move(made)};
  }

  // Models that know ChatML are asked as in a chat; others go on with the text.
  Result<std::vector<TokenId>> EncodePrompt(const Tokenizer& tokenizer) const {
    const EncodeOptions with_control = {.add_special = false, .parse_special = true};
    const auto mark = tokenizer.Encode("<|im_start|>", with_control);
    if (!mark.ok() || mark->size() != 1 || !tokenizer.IsControl(mark->front())) return tokenizer.Encode(prompt_);
    KVERN_ASSIGN_OR_RETURN(auto tokens, tokenizer.Encode("<|im_start|>user\n", with_control));
    KVERN_ASSIGN_OR_RETURN(const auto question,
                           tokenizer.Encode(prompt_, {.add_special = false, .parse_special = false}));
    KVERN_ASSIGN_OR_RETURN(const auto end, tokenizer.Encode("<|im_end|>\n<|im_start|>assistant\n", with_control));
    tokens.insert(tokens.end(), question.begin(), question.end());
    tokens.insert(tokens.end(), end.begin(), end.end());
    return tokens;
  }

  int Report(const Pass& cached, const Pass& uncached) const {
    const RequestStats& with = cached.made.stats;
    const RequestStats& without = uncached.made.stats;
    const uint64_t prompt = with.prompt_tokens;
    const uint64_t context = std::max(with.tokens_computed, prompt);  // Each token of the context once.
    const StepProducts step = LastStepProducts(context);
    const uint64_t cached_theory = heads_ * CachedProducts(context);
    const uint64_t uncached_theory = heads_ * UncachedProducts(prompt, context);
    const std::string all_heads = ", " + FormatCount(heads_) + " heads in all layers";

    WriteOut(FormatTable({
        {"", "with the cache", "without it", "factor"},
        {"time", FormatSeconds(cached.us()), FormatSeconds(uncached.us()), Factor(uncached.us(), cached.us())},
        {"prefill tok/s", FormatRate(PrefillRate(with)), FormatRate(PrefillRate(without))},
        {"decode tok/s", FormatRate(DecodeRate(with)), FormatRate(DecodeRate(without))},
        {"tokens in / out", Pair(with), Pair(without)},
        {"K/V tokens computed", FormatCount(with.tokens_computed), FormatCount(without.tokens_computed),
         Factor(without.tokens_computed, with.tokens_computed)},
        {"K/V tokens reused", FormatCount(with.tokens_reused), FormatCount(without.tokens_reused)},
        {"query-key products", FormatCount(with.query_key_products), FormatCount(without.query_key_products),
         Factor(without.query_key_products, with.query_key_products)},
        {"  theory, causal", FormatCount(cached_theory), FormatCount(uncached_theory)},
        {"KV bytes kept", FormatBytes(with.kv_bytes), FormatBytes(without.kv_bytes)},
        {""},
        {"last step, n = " + FormatCount(context) + all_heads},
        {"  unmasked: 2n - 1, n^2", FormatCount(heads_ * step.unmasked_cached),
         FormatCount(heads_ * step.unmasked_uncached), Factor(step.unmasked_uncached, step.unmasked_cached)},
        {"  causal: n, n (n + 1) / 2", FormatCount(heads_ * step.causal_cached),
         FormatCount(heads_ * step.causal_uncached), Factor(step.causal_uncached, step.causal_cached)},
    }));
    const bool is_same = cached.made.tokens == uncached.made.tokens && cached.made.text == uncached.made.text;
    const bool is_theory = with.query_key_products == cached_theory && without.query_key_products == uncached_theory &&
                           without.tokens_computed == UncachedTokens(prompt, context);
    WriteOut(std::string("\ntexts identical: ") + (is_same ? "yes" : "NO") +
             "\ncounters as theory says: " + (is_theory ? "yes" : "NO") + "\n");
    return is_same && is_theory ? kExitDone : kExitFailed;
  }

  static std::string Factor(uint64_t more, uint64_t less) {
    return less == 0 ? "-" : FormatRate(static_cast<double>(more) / static_cast<double>(less)) + "x";
  }

  static std::string Pair(const RequestStats& stats) {
    return FormatCount(stats.prompt_tokens) + " / " + FormatCount(stats.generated_tokens);
  }

  EngineFlags engine_;
  std::string prompt_ = "Why is the sky blue? Answer in three sentences.";
  uint32_t max_tokens_ = 96;
  uint64_t heads_ = 0;  // Query heads of all layers.
};

}  // namespace

std::unique_ptr<Command> MakeDemoCommand(CLI::App& app) { return std::make_unique<DemoCommand>(app); }

}  // namespace kvern::cli
