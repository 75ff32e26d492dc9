#include "cli/input.h"

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>

namespace kvern::cli {

Result<std::string> ReadInput(const std::string& path, uint64_t max_bytes) {
  const bool is_stdin = path == "-";
  const std::string name = is_stdin ? "standard input" : path;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(is_stdin ? stdin : std::fopen(path.c_str(), "rb"),
                                                       [](std::FILE* f) { return f == stdin ? 0 : std::fclose(f); });
  if (!file) {
    const std::string message = name + ": cannot be opened: " + std::strerror(errno);
    return errno == ENOENT ? Status::NotFound(message) : Status::IoError(message);
  }
  std::string text;
  char buffer[65536];
  while (const size_t count = std::fread(buffer, 1, sizeof(buffer), file.get())) {
    text.append(buffer, count);
    if (text.size() > max_bytes) {
      return Status::ResourceExhausted(name + ": has more than " + std::to_string(max_bytes) +
                                       " bytes, which is the most that is read");
    }
  }
  if (std::ferror(file.get())) return Status::IoError(name + ": cannot be read: " + std::strerror(errno));
  return text;
}

Result<std::vector<TokenId>> ParseTokenIds(std::string_view text, size_t vocab_size) {
  constexpr std::string_view kBetween = " \t\r\n,[]";
  std::vector<TokenId> ids;
  for (size_t begin = text.find_first_not_of(kBetween); begin != std::string_view::npos;) {
    size_t end = text.find_first_of(kBetween, begin);
    if (end == std::string_view::npos) end = text.size();
    const std::string_view word = text.substr(begin, end - begin);
    TokenId id = 0;
    const auto [stop, code] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (code != std::errc() || stop != word.data() + word.size()) {
      return Status::InvalidArgument("byte " + std::to_string(begin) + ": '" + std::string(word.substr(0, 40)) +
                                     "' is no token id");
    }
    if (id < 0 || static_cast<size_t>(id) >= vocab_size) {
      return Status::InvalidArgument("byte " + std::to_string(begin) + ": token id " + std::to_string(id) +
                                     " is outside the vocabulary of " + std::to_string(vocab_size));
    }
    ids.push_back(id);
    begin = text.find_first_not_of(kBetween, end);
  }
  return ids;
}

}  // namespace kvern::cli
