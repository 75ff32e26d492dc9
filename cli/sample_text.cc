#include "cli/sample_text.h"

#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "cli/format.h"
#include "cli/input.h"

namespace kvern::cli {
namespace {

// More than any text worth measuring on: a small archive must not fill the memory.
constexpr size_t kMaxTextBytes = size_t{256} << 20;

std::string MessageOf(gzFile file) {
  int code = Z_OK;
  const char* const message = gzerror(file, &code);
  return code == Z_ERRNO ? std::strerror(errno) : message;
}

}  // namespace

Result<std::string> ReadSampleText(const std::string& path) {
  if (path == "-") return ReadInput(path);
  const std::string name = path.empty() ? kSampleTextPath : path;
  errno = 0;
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(name.c_str(), "rb"), gzclose_r);
  if (!file) {
    if (path.empty()) {
      return Status::NotFound(name + " is not there: install it (apt-get install debian-faq, or scripts/setup.sh) or " +
                              "give another text with --text FILE");
    }
    const std::string message = name + ": cannot be opened: " + std::strerror(errno);
    return errno == ENOENT ? Status::NotFound(message) : Status::IoError(message);
  }
  std::string text;
  char buffer[65536];
  while (true) {
    const int count = gzread(file.get(), buffer, sizeof(buffer));
    if (count < 0) return Status::Corruption(name + ": cannot be read: " + MessageOf(file.get()));
    if (count == 0) break;
    text.append(buffer, static_cast<size_t>(count));
    if (text.size() > kMaxTextBytes) {
      return Status::InvalidArgument(name + " holds more than " + FormatBytes(kMaxTextBytes) + " of text");
    }
  }
  int code = Z_OK;
  gzerror(file.get(), &code);
  if (code != Z_OK) return Status::Corruption(name + " ends in the middle of its compressed data");
  return text;
}

Result<std::vector<TokenId>> SampleTokens(const std::string& path, const std::string& model_path, size_t min_count,
                                          size_t count) {
  KVERN_ASSIGN_OR_RETURN(const std::string text, ReadSampleText(path));
  KVERN_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, LoadTokenizer(model_path));
  KVERN_ASSIGN_OR_RETURN(std::vector<TokenId> tokens, tokenizer->Encode(text));
  if (tokens.size() < min_count) {
    return Status::InvalidArgument((path.empty() ? kSampleTextPath : path) + std::string(" has ") +
                                   FormatCount(tokens.size()) + " tokens, " + FormatCount(min_count) +
                                   " are needed: give a longer text");
  }
  if (tokens.size() > count) tokens.resize(count);
  return tokens;
}

}  // namespace kvern::cli
