// kvern, the program: picks the command and turns its outcome into an exit code.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/output.h"

namespace kvern::cli {
namespace {

struct CommandEntry {
  const char* name;
  const char* summary;
  std::unique_ptr<Command> (*make)(CLI::App& app);
};

constexpr CommandEntry kCommands[] = {
    {"run", "Generate text from one prompt", MakeRunCommand},
    {"chat", "Talk with a model in the terminal", MakeChatCommand},
    {"serve", "Answer many clients over HTTP, as the OpenAI API does", MakeServeCommand},
    {"cache", "What a running server keeps, and why it had to compute", MakeCacheCommand},
    {"demo", "One prompt with and without the cache, with the numbers", MakeDemoCommand},
    {"tokenize", "Text to token ids and pieces, and back", MakeTokenizeCommand},
    {"inspect", "What a model file holds, and what its cache costs", MakeInspectCommand},
    {"ppl", "Perplexity of a text", MakePplCommand},
    {"bench", "Prefill and decode speed beside the machine's limits", MakeBenchCommand},
    {"quality", "What each codec of keys and values costs on a model", MakeQualityCommand},
    {"diagnose", "What a model's keys and values look like, and which codecs that allows", MakeDiagnoseCommand},
    {"compare", "Every way to keep keys and values, in one table", MakeCompareCommand},
};

constexpr char kFooter[] =
    "kvern COMMAND --help shows the options of a command and two examples.\n"
    "\n"
    "Results go to stdout, everything else to stderr.\n"
    "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.";

// What is wrong with the arguments of `command`. The library names an option and its text where that is no number, or
// one out of range; what the option expects is in its description.
std::string UsageMessage(CLI::App& command, const CLI::ParseError& error) {
  const std::string message = error.what();
  constexpr std::string_view kBegin = "Could not convert: ", kMiddle = " = ";
  const size_t middle = message.find(kMiddle);
  if (!message.starts_with(kBegin) || middle == std::string::npos) return message;
  const std::string name = message.substr(kBegin.size(), middle - kBegin.size());
  const CLI::Option* const option = command.get_option_no_throw(name);
  if (option == nullptr) return message;
  return name + ": found '" + message.substr(middle + kMiddle.size()) +
         "', expected a number it can take: " + option->get_description();
}

int Main(int argc, char** argv) {
  CLI::App app("kvern: a local LLM engine built around its KV cache", "kvern");
  app.set_version_flag("--version", "kvern " KVERN_VERSION);
  app.require_subcommand(1);
  app.footer(kFooter);
  std::vector<std::pair<CLI::App*, std::unique_ptr<Command>>> commands;
  for (const CommandEntry& entry : kCommands) {
    CLI::App* const sub = app.add_subcommand(entry.name, entry.summary);
    commands.emplace_back(sub, entry.make(*sub));
  }

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return FinishOut(app.exit(help));
  } catch (const CLI::ParseError& error) {
    std::string name;  // Of the command, and of the one below it: "bench serve".
    CLI::App* command = &app;
    for (auto parsed = app.get_subcommands(); !parsed.empty(); parsed = command->get_subcommands()) {
      command = parsed.front();
      name += command->get_name() + " ";
    }
    if (!name.empty()) {
      std::fprintf(stderr, "kvern: %s\nSee kvern %s--help.\n", UsageMessage(*command, error).c_str(), name.c_str());
    } else if (argc < 2) {
      std::fprintf(stderr, "%s", app.help().c_str());
    } else {
      std::fprintf(stderr, "kvern: there is no command '%s'.\nSee kvern --help.\n", argv[1]);
    }
    return kExitUsage;
  }
  for (const auto& [sub, command] : commands) {
    if (sub->parsed()) return FinishOut(command->Run());
  }
  return kExitUsage;
}

}  // namespace
}  // namespace kvern::cli

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // A closed pipe shows as a failed write and ends the command in order.
  kvern::cli::InstallInterruptHandler();
  try {
    return kvern::cli::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kvern: %s\n", error.what());
    return kvern::cli::kExitFailed;
  }
}
