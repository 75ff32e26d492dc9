// kvern serve: many clients over HTTP.
#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <semaphore>
#include <string>
#include <utility>

#include "cli/cache_report.h"
#include "cli/command.h"
#include "cli/engine_flags.h"
#include "cli/exit_code.h"
#include "cli/format.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "server/api.h"
#include "server/chat_renderer.h"

namespace kvern::cli {
namespace {

using server::Api;
using server::ApiKeys;
using server::HttpServer;
using std::chrono::milliseconds;

constexpr char kExamples[] =
    "Examples:\n"
    "  kvern serve models/SmolLM2-135M-Instruct.Q4_1.gguf --kv-budget 2GiB\n"
    "  kvern serve -m model.gguf --host 0.0.0.0 --port 8000 --api-keys keys.txt --access-log access.jsonl\n"
    "\n"
    "The server answers on loopback alone unless --host says otherwise, and then it should have --api-keys.\n"
    "Ctrl-C or SIGTERM: no new requests, running ones end within --drain seconds, exit code 0. A second one kills it.\n"
    "docs/serving.md tells about keys, limits and metrics, docs/api.md about routes and fields.";

constexpr uint32_t kBudgetContexts = 4;    // Where no budget is given.
constexpr milliseconds kDrainGrace{2000};  // For the last event of streams that have to end.

milliseconds FromSeconds(double seconds) { return milliseconds(static_cast<int64_t>(seconds * 1000)); }

class ServeCommand : public Command {
 public:
  explicit ServeCommand(CLI::App& app) {
    app.add_option("MODEL", engine_.model, "GGUF file, as -m")->type_name("");
    AddServerTo(app);
    AddAccessTo(app);
    engine_.AddAllTo(app, "Longest prompt and answer together; default: the model's, at most 8192");
    app.get_option("--kv-budget")
        ->description(
            "Memory for keys and values, like 512MiB or 2GiB; default: what four requests of the longest context need");
    app.footer(kExamples);
  }

  int Run() override {
    HandleTermination();
    Result<EngineOptions> options = engine_.ToOptions();
    if (!options.ok()) return FailUsage(options.status());
    options->max_sequences = max_sequences_;
    options->cache.prefaults = true;
    options->cache.budget_contexts = std::min(kBudgetContexts, max_sequences_);
    options->max_queued = max_queued_;
    if (const Status status = options->Validate(); !status.ok()) return FailUsage(status);
    const std::pair<const char*, double> times[] = {{"--idle-timeout", idle_s_},
                                                    {"--header-timeout", header_s_},
                                                    {"--body-timeout", body_s_},
                                                    {"--write-timeout", write_s_},
                                                    {"--drain", drain_s_}};
    for (const auto& [name, seconds] : times) {
      if (seconds > 0 && seconds <= 1e6) continue;
      return FailUsage(Status::InvalidArgument(std::string(name) + " is " + FormatFixed(seconds, 3) +
                                               ", expected seconds above 0 and at most 1000000"));
    }
    if (!max_body_.empty()) {
      const Result<uint64_t> bytes = ParseBytes(max_body_);
      if (!bytes.ok()) return FailUsage(Status::InvalidArgument("--max-body: " + bytes.status().message()));
      http_.max_body_bytes = *bytes;
      http_.max_total_body_bytes = std::max(http_.max_total_body_bytes, *bytes);
    }
    http_.idle_timeout = FromSeconds(idle_s_);
    http_.header_timeout = FromSeconds(header_s_);
    http_.body_timeout = FromSeconds(body_s_);
    http_.write_timeout = FromSeconds(write_s_);
    http_.max_connections_per_address = std::min(http_.max_connections_per_address, http_.max_connections);
    if (const Status status = http_.Validate(); !status.ok()) return FailUsage(status);
    if (const Status status = api_.Validate(); !status.ok()) return FailUsage(status);
    return Serve(*options);
  }

 private:
  void AddServerTo(CLI::App& app) {
    const char* const group = "Server";
    const auto add = [&](const char* name, auto& value, const char* help, const char* type) {
      app.add_option(name, value, help)->capture_default_str()->type_name(type)->group(group);
    };
    add("--host", http_.host, "Address to listen on; 0.0.0.0 or :: for the network", "ADDRESS");
    add("--port", http_.port, "Port to listen on; 0: one that is free", "PORT");
    add("--alias", alias_, "Name of the model for clients; default: the file's, without .gguf", "NAME");
    add("--max-sequences", max_sequences_, "Requests that run at once, if the budget holds them", "N");
    add("--max-queued", max_queued_, "Requests that may wait; more are told to come again (429)", "N");
    add("--default-max-tokens", default_max_tokens_, "Longest chat answer where the client sets no limit", "N");
    add("--max-connections", http_.max_connections, "Open connections", "N");
    add("--max-connections-per-address", http_.max_connections_per_address, "Of them from one address", "N");
    add("--max-body", max_body_, "Largest request, like 16MiB; default: 16MiB", "BYTES");
    add("--idle-timeout", idle_s_, "Seconds between two requests of a connection", "SECONDS");
    add("--header-timeout", header_s_, "Seconds that the head of a request may take", "SECONDS");
    add("--body-timeout", body_s_, "Seconds that its body may take", "SECONDS");
    add("--write-timeout", write_s_, "Seconds that a client may take for 64 KiB of a reply", "SECONDS");
    add("--drain", drain_s_, "Seconds that running requests have to end after Ctrl-C or SIGTERM", "SECONDS");
  }

