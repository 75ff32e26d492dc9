// kvern bench serve: a load on any server that speaks the OpenAI API, and how it holds.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <sstream>

#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/generation.h"
#include "cli/interrupt.h"
#include "cli/load_run.h"
#include "cli/load_stats.h"
#include "cli/output.h"
#include "cli/own_server.h"
#include "cli/sample_text.h"
#include "cli/server_call.h"

namespace kvern::cli {
namespace {

using server::HttpClient;
using server::Json;

constexpr char kExamples[] =
    "Examples:\n"
    "  kvern bench serve -m model.gguf --clients 32 --shared-tokens 2048 --requests 200 --server-args \"--kv-budget "
    "4GiB\"\n"
    "  kvern bench serve http://127.0.0.1:8080 --chat --turns 4 --rate 2.5 --duration 60 --json\n"
    "\n"
    "Without a URL it starts a kvern serve of its own and stops it at the end. The server may be kvern's, "
    "llama-server\n"
    "or another that has /v1/models and /v1/completions (with --chat: /v1/chat/completions).\n"
    "\n"
    "The same seed asks the same: a second run finds what the first one left in the server's cache. docs/cli.md says\n"
    "what is measured. Ctrl-C prints what is done (exit code 130).";

constexpr uint32_t kDefaultRequests = 100;
// Of the text by which the server's bytes per token are found: no more tokens than the prompts of the load have.
constexpr size_t kMaxCountedBytes = 2000;
constexpr size_t kMinCountedBytes = 100;
constexpr size_t kFewBytesPerToken = 3;

class BenchServeCommand : public Command {
 public:
  explicit BenchServeCommand(CLI::App& app) {
    AddServerTo(app);
    AddLoadTo(app);
    app.add_flag("--json", is_json_, "One JSON object");
    app.footer(kExamples);
  }

  int Run() override {
    if (plan_.num_requests == 0 && plan_.duration_s == 0) plan_.num_requests = kDefaultRequests;
    if (const Status status = CheckOptions(); !status.ok()) return FailUsage(status);
    const Result<std::string> text = ReadSampleText(text_path_);
    if (!text.ok()) return Fail(text.status());
    Result<Workload> workload = Workload::Create(plan_, *text);
    if (!workload.ok()) return Fail(workload.status());
    if (!server_.url.empty()) return Measure(*workload, /*own_server=*/nullptr);

    auto server = OwnServer::Start(ServerArguments());
    if (!server.ok()) return Fail(server.status());
    server_.url = (*server)->url();
    return Measure(*workload, server->get());
  }

 private:
  void AddServerTo(CLI::App& app) {
    const char* const group = "Server";
    app.add_option("URL", server_.url, "Server to ask, like http://127.0.0.1:8080")->type_name("");
    app.add_option("--api-key", server_.api_key, "Key for it")->type_name("KEY")->group(group);
    app.add_option("--served-model", model_, "Model to ask for; default: the first that the server lists")
        ->type_name("NAME")
        ->group(group);
    app.add_option("-m,--model", model_path_, "Without a URL: GGUF file for a kvern serve of its own")
        ->type_name("FILE")
        ->group(group);
    app.add_option("--server-args", server_args_, "Without a URL: more options of that server, in one text")
        ->type_name("TEXT")
        ->group(group);
  }

  void AddLoadTo(CLI::App& app) {
    const char* const group = "Load";
    const auto add = [&](const char* name, auto& value, const char* help, const char* type) {
      return app.add_option(name, value, help)->type_name(type)->group(group);
    };
    add("--requests", plan_.num_requests, "Requests, all clients together; default: 100 where no --duration is given",
        "N")
        ->check(CLI::Range(1u, UINT32_MAX));
    add("--duration", plan_.duration_s, "Seconds after which nothing new is asked", "SECONDS");
    add("--clients", plan_.num_clients, "Clients that each ask again as soon as they are answered", "N")
        ->capture_default_str();
    add("--rate", plan_.rate,
        "Conversations arrive at random times, so many a second on average; at most --clients\n"
        "are under way, the others wait, and their wait counts",
        "PER SECOND");
    add("--prompt-tokens", plan_.prompt_tokens, "About so many tokens of what the user says", "N")
        ->capture_default_str();
    add("--shared-tokens", plan_.shared_tokens, "About so many of a system prompt that all begin with", "N")
        ->capture_default_str();
    add("--max-tokens", plan_.max_tokens, "Longest answer", "N")->capture_default_str();
    add("--turns", plan_.num_turns, "Requests of a conversation, each with all before it", "N")->capture_default_str();
    add("--disconnect-share", plan_.disconnect_share, "Share of requests that are hung up at a random time", "0..1")
        ->capture_default_str();
    add("--seed", plan_.seed, "Decides texts, arrivals and hang-ups", "N")->capture_default_str();
    add("--text", text_path_, "Text to cut prompts from, also as .gz; - is stdin; default: Debian's FAQ", "FILE");
    app.add_flag("--chat", plan_.is_chat, "Ask /v1/chat/completions")->group(group);
  }

