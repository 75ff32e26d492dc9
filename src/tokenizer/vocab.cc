#include "tokenizer/vocab.h"

#include <cmath>
#include <limits>

#include "tokenizer/quoted.h"
#include "tokenizer/vocab_tokenizer.h"

namespace kvern {
namespace {

Status CheckSize(const char* key, size_t size, size_t num_tokens) {
  if (size == num_tokens) return Status::Ok();
  return Status::Corruption(std::string("tokenizer.ggml.") + key + " has " + std::to_string(size) +
                            " entries, expected one for each of " + std::to_string(num_tokens) + " tokens");
}

Status CheckId(const char* key, const std::optional<uint32_t>& id, size_t num_tokens) {
  if (!id || *id < num_tokens) return Status::Ok();
  return Status::Corruption(std::string("tokenizer.ggml.") + key + " is " + std::to_string(*id) +
                            ", expected less than the number of tokens, " + std::to_string(num_tokens));
}

// What holds for vocabularies of every model.
Status CheckVocab(const VocabData& vocab) {
  const size_t num_tokens = vocab.tokens.size();
  if (num_tokens == 0) return Status::Corruption("tokenizer.ggml.tokens is empty, expected at least one token");
  if (num_tokens > static_cast<size_t>(std::numeric_limits<int32_t>::max()) / 8) {
    return Status::Corruption("tokenizer.ggml.tokens has " + std::to_string(num_tokens) + " entries, too many");
  }
  if (vocab.merges.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max()) / 8) {
    return Status::Corruption("tokenizer.ggml.merges has " + std::to_string(vocab.merges.size()) +
                              " entries, too many");
  }
  for (size_t i = 0; i < num_tokens; ++i) {
    if (vocab.tokens[i].size() > (1u << 20)) {
      return Status::Corruption("tokenizer.ggml.tokens[" + std::to_string(i) + "] has " +
                                std::to_string(vocab.tokens[i].size()) + " bytes, limit " + std::to_string(1u << 20));
    }
  }
  if (!vocab.token_types.empty()) {
    KVERN_RETURN_IF_ERROR(CheckSize("token_type", vocab.token_types.size(), num_tokens));
    for (size_t i = 0; i < num_tokens; ++i) {
      const int32_t type = vocab.token_types[i];
      const std::string where = "tokenizer.ggml.token_type[" + std::to_string(i) + "]";
      if (type < static_cast<int32_t>(TokenType::kNormal) || type > static_cast<int32_t>(TokenType::kByte)) {
        return Status::Corruption(where + " is " + std::to_string(type) + ", expected 1 to 6");
      }
      if (type == static_cast<int32_t>(TokenType::kByte) && !ParseByteToken(vocab.tokens[i])) {
        return Status::Corruption(where + " is 6 (byte), but the text of the token is " + Quoted(vocab.tokens[i]) +
                                  ", expected the form '<0x41>'");
      }
    }
  }
  if (!vocab.scores.empty()) {
    KVERN_RETURN_IF_ERROR(CheckSize("scores", vocab.scores.size(), num_tokens));
    for (size_t i = 0; i < num_tokens; ++i) {
      if (std::isnan(vocab.scores[i])) {
        return Status::Corruption("tokenizer.ggml.scores[" + std::to_string(i) + "] is not a number");
      }
    }
  }
  KVERN_RETURN_IF_ERROR(CheckId("bos_token_id", vocab.bos_id, num_tokens));
  KVERN_RETURN_IF_ERROR(CheckId("eos_token_id", vocab.eos_id, num_tokens));
  KVERN_RETURN_IF_ERROR(CheckId("eot_token_id", vocab.eot_id, num_tokens));
  KVERN_RETURN_IF_ERROR(CheckId("eom_token_id", vocab.eom_id, num_tokens));
  KVERN_RETURN_IF_ERROR(CheckId("unknown_token_id", vocab.unk_id, num_tokens));
  KVERN_RETURN_IF_ERROR(CheckId("padding_token_id", vocab.pad_id, num_tokens));
  if (vocab.add_bos.value_or(false) && !vocab.bos_id) {
    return Status::Corruption("tokenizer.ggml.add_bos_token is true, but there is no tokenizer.ggml.bos_token_id");
  }
  if (vocab.add_eos.value_or(false) && !vocab.eos_id) {
    return Status::Corruption("tokenizer.ggml.add_eos_token is true, but there is no tokenizer.ggml.eos_token_id");
  }
  return Status::Ok();
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> MakeTokenizer(VocabData vocab) {
  if (vocab.model != "gpt2" && vocab.model != "llama") {
    return Status::Unsupported("tokenizer.ggml.model is " + Quoted(vocab.model) + ", known are gpt2, llama");
  }
  KVERN_RETURN_IF_ERROR(CheckVocab(vocab));
  return vocab.model == "gpt2" ? MakeBpeTokenizer(std::move(vocab)) : MakeSpmTokenizer(std::move(vocab));
}

}  // namespace kvern
