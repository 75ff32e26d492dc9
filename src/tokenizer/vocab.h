// VocabData: what a model file says about its tokenizer, independent of the file's format.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvern/tokenizer.h"

namespace kvern {

enum class TokenType : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

// Field names follow the keys `tokenizer.ggml.*` of GGUF. All of it is untrusted.
struct VocabData {
  std::string model;                 // "gpt2" (byte-level BPE) or "llama" (SPM).
  std::optional<std::string> pre;    // Pre-tokenizer of BPE models.
  std::vector<std::string> tokens;   // Text per id; byte-level BPE: in the GPT-2 byte alphabet.
  std::vector<float> scores;         // SPM: one per token.
  std::vector<int32_t> token_types;  // TokenType values, one per token; empty: all normal.
  std::vector<std::string> merges;   // BPE: "left right", best rank first.
  std::optional<uint32_t> bos_id, eos_id, eot_id, eom_id, unk_id, pad_id;
  std::optional<bool> add_bos, add_eos, add_space_prefix;  // Absent: the default of the model and pre-tokenizer.
};

// Checks everything (ids in range, sizes, merges) and builds the tokenizer. kUnsupported for an unknown `model` or
// `pre`, listing the known ones; kCorruption for data that contradicts itself. A missing `pre` means "default".
Result<std::unique_ptr<Tokenizer>> MakeTokenizer(VocabData vocab);

// Names accepted as `tokenizer.ggml.pre`, sorted.
std::vector<std::string> KnownPreTokenizers();

}  // namespace kvern
