#include "cli/line_editor.h"

#include <histedit.h>
#include <signal.h>
#include <unistd.h>

#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string_view>

namespace kvern::cli {
namespace {

constexpr int kHistoryLines = 1000;

// Terminals that know these put marks around what is pasted while it is asked for; others ignore them, but for dumb
// ones.
constexpr char kAskForMarks[] = "\x1B[?2004h";
constexpr char kNoMarks[] = "\x1B[?2004l";
constexpr char kPasteBegins[] = "\x1B[200~";
constexpr std::wstring_view kPasteEnds = L"\x1B[201~";

// libedit reads characters of the locale. One without UTF-8 would lose whatever is not ASCII.
void ChooseCharacters() {
  std::setlocale(LC_CTYPE, "");
  if (MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
}

}  // namespace

struct LineEditor::Terminal {
  Terminal();
  ~Terminal();
  bool is_ready() const { return edit != nullptr && history != nullptr; }
  Outcome Read(const std::string& shown, std::string& line);

  static char* Prompt(EditLine* line) { return Of(line).prompt.data(); }
  static unsigned char OnInterruptKey(EditLine* line, int /*key*/) {
    Of(line).is_interrupted = true;
    return CC_NEWLINE;
  }
  // Takes what is pasted as text, its line ends too, up to the mark after it.
  static unsigned char OnPaste(EditLine* line, int key);
  static unsigned char OnStopKey(EditLine* /*line*/, int /*key*/) {
    raise(SIGTSTP);  // libedit's handler hands the terminal back first, and takes it again when the process goes on.
    return CC_REFRESH;
  }
  static Terminal& Of(EditLine* line) {
    void* terminal = nullptr;
    el_get(line, EL_CLIENTDATA, &terminal);
    return *static_cast<Terminal*>(terminal);
  }

  EditLine* edit = nullptr;
  History* history = nullptr;
  HistEvent event = {};
  std::string prompt;
  bool is_interrupted = false;
  bool knows_marks = true;
};

LineEditor::Terminal::Terminal()
    : edit(el_init("kvern", stdin, stderr, stderr)),  // Results alone go to stdout.
      history(history_init()) {
  if (!is_ready()) return;
  const char* const name = std::getenv("TERM");
  knows_marks = name != nullptr && std::string_view(name) != "dumb";
  ::history(history, &event, H_SETSIZE, kHistoryLines);
  ::history(history, &event, H_SETUNIQUE, 1);
  el_set(edit, EL_CLIENTDATA, this);
  el_set(edit, EL_PROMPT, &Terminal::Prompt);
  el_set(edit, EL_EDITOR, "emacs");
  el_set(edit, EL_HIST, ::history, history);
  el_set(edit, EL_SIGNAL, 1);  // Leaves the terminal as it was when the process is stopped or told to end.
  el_set(edit, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  el_source(edit, nullptr);
  // While a line is typed, Ctrl-C and Ctrl-Z are keys and no signals.
  el_set(edit, EL_SETTY, "-d", "-isig", nullptr);
  el_set(edit, EL_ADDFN, "kvern-interrupt", "drop the line", &Terminal::OnInterruptKey);
  el_set(edit, EL_BIND, "^C", "kvern-interrupt", nullptr);
  el_set(edit, EL_ADDFN, "kvern-stop", "stop the process", &Terminal::OnStopKey);
  el_set(edit, EL_BIND, "^Z", "kvern-stop", nullptr);
  el_set(edit, EL_ADDFN, "kvern-paste", "take pasted text as it is", &Terminal::OnPaste);
  el_set(edit, EL_BIND, kPasteBegins, "kvern-paste", nullptr);
}

LineEditor::Terminal::~Terminal() {
  if (edit != nullptr) el_end(edit);
  if (history != nullptr) history_end(history);
}

unsigned char LineEditor::Terminal::OnPaste(EditLine* line, int /*key*/) {
  std::wstring text;
  wchar_t c = 0;
  while (!text.ends_with(kPasteEnds)) {
    if (el_wgetc(line, &c) != 1) return CC_EOF;
    text.push_back(c == L'\r' ? L'\n' : c);
  }
  text.resize(text.size() - kPasteEnds.size());
  // What is left would move the cursor or worse when the line is shown.
  std::erase_if(text, [](wchar_t other) { return other < L' ' && other != L'\n' && other != L'\t'; });
  return el_winsertstr(line, text.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
}

LineEditor::Outcome LineEditor::Terminal::Read(const std::string& shown, std::string& line) {
  prompt = shown;
  is_interrupted = false;
  int count = 0;
  // libedit shows the prompt first, and the system would take Ctrl-D between the two for the end of an empty line.
  el_set(edit, EL_PREP_TERM, 1);
  if (knows_marks) std::fputs(kAskForMarks, stderr);
  const char* const text = el_gets(edit, &count);
  if (knows_marks) std::fputs(kNoMarks, stderr);
  if (is_interrupted) {  // First: there is no text then where nothing was typed.
    std::fputs("^C\n", stderr);
    return Outcome::kInterrupted;
  }
  if (text == nullptr || count < 0) {
    std::fputs("\n", stderr);
    return Outcome::kEnd;
  }
  line.assign(text, static_cast<size_t>(count));
  while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
  if (!line.empty()) ::history(history, &event, H_ENTER, line.c_str());
  return Outcome::kLine;
}

LineEditor::LineEditor() {
  if (isatty(STDIN_FILENO) != 1 || isatty(STDERR_FILENO) != 1) return;
  ChooseCharacters();
  terminal_ = std::make_unique<Terminal>();
  if (!terminal_->is_ready()) terminal_.reset();
}

LineEditor::~LineEditor() = default;

LineEditor::Outcome LineEditor::Read(const std::string& prompt, std::string& line) {
  if (terminal_ != nullptr) return terminal_->Read(prompt, line);
  if (!std::getline(std::cin, line)) return Outcome::kEnd;
  if (line.ends_with('\r')) line.pop_back();
  return Outcome::kLine;
}

}  // namespace kvern::cli
