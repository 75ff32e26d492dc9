// kvern chat: a conversation in a terminal, or with lines from a pipe.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "cli/chat_input.h"
#include "cli/chat_session.h"
#include "cli/chat_stats.h"
#include "cli/command.h"
#include "cli/engine_flags.h"
#include "cli/exit_code.h"
#include "cli/format.h"
#include "cli/generation.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/line_editor.h"
#include "cli/output.h"
#include "cli/sampling_flags.h"

namespace kvern::cli {
namespace {

constexpr char kExamples[] =
    "Examples:\n"
    "  kvern chat --system \"You answer in one sentence.\"\n"
    "  printf 'What is a mill?\\n/stats\\n' | kvern chat -m model.gguf --temp 0.7 --seed 7\n"
    "\n"
    "Answers go to stdout, everything else to stderr. In the chat, /help shows the commands.";

constexpr std::string_view kAlone[] = {"undo", "reset", "stats", "help", "quit", "exit"};  // Take no argument.

constexpr uint64_t kMaxSavedBytes = 64u << 20;  // More than any context holds.

constexpr char kHelp[] =
    "  /system TEXT  what the model is told to be; without TEXT, nothing\n"
    "  /undo         takes back your last message and its answer\n"
    "  /reset        begins anew; the system message stays\n"
    "  /save FILE    writes the conversation, as JSON\n"
    "  /load FILE    goes on with a conversation that was written\n"
    "  /stats        what the last turn and all turns found in the cache and computed\n"
    "  /quit         ends, as Ctrl-D does\n"
    "A line that ends in \\ goes on in the next; \"\"\" begins and ends a text of several lines; // at the beginning\n"
    "stands for a slash. Ctrl-C stops an answer and keeps what was said.\n";

// The conversation as it runs: reads messages and commands until their end.
class Chat {
 public:
  Chat(Engine& engine, ChatSession& session, Request request)
      : engine_(engine), session_(session), request_(std::move(request)) {}

  // Whether all went well. On a terminal, what has failed was shown and counts no more.
  bool Run();

 private:
  // The next message or command; nullopt at the end of the input.
  std::optional<std::string> ReadText();
  bool RunCommand(const SlashCommand& command);
  bool Answer();
  Status Generate();
  bool Save(const std::string& path) const;
  bool Load(const std::string& path);
  bool SetSystem(const std::string& text);
  bool Undo();
  static bool Check(const Status& status) { return status.ok() || Fail(status) == kExitDone; }

