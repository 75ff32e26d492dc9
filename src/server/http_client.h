// HttpClient: many calls at once to one HTTP/1.1 server, on one I/O thread. Connections are kept for the next calls.
// What the server sends is untrusted and has limits.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvern/status.h"
#include "server/http_message.h"

namespace kvern::server {

// Where a server listens.
struct HttpUrl {
  std::string host;  // "127.0.0.1", "::1", "localhost"
  uint16_t port = 80;
  std::string path;  // Before the path of every call: "" or "/base", never with a '/' at the end.
};

// "http://127.0.0.1:8080", "localhost:8080/base/", "http://[::1]:80". kUnsupported for https, kInvalidArgument for what
// is no address.
Result<HttpUrl> ParseHttpUrl(std::string_view text);

struct HttpClientOptions {
  using Millis = std::chrono::milliseconds;

  Millis connect_timeout{30'000};
  Millis silence_timeout{600'000};        // Without a byte of the reply.
  uint32_t max_header_bytes = 64u << 10;  // Of a reply.
  uint64_t max_body_bytes = 256u << 20;
};

struct HttpCall {
  std::string method = "GET";
  std::string path = "/";                // After HttpUrl::path.
  std::vector<HttpHeader> headers = {};  // Host and Content-Length are added. No line ends in values.
  std::string body = {};
  // Then the client closes the connection, whatever has come by then.
  std::optional<std::chrono::microseconds> hangs_up_after = {};
};

// Takes the reply to one call. All calls on the I/O thread.
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  // Status and headers (names in lower case); the body follows.
  virtual void OnHead(const HttpResponse& head) = 0;
  virtual void OnBody(std::string_view bytes) = 0;
  // The last one. Ok: the reply is whole. kCancelled: hung up. kUnavailable: no connection. kIoError: cut short, too
  // slow, or no HTTP.
  virtual void OnEnd(const Status& status) = 0;
};

class HttpClient {
 public:
  using Clock = std::chrono::steady_clock;

  // Looks up the host and starts the thread. kUnavailable where the host has no address.
  static Result<std::unique_ptr<HttpClient>> Create(const HttpUrl& url, const HttpClientOptions& options = {});
  virtual ~HttpClient() = default;  // HangUp, and waits for the last OnEnd. Not from the I/O thread.

  // Any thread, also within a sink.
  virtual void Send(HttpCall call, std::unique_ptr<ReplySink> sink) = 0;
  // Runs `action` on the I/O thread, between the calls of sinks: who does all work there needs no locks. Dropped after
  // HangUp. Any thread.
  virtual void RunAt(Clock::time_point when, std::function<void()> action) = 0;
  // Ends every call, and each new one at once. Any thread.
  virtual void HangUp() = 0;

  // Sends and waits for the reply. Not from the I/O thread.
  Result<HttpResponse> Ask(HttpCall call);
};

}  // namespace kvern::server
