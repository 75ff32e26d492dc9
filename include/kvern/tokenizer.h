// Tokenizer: text to token ids and back, as the model's own vocabulary says. Immutable, so any thread may use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvern/status.h"

namespace kvern {

using TokenId = int32_t;

struct EncodeOptions {
  bool add_special = true;     // Add BOS / EOS where the model's metadata asks for them.
  bool parse_special = false;  // Text like "<|im_start|>" becomes the control token; otherwise it is plain text.
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Token ids of `text` (any bytes; ill-formed UTF-8 survives a round trip). O(n log n). kInvalidArgument only where
  // the text exceeds 2^31 - 1 bytes or the vocabulary has no way to write one of its bytes (the message gives the
  // offset).
  virtual Result<std::vector<TokenId>> Encode(std::string_view text, const EncodeOptions& options = {}) const = 0;

  // The bytes that `token` stands for: "" for control tokens unless `render_special`. Ids outside the vocabulary give
  // "".
  virtual std::string TokenBytes(TokenId token, bool render_special = false) const = 0;

  // Text of a whole sequence; SPM models drop the space that encoding put first.
  virtual std::string Decode(const std::vector<TokenId>& tokens, bool render_special = false) const = 0;

  virtual size_t vocab_size() const = 0;
  virtual std::optional<TokenId> bos() const = 0;
  virtual std::optional<TokenId> eos() const = 0;
  // Generation ends here: EOS, end of turn, end of message.
  virtual bool IsEndOfGeneration(TokenId token) const = 0;
  virtual bool IsControl(TokenId token) const = 0;
  // "gpt2 (smollm)", "llama (SPM)": for people.
  virtual std::string Description() const = 0;
};

// The tokenizer of the model file at `path`, without its weights. The file may hold a vocabulary alone. Errors as for
// Engine::Open: kNotFound, kIoError, kCorruption, kUnsupported.
Result<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& path);

// Turns tokens into text piece by piece and never emits part of a UTF-8 character: incomplete bytes wait for the next
// token. Bytes that can never become a character are emitted as U+FFFD. One stream, one thread; `tokenizer` must
// outlive it.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, bool render_special = false);
  // Text that is complete after `token`.
  std::string Push(TokenId token);
  // What is left at the end: "" or one U+FFFD per byte sequence that was cut.
  std::string Finish();

 private:
  const Tokenizer* tokenizer_;
  bool render_special_;
  std::string pending_;
};

}  // namespace kvern
