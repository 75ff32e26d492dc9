// StopChecker: finds stop strings in text that comes in pieces, and holds back what may still become one.
// The outcome depends on the text only, not on how it is cut into pieces.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvern {

class StopChecker {
 public:
  // `stops`: none empty, well-formed UTF-8; then text is never cut inside a character.
  explicit StopChecker(std::vector<std::string> stops);

  // Text that is certain after `text`: it belongs to no stop string, complete or begun. Once a stop string is complete
  // (the first one to end; of several that end there, the longest) this is the text before it, and nothing follows.
  std::string Push(std::string_view text);
  // The end of the answer: what was held back and became no stop string.
  std::string Finish();

  bool is_stopped() const { return is_stopped_; }

 private:
  // Where in `held_` the first complete stop string begins.
  std::optional<size_t> FindStop(size_t num_old_bytes) const;
  // Bytes at the end of `held_` that begin a stop string.
  size_t BytesToHold() const;

  std::vector<std::string> stops_;
  size_t longest_ = 0;
  std::string held_;
  bool is_stopped_ = false;
};

}  // namespace kvern