  Status CheckOptions() {
    KVERN_RETURN_IF_ERROR(plan_.Validate());
    KVERN_RETURN_IF_ERROR(server_.Validate());
    if (server_.url.empty()) return Status::Ok();
    if (!model_path_.empty() || !server_args_.empty()) {
      return Status::InvalidArgument(
          "-m and --server-args are for a server of this program's own: leave them or the "
          "URL out");
    }
    return server_.Address().status();
  }

  std::vector<std::string> ServerArguments() const {
    std::vector<std::string> arguments;
    if (!model_path_.empty()) arguments = {"-m", model_path_};
    std::istringstream words(server_args_);
    for (std::string word; words >> word;) arguments.push_back(word);
    if (server_args_.find("--access-log") == std::string::npos) {
      arguments.insert(arguments.end(), {"--access-log", "/dev/null"});
    }
    return arguments;
  }

  int Measure(Workload& workload, OwnServer* own_server) {
    const auto address = server_.Address();
    if (!address.ok()) return Fail(address.status());
    auto client = HttpClient::Create(*address);
    if (!client.ok()) return Fail(client.status());
    if (const Status status = FindModel(**client); !status.ok()) return Fail(status);
    if (const Status status = CountTokens(**client, workload); !status.ok()) return Fail(status);

    LoadRun run(plan_, workload, {.headers = server_.Headers(), .model = model_}, *std::move(client));
    const auto is_server_gone = [own_server] { return own_server != nullptr && own_server->HasEnded(); };
    const LoadOutcome outcome = run.Run([&] { return WasInterrupted() || is_server_gone(); });

    const LoadSummary summary = Summarize(outcome);
    const LoadTarget target = {.url = server_.url, .model = model_};
    WriteOut(is_json_ ? Dump(LoadJson(target, plan_, summary)) : LoadText(target, plan_, summary));
    if (WasInterrupted()) return Fail(Status::Cancelled("interrupted; the numbers are of what was done"));
    if (is_server_gone())
      return Fail(Status::Unavailable("the server has ended during the load; the numbers are of what was done"));
    if (summary.num_done + summary.num_hung_up > 0) return kExitDone;
    return Fail(Status::Unavailable("no request was answered"));
  }

  Status FindModel(HttpClient& client) {
    if (!model_.empty()) return Status::Ok();
    KVERN_ASSIGN_OR_RETURN(const Json list, AskServer(client, server_, {.path = "/v1/models"}));
    const Json::json_pointer id("/data/0/id");
    if (!list.contains(id) || !list[id].is_string()) {
      return Status::NotFound(server_.url + " lists no model: name one with --served-model");
    }
    model_ = list[id].get<std::string>();
    return Status::Ok();
  }

  // One short request before the load: it shows that the server answers at all, and how it counts.
  Status CountTokens(HttpClient& client, Workload& workload) const {
    const size_t prompt_bytes = kFewBytesPerToken * (size_t{plan_.shared_tokens} + plan_.prompt_tokens);
    const std::string text = workload.SampleText(std::clamp(prompt_bytes, kMinCountedBytes, kMaxCountedBytes));
    Json body = RequestFields(model_, /*max_tokens=*/1, /*is_streamed=*/false);
    if (plan_.is_chat) {
      body["messages"] = Json::array({{{"role", "user"}, {"content", text}}});
    } else {
      body["prompt"] = text;
    }
    server::HttpCall call = {.method = "POST",
                             .path = plan_.is_chat ? "/v1/chat/completions" : "/v1/completions",
                             .body = server::DumpJson(body)};
    KVERN_ASSIGN_OR_RETURN(const Json answer, AskServer(client, server_, std::move(call)));
    const AnswerUsage usage = answer.contains("usage") ? ReadUsage(answer["usage"]) : AnswerUsage{};
    if (usage.prompt_tokens == 0) {
      std::fprintf(stderr, "kvern: the server counts no prompt tokens: lengths are taken as 4 bytes a token\n");
      return Status::Ok();
    }
    workload.SetBytesPerToken(static_cast<double>(text.size()) / static_cast<double>(usage.prompt_tokens));
    return Status::Ok();
  }

  LoadPlan plan_;
  ServerAccess server_;
  std::string model_;
  std::string model_path_;
  std::string server_args_;
  std::string text_path_;
  bool is_json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeBenchServeCommand(CLI::App& app) { return std::make_unique<BenchServeCommand>(app); }

}  // namespace kvern::cli
