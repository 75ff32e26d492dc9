// GeneratedTexts: the token ids of the last answers, by the text that they are. Cut into tokens anew, the text of an
// answer may become other tokens than were generated, and those are not in the cache. Takes its own lock.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvern/tokenizer.h"

namespace kvern::server {

class GeneratedTexts {
 public:
  struct Beginning {
    size_t num_bytes;  // Of the text, that these tokens are.
    std::vector<TokenId> tokens;
  };

  // `text` is a prompt with its answer, `tokens` are those of both. Only requests of the same salt find it.
  void Add(std::string salt, std::string text, std::vector<TokenId> tokens) {
    const std::lock_guard lock(mutex_);
    text.shrink_to_fit();
    num_bytes_ += BytesOf(text, tokens);
    entries_.push_front({std::move(salt), std::move(text), std::move(tokens)});
    while (num_bytes_ > kMostBytes) {
      num_bytes_ -= BytesOf(entries_.back().text, entries_.back().tokens);
      entries_.pop_back();
    }
  }

  // The longest prompt with its answer that `text` goes on from; of several, the latest.
  std::optional<Beginning> Find(std::string_view salt, std::string_view text) const {
    const std::lock_guard lock(mutex_);
    const Entry* longest = nullptr;
    for (const Entry& entry : entries_) {
      const bool is_longer = longest == nullptr || entry.text.size() > longest->text.size();
      if (is_longer && entry.salt == salt && text.size() > entry.text.size() && text.starts_with(entry.text)) {
        longest = &entry;
      }
    }
    if (longest == nullptr) return std::nullopt;
    return Beginning{longest->text.size(), longest->tokens};
  }

 private:
  static constexpr size_t kMostBytes = size_t{16} << 20;
  struct Entry {
    std::string salt, text;
    std::vector<TokenId> tokens;
  };
  static size_t BytesOf(const std::string& text, const std::vector<TokenId>& tokens) {
    return sizeof(Entry) + text.capacity() + tokens.capacity() * sizeof(TokenId);
  }

  mutable std::mutex mutex_;
  std::deque<Entry> entries_;  // The latest first.
  size_t num_bytes_ = 0;
};

}  // namespace kvern::server
