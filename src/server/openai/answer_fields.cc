// The fields that /v1/chat/completions and /v1/completions share.
#include "server/openai/answer_fields.h"

#include <array>
#include <charconv>
#include <limits>

namespace kvern::server {
namespace {

constexpr uint32_t kMaxKeepSeconds = 7 * 24 * 3600;

constexpr uint32_t kMaxTokensLimit = std::numeric_limits<int32_t>::max();

// Fields of other servers and of later versions that would change the answer: better refused than passed over.
constexpr std::array kUnsupported = {"grammar",
                                     "json_schema",
                                     "guided_json",
                                     "guided_regex",
                                     "guided_grammar",
                                     "guided_choice",
                                     "functions",
                                     "function_call",
                                     "audio",
                                     "web_search_options",
                                     "lora",
                                     "samplers",
                                     "mirostat",
                                     "dry_multiplier",
                                     "xtc_probability",
                                     "typical_p",
                                     "dynatemp_range",
                                     "logits_processors",
                                     "structured_outputs",
                                     "n_predict",
                                     "min_tokens",
                                     "stop_token_ids",
                                     "bad_words",
                                     "allowed_token_ids",
                                     "use_beam_search",
                                     "truncate_prompt_tokens",
                                     "continue_final_message"};

constexpr std::string_view kTypicalP = "typical_p";  // 1 is what switches it off, and what many clients send.

// Whether `value` asks for nothing: false, 0, an empty list.
bool IsOff(const Json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value.get<double>() == 0;
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.empty();
}

void RefuseUnsupported(FieldReader& fields) {
  for (const char* name : kUnsupported) {
    const Json* const field = fields.Find(name);
    if (field == nullptr || IsOff(*field) || (name == kTypicalP && *field == 1)) continue;
    fields.Fail(name, "is not supported by this server");
  }
}

void ReadStop(FieldReader& fields, std::vector<std::string>& stop) {
  const Json* const field = fields.Find("stop");
  if (field == nullptr) return;
  const auto add = [&](const Json& text, const std::string& name) {
    if (!text.is_string()) return fields.Fail(name, std::string("expected a string, found ") + KindName(text));
    const auto& bytes = text.get_ref<const std::string&>();
    if (bytes.empty()) return fields.Fail(name, "is empty");
    if (bytes.size() > kMaxStopBytes) {
      return fields.Fail(
          name, "has " + std::to_string(bytes.size()) + " bytes, expected at most " + std::to_string(kMaxStopBytes));
    }
    stop.push_back(bytes);
  };
  if (field->is_string()) return add(*field, "stop");
  if (!field->is_array()) {
    return fields.Fail("stop", std::string("expected a string or an array of strings, found ") + KindName(*field));
  }
  if (field->size() > kMaxStops) {
    return fields.Fail(
        "stop", "has " + std::to_string(field->size()) + " strings, expected at most " + std::to_string(kMaxStops));
  }
  for (size_t i = 0; i < field->size(); ++i) add((*field)[i], "stop[" + std::to_string(i) + "]");
}

// {"50256": -100}: token ids as keys.
void ReadLogitBias(FieldReader& fields, std::vector<std::pair<TokenId, float>>& biases) {
  const Json* const field = fields.Find("logit_bias");
  if (field == nullptr) return;
  if (!field->is_object())
    return fields.Fail("logit_bias", std::string("expected an object, found ") + KindName(*field));
  FieldReader entries(*field, "logit_bias", fields.errors());
  for (const auto& [key, value] : field->items()) {
    TokenId token = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (error != std::errc() || end != key.data() + key.size() || token < 0) {
      return fields.Fail("logit_bias", "has the key " + ShowJson(key) + ", expected a token id");
    }
    if (!value.is_number()) return entries.Fail(key, std::string("expected a number, found ") + KindName(value));
    const double bias = value.get<double>();
    if (!(bias >= -100 && bias <= 100)) return entries.Fail(key, "is " + ShowJson(value) + ", expected -100 to 100");
    biases.emplace_back(token, static_cast<float>(bias));
  }
}

void ReadMaxTokens(FieldReader& fields, std::optional<uint32_t>& max_tokens) {
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {  // The second is the newer name and counts.
    uint32_t value = kMaxTokensLimit;
    if (fields.Find(name) == nullptr) continue;
    fields.UInt32(name, value, 0, kMaxTokensLimit);
    max_tokens = value;
  }
}

void ReadResponseFormat(FieldReader& fields) {
  const Json* const field = fields.Find("response_format");
  if (field == nullptr) return;
  FieldReader format(*field, "response_format", fields.errors());
  std::string type = "text";
  format.String("type", type);
  if (type != "text") {
    format.Fail("type", "is " + ShowJson(type) +
                            ", and this server supports \"text\" alone: the model's answer is not "
                            "held to JSON or a schema");
  }
}

void ReadStreaming(FieldReader& fields, AnswerOptions& answer) {
  fields.Bool("stream", answer.is_streamed);
  const Json* const field = fields.Find("stream_options");
  if (field == nullptr) return;
  FieldReader options(*field, "stream_options", fields.errors());
  options.Bool("include_usage", answer.includes_usage);
  if (!answer.is_streamed) fields.Fail("stream_options", "is for streams: set stream to true");
}

void ReadSampling(FieldReader& fields, AnswerOptions& answer) {
  SamplingOptions& sampling = answer.sampling;
  sampling.temperature = 1;  // The API's default.
  fields.Float("temperature", sampling.temperature, 0, 100);
  fields.Float("top_p", sampling.top_p, 0, 1);
  if (sampling.top_p == 0) sampling.top_p = std::numeric_limits<float>::min();  // Keeps the most likely one.
  fields.Float("min_p", sampling.min_p, 0, 1);
  if (const Json* const top_k = fields.Find("top_k"); top_k == nullptr || *top_k != -1) {  // -1: all, as 0.
    fields.UInt32("top_k", sampling.top_k, 0, kMaxTokensLimit);
  }
  fields.Float("presence_penalty", sampling.presence_penalty, -2, 2);
  fields.Float("frequency_penalty", sampling.frequency_penalty, -2, 2);
  for (const char* name : {"repetition_penalty", "repeat_penalty"})
    fields.Float(name, sampling.repeat_penalty, 0.01, 100);
  fields.UInt32("repeat_last_n", sampling.repeat_window, 0, kMaxTokensLimit);
  std::optional<uint64_t> seed;
  fields.Bits64("seed", seed);
  answer.has_seed = seed.has_value();
  sampling.seed = seed.value_or(0);
  ReadLogitBias(fields, sampling.logit_bias);
}

}  // namespace

void ReadAnswerFields(FieldReader& fields, AnswerOptions& answer) {
  RefuseUnsupported(fields);
  fields.String("model", answer.model);
  std::string user;  // Checked and passed over: kvern knows clients by their keys.
  fields.String("user", user);
  ReadSampling(fields, answer);
  ReadStop(fields, answer.stop);
  ReadMaxTokens(fields, answer.max_tokens);
  fields.UInt32("n", answer.num_choices, 1, kMaxChoices);
  ReadStreaming(fields, answer);
  ReadResponseFormat(fields);
  bool ignores_eos = false;
  fields.Bool("ignore_eos", ignores_eos);
  answer.ends_at_eos = !ignores_eos;
  fields.Bool("reuse_generated", answer.reuses_generated);
  fields.UInt32("cache_keep_seconds", answer.keep_seconds, 0, kMaxKeepSeconds);
}

}  // namespace kvern::server
