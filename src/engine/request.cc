#include "kvern/request.h"

#include <cmath>
#include <string>

#include "tokenizer/utf8.h"

namespace kvern {
namespace {

constexpr size_t kMaxStopStrings = 16;

std::string Number(float value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", static_cast<double>(value));
  return text;
}

Status CheckFloat(const char* name, float value, bool is_good, const char* expected) {
  if (is_good) return Status::Ok();
  return Status::InvalidArgument(std::string(name) + " is " + Number(value) + ", expected " + expected);
}

}  // namespace

Status SamplingOptions::Validate() const {
  KVERN_RETURN_IF_ERROR(
      CheckFloat("temperature", temperature, std::isfinite(temperature) && temperature >= 0, "0 or a positive number"));
  KVERN_RETURN_IF_ERROR(CheckFloat("top_p", top_p, top_p > 0 && top_p <= 1, "above 0 and at most 1"));
  KVERN_RETURN_IF_ERROR(CheckFloat("min_p", min_p, min_p >= 0 && min_p <= 1, "0 to 1"));
  KVERN_RETURN_IF_ERROR(CheckFloat("repeat_penalty", repeat_penalty,
                                   std::isfinite(repeat_penalty) && repeat_penalty > 0, "a positive number"));
  const auto check_penalty = [](const char* name, float value) {
    return CheckFloat(name, value, value >= -2 && value <= 2, "-2 to 2");
  };
  KVERN_RETURN_IF_ERROR(check_penalty("presence_penalty", presence_penalty));
  KVERN_RETURN_IF_ERROR(check_penalty("frequency_penalty", frequency_penalty));
  for (size_t i = 0; i < logit_bias.size(); ++i) {
    // Minus infinity forbids a token.
    const float bias = logit_bias[i].second;
    const std::string name = "logit_bias[" + std::to_string(i) + "]";
    KVERN_RETURN_IF_ERROR(
        CheckFloat(name.c_str(), bias, std::isfinite(bias) || bias < 0, "a number or minus infinity"));
  }
  return Status::Ok();
}

Status Request::Validate() const {
  if (prompt.empty()) return Status::InvalidArgument("prompt: has no tokens, expected at least one");
  KVERN_RETURN_IF_ERROR(sampling.Validate());
  if (num_top_logprobs > kMaxTopLogprobs) {
    return Status::InvalidArgument("num_top_logprobs is " + std::to_string(num_top_logprobs) + ", expected at most " +
                                   std::to_string(kMaxTopLogprobs));
  }
  if (stop.size() > kMaxStopStrings) {
    return Status::InvalidArgument("stop: " + std::to_string(stop.size()) + " strings, expected at most " +
                                   std::to_string(kMaxStopStrings));
  }
  for (size_t i = 0; i < stop.size(); ++i) {
    const std::string name = "stop[" + std::to_string(i) + "]";
    if (stop[i].empty()) return Status::InvalidArgument(name + ": is empty");
    // The text of an answer is well-formed, so anything else could only match by cutting a character.
    if (const size_t good = WellFormedPrefix(stop[i]); good != stop[i].size()) {
      return Status::InvalidArgument(name + ": is no UTF-8 at byte " + std::to_string(good));
    }
  }
  return Status::Ok();
}

}  // namespace kvern
