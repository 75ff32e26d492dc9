// A PreTokenizer cuts text into the pieces inside which byte-level BPE merges. Which regular expressions do that is
// named by the model file (`tokenizer.ggml.pre`).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kvern/status.h"

namespace kvern {

// Immutable, so any thread may use it.
class PreTokenizer {
 public:
  // kUnsupported for an unknown name; the message lists the known ones.
  static Result<std::unique_ptr<PreTokenizer>> Create(std::string_view name);

  virtual ~PreTokenizer() = default;

  // Replaces `ends` by the end of each piece of `text`, in order. The pieces cover the text and none is empty; each run
  // of bytes that are no well-formed UTF-8 is one. `text` has fewer than 2^32 bytes. Time is linear in the text.
  virtual Status Split(std::string_view text, std::vector<uint32_t>& ends) const = 0;

  // A piece that is a token as it stands is that token, whatever the merges would make of it.
  virtual bool ignores_merges() const = 0;
  // Whether such models begin with BOS when the file does not say.
  virtual bool adds_bos() const = 0;
};

}  // namespace kvern
