// LineEditor: lines from standard input, edited with a history where a person types them. The only file that sees
// libedit.
#pragma once

#include <memory>
#include <string>

namespace kvern::cli {

class LineEditor {
 public:
  enum class Outcome {
    kLine,
    kInterrupted,  // Ctrl-C while a line was typed, which is dropped. Terminal only.
    kEnd,          // Ctrl-D on an empty line, or the end of the input.
  };

  // Edits where stdin and stderr are terminals; the settings of the user's ~/.editrc count.
  LineEditor();
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  bool is_interactive() const { return terminal_ != nullptr; }
  // Reads a line into `line`, without its end. `prompt` is shown on stderr, on terminals only.
  Outcome Read(const std::string& prompt, std::string& line);

 private:
  struct Terminal;
  std::unique_ptr<Terminal> terminal_;  // Null: plain lines.
};

}  // namespace kvern::cli
