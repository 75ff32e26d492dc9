#include "cli/generation.h"

#include <optional>
#include <utility>

#include "cli/engine_flags.h"
#include "cli/format.h"
#include "cli/interrupt.h"

namespace kvern::cli {
namespace {

double Rate(uint64_t tokens, uint64_t us) {
  return us == 0 ? 0.0 : 1e6 * static_cast<double>(tokens) / static_cast<double>(us);
}

}  // namespace

Result<Generation> Generate(Engine& engine, Request request, const std::function<bool(const TokenEvent&)>& on_event) {
  KVERN_ASSIGN_OR_RETURN(TokenStream stream, engine.Submit(std::move(request)));
  const OnInterrupt cancel([&stream] { stream.Cancel(); });
  Generation made;
  bool is_wanted = true;
  while (std::optional<TokenEvent> event = stream.Next()) {
    if (event->token >= 0) made.tokens.push_back(event->token);
    made.text += event->text;
    if (is_wanted && on_event && !on_event(*event)) {
      is_wanted = false;
      stream.Cancel();
    }
  }
  KVERN_RETURN_IF_ERROR(stream.finish_reason() == FinishReason::kCancelled ? Status::Ok() : stream.status());
  made.finish_reason = stream.finish_reason();
  made.stats = stream.stats();
  return made;
}

double PrefillRate(const RequestStats& stats) { return Rate(stats.prompt_tokens, stats.prefill_us); }

double DecodeRate(const RequestStats& stats) {
  return stats.generated_tokens < 2 ? 0.0 : Rate(stats.generated_tokens - 1, stats.decode_us);
}

std::string LostValuesWarning(const Engine& engine) {
  const uint64_t num_lost = engine.Stats().kv_values_lost;
  if (num_lost == 0) return "";
  return "kvern: warning: " + FormatCount(num_lost) + " values of K or V did not fit " +
         KvTypesName(engine.options().cache) +
         " and were cut to its range, or were not finite: the text may be wrong. `kvern diagnose` names them; "
         "--kv-type bf16 or f32 holds any finite value.\n";
}

std::string Summary(const RequestStats& stats) {
  return FormatCount(stats.prompt_tokens) + " tokens in, " + FormatCount(stats.generated_tokens) + " out; prefill " +
         FormatRate(PrefillRate(stats)) + " tok/s, decode " + FormatRate(DecodeRate(stats)) + " tok/s; KV " +
         FormatBytes(stats.kv_bytes) + "; " + FormatCount(stats.tokens_computed) + " tokens computed, " +
         FormatCount(stats.tokens_reused) + " reused";
}

nlohmann::ordered_json ToJson(const RequestStats& stats) {
  return {
      {"prompt_tokens", stats.prompt_tokens},
      {"generated_tokens", stats.generated_tokens},
      {"tokens_computed", stats.tokens_computed},
      {"tokens_reused", stats.tokens_reused},
      {"query_key_products", stats.query_key_products},
      {"steps", stats.steps},
      {"queue_us", stats.queue_us},
      {"prefill_us", stats.prefill_us},
      {"decode_us", stats.decode_us},
      {"prefill_tok_per_s", PrefillRate(stats)},
      {"decode_tok_per_s", DecodeRate(stats)},
      {"num_preemptions", stats.num_preemptions},
      {"tokens_recomputed", stats.tokens_recomputed},
      {"kv_bytes", stats.kv_bytes},
  };
}

std::string Dump(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', /*ensure_ascii=*/false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace kvern::cli
