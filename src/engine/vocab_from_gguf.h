// Reads the tokenizer's metadata out of a model file.
#pragma once

#include "gguf/gguf_file.h"
#include "kvern/status.h"
#include "tokenizer/vocab.h"

namespace kvern {

// The keys `tokenizer.ggml.*` of `file`, copied. Checks their types only: MakeTokenizer checks the rest.
// kNotFound without `model` or `tokens`, kCorruption for a value of the wrong type.
Result<VocabData> VocabFromGguf(const GgufFile& file);

}  // namespace kvern