  void AddAccessTo(CLI::App& app) {
    const char* const group = "Access";
    app.add_option("--api-keys", keys_path_,
                   "File with a line NAME KEY [cache=GROUP] [admin] per key; else no key is needed")
        ->type_name("FILE")
        ->group(group);
    app.add_option("--tenant-requests", api_.max_requests_per_tenant,
                   "Answers of one tenant that may be in flight; n and several prompts make more of one request")
        ->capture_default_str()
        ->type_name("N")
        ->group(group);
    app.add_option("--cors-origin", api_.cors_origin,
                   "Pages of this origin may call, like https://chat.example; else none")
        ->type_name("ORIGIN")
        ->group(group);
    app.add_option("--access-log", log_path_, "One line of JSON per request; - or nothing: on stderr")
        ->type_name("FILE")
        ->group(group);
    app.add_flag("--log-prompts", api_.logs_prompts, "Prompts stand in the access log")->group(group);
  }

  // What can fail fast comes first: keys, log and port before the model, which the health route tells about meanwhile.
  int Serve(const EngineOptions& options) {
    if (!keys_path_.empty()) {
      Result<ApiKeys> keys = ApiKeys::Load(keys_path_);
      if (!keys.ok()) return Fail(keys.status());
      api_.keys = std::move(keys).value();
      WarnIfOthersMayRead(keys_path_);
    }
    auto log = server::AccessLog::Open(log_path_);
    if (!log.ok()) return Fail(log.status());
    if (const Status status = CheckCodecs(options, engine_.lossy); !status.ok()) return Fail(status);

    std::unique_ptr<Engine> engine;  // Outlives the server.
    Api api(api_, std::move(*log));
    std::atomic<HttpServer*> running = nullptr;
    api.SetServerStats([&running] {
      HttpServer* const server = running;
      return server != nullptr ? server->Stats() : server::HttpServerStats{};
    });
    auto http = HttpServer::Start(http_, api);
    if (!http.ok()) return Fail(http.status());
    running = http->get();
    const std::string address = "http://" + (*http)->address();
    std::fprintf(stderr, "kvern: listening on %s, loading %s\n", address.c_str(), options.model_path.c_str());

    auto opened = OpenEngine(options);
    if (!opened.ok()) return Fail(opened.status());
    engine = std::move(*opened);
    std::fprintf(stderr, "%s\n", CacheCostText(engine->cache_cost(), engine->options().cache).c_str());
    const std::string id = ModelId(options.model_path);
    // Whoever sees that it serves may tell it to end, at once.
    std::binary_semaphore interrupted(0);
    bool is_told = false;
    const OnInterrupt tell([&interrupted, &is_told] {
      if (!std::exchange(is_told, true)) interrupted.release();
    });
    api.SetModel(DescribeModel(*engine, id));
    WriteOut("kvern: serving " + id + " on " + address + "   curl " + address +
             "/v1/completions -H 'Content-Type: application/json' -d '{\"prompt\": \"The capital of France is\", "
             "\"max_tokens\": 16, \"temperature\": 0}'\n");
    FlushOut();
    interrupted.acquire();
    std::fprintf(stderr, "kvern: ending: running requests have %g seconds\n", drain_s_);
    const uint64_t num_cut = (*http)->Drain(FromSeconds(drain_s_), kDrainGrace);
    if (num_cut > 0) std::fprintf(stderr, "kvern: %s connections had to be cut\n", FormatCount(num_cut).c_str());
    std::fprintf(stderr, "kvern: done\n");
    return kExitDone;
  }

  static void WarnIfOthersMayRead(const std::string& path) {
    std::error_code error;
    const auto permissions = std::filesystem::status(path, error).permissions();
    if (error || (permissions & std::filesystem::perms::others_read) == std::filesystem::perms::none) return;
    std::fprintf(stderr, "kvern: warning: every user of this machine can read %s: chmod 600 %s\n", path.c_str(),
                 path.c_str());
  }

  server::ServedModel DescribeModel(Engine& engine, const std::string& id) const {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    server::ServedModel model = {.engine = engine,
                                 .id = id,
                                 .created_s = std::chrono::duration_cast<std::chrono::seconds>(now).count(),
                                 .default_max_tokens = default_max_tokens_};
    const std::string& source = engine.model_info().chat_template;
    if (source.empty()) {
      std::fprintf(stderr, "kvern: the model has no chat template: /v1/chat/completions will say so\n");
      return model;
    }
    auto renderer = server::MakeChatRenderer(source, engine.tokenizer());
    if (renderer.ok()) {
      model.render_chat = std::move(renderer->render);
      model.template_knows_tools = renderer->knows_tools;
    } else {
      std::fprintf(stderr, "kvern: warning: no chat, the model's template cannot be used: %s\n",
                   renderer.status().message().c_str());
    }
    return model;
  }

  std::string ModelId(const std::string& path) const {
    return alias_.empty() ? std::filesystem::path(path).stem().string() : alias_;
  }

  EngineFlags engine_;
  server::HttpServerOptions http_;
  server::ApiOptions api_;
  std::string alias_;
  std::string max_body_;
  std::string keys_path_;
  std::string log_path_;
  uint32_t max_sequences_ = EngineOptions().max_sequences;
  uint32_t max_queued_ = 1024;
  uint32_t default_max_tokens_ = 1024;
  double idle_s_ = 60, header_s_ = 10, body_s_ = 60, write_s_ = 30, drain_s_ = 30;
};

}  // namespace

std::unique_ptr<Command> MakeServeCommand(CLI::App& app) { return std::make_unique<ServeCommand>(app); }

}  // namespace kvern::cli
