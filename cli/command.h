// A Command is one word after `kvern`: it adds its options to the parser, then runs once they are parsed.
#pragma once

#include <memory>

namespace CLI {
class App;
}

namespace kvern::cli {

class Command {
 public:
  virtual ~Command() = default;
  // Does the work and returns the exit code (exit_code.h). Results go to stdout, everything else to stderr.
  virtual int Run() = 0;
};

// Each adds its options, examples and positional arguments to `app`, which must outlive the command.
std::unique_ptr<Command> MakeRunCommand(CLI::App& app);
std::unique_ptr<Command> MakeChatCommand(CLI::App& app);
std::unique_ptr<Command> MakeServeCommand(CLI::App& app);
std::unique_ptr<Command> MakeCacheCommand(CLI::App& app);
std::unique_ptr<Command> MakeTokenizeCommand(CLI::App& app);
std::unique_ptr<Command> MakeInspectCommand(CLI::App& app);
std::unique_ptr<Command> MakePplCommand(CLI::App& app);
std::unique_ptr<Command> MakeBenchCommand(CLI::App& app);
std::unique_ptr<Command> MakeBenchServeCommand(CLI::App& app);  // Of bench.
std::unique_ptr<Command> MakeDemoCommand(CLI::App& app);
std::unique_ptr<Command> MakeQualityCommand(CLI::App& app);
std::unique_ptr<Command> MakeDiagnoseCommand(CLI::App& app);
std::unique_ptr<Command> MakeCompareCommand(CLI::App& app);

}  // namespace kvern::cli