  Engine& engine_;
  ChatSession& session_;
  const Request request_;  // All but the prompt.
  LineEditor editor_;
  MessageLines lines_;
  ChatStats stats_;
  bool is_ended_ = false;
};

bool Chat::Run() {
  // A Ctrl-C that comes when an answer has just ended is late, and no reason to lose the conversation.
  std::optional<OnInterrupt> ignore;
  if (editor_.is_interactive()) {
    ignore.emplace();
    std::fprintf(stderr, "%s; /help shows the commands, Ctrl-D ends\n", engine_.options().model_path.c_str());
  }
  bool is_good = true;
  while (!is_ended_) {
    std::optional<std::string> text = ReadText();
    if (!text.has_value()) break;
    if (text->find_first_not_of(" \t\r\n") == std::string::npos) continue;
    if (const auto command = ParseSlashCommand(*text)) {
      is_good &= RunCommand(*command);
    } else {
      session_.AddUser(MessageOf(std::move(*text)));
      is_good &= Answer();
    }
    if (!FlushOut()) return false;  // Nobody reads the answers.
  }
  return is_good || editor_.is_interactive();
}

std::optional<std::string> Chat::ReadText() {
  std::string line;
  while (true) {
    switch (editor_.Read(lines_.is_open() ? ". " : "> ", line)) {
      case LineEditor::Outcome::kLine:
        if (auto text = lines_.Push(line)) return text;
        break;
      case LineEditor::Outcome::kInterrupted: lines_.Clear(); break;
      case LineEditor::Outcome::kEnd: return lines_.Finish();
    }
  }
}

bool Chat::RunCommand(const SlashCommand& command) {
  const auto& [name, argument] = command;
  if (!argument.empty() && std::ranges::find(kAlone, name) != std::end(kAlone)) {
    return Check(Status::InvalidArgument("/" + name + " stands alone, but \"" + EscapeBytes(argument) +
                                         "\" follows; a message that begins with a slash begins with //"));
  }
  if (name == "quit" || name == "exit") return is_ended_ = true;
  if (name == "undo") return Undo();
  if (name == "save") return Save(argument);
  if (name == "load") return Load(argument);
  if (name == "system") return SetSystem(argument);
  if (name == "reset") {
    session_.Reset();
    std::fprintf(stderr, "a new conversation%s\n", session_.messages().empty() ? "" : "; the system message stays");
  } else if (name == "stats") {
    std::fputs(stats_.Text(engine_.options().context_tokens).c_str(), stderr);
  } else if (name == "help") {
    std::fputs(kHelp, stderr);
  } else {
    return Check(Status::InvalidArgument("there is no command /" + EscapeBytes(name) +
                                         "; /help shows them, and a message that begins with a slash begins with //"));
  }
  return true;
}

bool Chat::Answer() {
  ForgetInterrupt();
  const OnInterrupt keep_running;  // From here on Ctrl-C stops the answer alone.
  const Status status = Generate();
  if (!status.ok()) {
    session_.Undo();
    std::fprintf(stderr, "kvern: %s\nkvern: your last message is taken back\n", status.ToString().c_str());
  }
  ForgetInterrupt();
  return status.ok();
}

Status Chat::Generate() {
  KVERN_ASSIGN_OR_RETURN(const std::vector<TokenId> prompt, session_.Prompt());
  const uint64_t context = engine_.options().context_tokens;
  if (prompt.size() >= context) {
    return Status::ResourceExhausted("the conversation of " + FormatCount(prompt.size()) +
                                     " tokens fills the context of " + FormatCount(context) +
                                     ": /undo takes a turn back, /reset begins anew, --ctx-size gives more room");
  }
  Request request = request_;
  request.prompt = prompt;
  request.max_tokens = static_cast<uint32_t>(std::min<uint64_t>(request.max_tokens, context - prompt.size()));
  const std::optional<PromptChange> change = session_.CompareToLast(prompt);
  KVERN_ASSIGN_OR_RETURN(const Generation made, cli::Generate(engine_, std::move(request), [](const TokenEvent& event) {
                           return event.text.empty() || (WriteOut(event.text) && FlushOut());
                         }));
  if (made.tokens.empty() && made.finish_reason == FinishReason::kCancelled) {
    return Status::Cancelled("stopped before the first token");
  }
  WriteOut("\n");
  FlushOut();
  stats_.Add(made.stats, change);
  session_.AddAnswer(prompt, made.tokens, made.text);
  if (made.finish_reason == FinishReason::kLength) {
    const bool is_full = prompt.size() + made.tokens.size() >= context;
    std::fprintf(stderr, "kvern: the answer was cut after %s tokens: %s\n", FormatCount(made.tokens.size()).c_str(),
                 is_full ? "the context is full; /undo takes the turn back, /reset begins anew" : "-n allows no more");
  }
  return Status::Ok();
}

bool Chat::Save(const std::string& path) const {
  if (path.empty()) return Check(Status::InvalidArgument("/save needs the name of a file"));
  if (!Check(WriteFile(path, session_.ToJson()))) return false;
  std::fprintf(stderr, "%s written to %s\n", FormatCountOf(session_.messages().size(), "message").c_str(),
               path.c_str());
  return true;
}

bool Chat::Load(const std::string& path) {
  if (path.empty() || path == "-") return Check(Status::InvalidArgument("/load needs the name of a file"));
  const Result<std::string> text = ReadInput(path, kMaxSavedBytes);
  if (!text.ok()) return Check(text.status());
  if (const Status status = session_.Load(*text); !status.ok()) {
    return Check(Status(status.code(), path + ": " + status.message()));
  }
  std::fprintf(stderr, "%s read from %s\n", FormatCountOf(session_.messages().size(), "message").c_str(), path.c_str());
  return !session_.awaits_answer() || Answer();
}

bool Chat::SetSystem(const std::string& text) {
  if (!Check(session_.SetSystem(text))) return false;
  std::fputs(text.empty() ? "there is no system message now\n" : "the system message is set\n", stderr);
  return true;
}

bool Chat::Undo() {
  const std::optional<std::string> said = session_.Undo();
  if (!said.has_value()) return Check(Status::InvalidArgument("there is nothing to take back"));
  std::fprintf(stderr, "taken back: %s\n", EscapeBytes(*said).c_str());
  return true;
}

class ChatCommand : public Command {
 public:
  explicit ChatCommand(CLI::App& app) {
    app.add_option("--system", system_, "What the model is told to be, before the conversation")->type_name("TEXT");
    app.add_option("-n,--max-tokens", max_tokens_, "Longest answer; less where the context has no room for it")
        ->capture_default_str()
        ->check(CLI::Range(1u, 1u << 20))
        ->type_name("N");
    AddSamplingTo(app, sampling_);
    engine_.AddAllTo(app, "Longest conversation, answers included; default: the model's, at most 8192");
    app.footer(kExamples);
  }

  int Run() override {
    Request request;
    request.max_tokens = max_tokens_;
    request.sampling = sampling_;
    request.prompt = {0};  // Stands in until there is one, so that wrong options fail before the model loads.
    if (const Status status = request.Validate(); !status.ok()) return FailUsage(status);
    const Result<EngineOptions> options = engine_.ToOptions();
    if (!options.ok()) return FailUsage(options.status());
    const Result<ModelInfo> info = InspectModel(options->model_path);
    if (!info.ok()) return Fail(info.status());
    if (info->chat_template.empty()) {
      return Fail(Status::Unsupported(options->model_path +
                                      ": the file has no chat template (tokenizer.chat_template), so nothing says how "
                                      "a conversation is written for this model; kvern run continues a text with it"));
    }

    if (const Status status = CheckCodecs(*options, engine_.lossy); !status.ok()) return Fail(status);
    const auto engine = OpenEngine(*options);
    if (!engine.ok()) return Fail(engine.status());
    Result<ChatSession> session = ChatSession::Open(info->chat_template, (*engine)->tokenizer());
    if (!session.ok()) {
      return Fail(Status(session.status().code(),
                         options->model_path + ": the chat template cannot be used: " + session.status().message()));
    }
    if (const Status status = session->SetSystem(system_); !status.ok()) return Fail(status);
    const bool is_good = Chat(**engine, *session, std::move(request)).Run();
    std::fputs(LostValuesWarning(**engine).c_str(), stderr);
    return is_good ? kExitDone : kExitFailed;
  }

 private:
  EngineFlags engine_;
  SamplingOptions sampling_;
  std::string system_;
  uint32_t max_tokens_ = 1024;
};

}  // namespace

std::unique_ptr<Command> MakeChatCommand(CLI::App& app) { return std::make_unique<ChatCommand>(app); }

}  // namespace kvern::cli
