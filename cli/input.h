// Texts and token ids that a user hands to a command.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvern/status.h"
#include "kvern/tokenizer.h"

namespace kvern::cli {

// All bytes of the file, as they are; "-" is stdin. kNotFound, kIoError and, for more than `max_bytes`,
// kResourceExhausted name it.
Result<std::string> ReadInput(const std::string& path, uint64_t max_bytes = UINT64_MAX);

// A JSON array of ids, or ids between spaces and commas. kInvalidArgument names the first that is none or lies outside
// [0, vocab_size).
Result<std::vector<TokenId>> ParseTokenIds(std::string_view text, size_t vocab_size);

}  // namespace kvern::cli
