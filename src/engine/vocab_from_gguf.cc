#include "engine/vocab_from_gguf.h"

#include <limits>

namespace kvern {
namespace {

constexpr uint64_t kMaxId = std::numeric_limits<uint32_t>::max();

Result<std::vector<std::string>> Strings(const GgufFile& file, std::string_view key) {
  KVERN_ASSIGN_OR_RETURN(const auto views, file.GetStrings(key));
  return std::vector<std::string>(views.begin(), views.end());
}

Status ReadId(const GgufFile& file, std::string_view key, std::optional<uint32_t>& id) {
  if (!file.Has(key)) return Status::Ok();
  KVERN_ASSIGN_OR_RETURN(const uint64_t value, file.GetUint(key, kMaxId));
  id = static_cast<uint32_t>(value);
  return Status::Ok();
}

Status ReadFlag(const GgufFile& file, std::string_view key, std::optional<bool>& flag) {
  if (!file.Has(key)) return Status::Ok();
  KVERN_ASSIGN_OR_RETURN(flag, file.GetBool(key));
  return Status::Ok();
}

}  // namespace

Result<VocabData> VocabFromGguf(const GgufFile& file) {
  VocabData vocab;
  KVERN_ASSIGN_OR_RETURN(vocab.model, file.GetString("tokenizer.ggml.model"));
  if (file.Has("tokenizer.ggml.pre")) {
    KVERN_ASSIGN_OR_RETURN(vocab.pre, file.GetString("tokenizer.ggml.pre"));
  }
  KVERN_ASSIGN_OR_RETURN(vocab.tokens, Strings(file, "tokenizer.ggml.tokens"));
  if (file.Has("tokenizer.ggml.scores")) {
    KVERN_ASSIGN_OR_RETURN(vocab.scores, file.GetFloats("tokenizer.ggml.scores"));
  }
  if (file.Has("tokenizer.ggml.token_type")) {
    KVERN_ASSIGN_OR_RETURN(const auto types, file.GetInts("tokenizer.ggml.token_type"));
    vocab.token_types.reserve(types.size());
    for (const int64_t type : types) {
      // What does not fit is no type either; MakeTokenizer says so.
      const bool fits = type == static_cast<int32_t>(type);
      vocab.token_types.push_back(fits ? static_cast<int32_t>(type) : std::numeric_limits<int32_t>::max());
    }
  }
  if (file.Has("tokenizer.ggml.merges")) {
    KVERN_ASSIGN_OR_RETURN(vocab.merges, Strings(file, "tokenizer.ggml.merges"));
  }
  KVERN_RETURN_IF_ERROR(ReadId(file, "tokenizer.ggml.bos_token_id", vocab.bos_id));
  KVERN_RETURN_IF_ERROR(ReadId(file, "tokenizer.ggml.eos_token_id", vocab.eos_id));
  KVERN_RETURN_IF_ERROR(ReadId(file, "tokenizer.ggml.eot_token_id", vocab.eot_id));
  KVERN_RETURN_IF_ERROR(ReadId(file, "tokenizer.ggml.eom_token_id", vocab.eom_id));
  KVERN_RETURN_IF_ERROR(ReadId(file, "tokenizer.ggml.unknown_token_id", vocab.unk_id));
  KVERN_RETURN_IF_ERROR(ReadId(file, "tokenizer.ggml.padding_token_id", vocab.pad_id));
  // Many published files name a padding token just past their vocabulary. Nothing here pads.
  if (vocab.pad_id && *vocab.pad_id >= vocab.tokens.size()) vocab.pad_id.reset();
  KVERN_RETURN_IF_ERROR(ReadFlag(file, "tokenizer.ggml.add_bos_token", vocab.add_bos));
  KVERN_RETURN_IF_ERROR(ReadFlag(file, "tokenizer.ggml.add_eos_token", vocab.add_eos));
  KVERN_RETURN_IF_ERROR(ReadFlag(file, "tokenizer.ggml.add_space_prefix", vocab.add_space_prefix));
  return vocab;
}

}  // namespace kvern
