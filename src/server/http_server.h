// HttpServer: HTTP/1.0 and 1.1 over TCP for a handler: keep-alive, pipelining, chunked bodies, event streams. Untrusted
// clients: everything they send or hold has a limit in bytes, number or time.
//
// One I/O thread moves all bytes, so 500 connections cost no threads; a few handler threads run the handler. While a
// reply is being made the connection is watched: a client that has gone ends its reply at once.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "kvern/status.h"
#include "server/http_message.h"

namespace kvern::server {

struct HttpServerOptions {
  using Millis = std::chrono::milliseconds;

  std::string host = "127.0.0.1";  // Loopback: others on the network see nothing unless asked for.
  uint16_t port = 8080;            // 0: one that is free.
  uint32_t num_handler_threads = 2;
  uint32_t max_connections = 1024;
  uint32_t max_connections_per_address = 768;
  uint64_t max_header_bytes = 16u << 10;
  uint64_t max_body_bytes = 16u << 20;
  uint64_t max_total_body_bytes = 256u << 20;  // Of all bodies above 64 KiB that are being read or handled.
  Millis idle_timeout{60'000};                 // Between requests.
  Millis header_timeout{10'000};               // From the first byte of a head to its last.
  Millis body_timeout{60'000};                 // The same of a body.
  Millis write_timeout{30'000};                // For 64 KiB of a reply, which a slow reader has to take.
  Millis event_comment_interval{15'000};       // Silence of an event stream after which it says that it is alive.
  Status Validate() const;
};

struct HttpServerStats {
  uint64_t open_connections = 0;
  uint64_t accepted_connections = 0;
  uint64_t refused_connections = 0;  // Beyond the limits.
};

class HttpServer {
 public:
  // Listens and starts to serve. kIoError says why the address cannot be had. `handler` must outlive the server.
  static Result<std::unique_ptr<HttpServer>> Start(const HttpServerOptions& options, HttpHandler& handler);
  virtual ~HttpServer() = default;  // Closes everything at once.

  // Where it listens: "127.0.0.1:8080", "[::1]:8080".
  virtual std::string address() const = 0;
  virtual uint16_t port() const = 0;
  virtual HttpServerStats Stats() const = 0;

  // Stops listening, closes idle connections, lets running replies end, asks them to come to an end after `limit` and
  // closes what is left after `grace`. Waits for all that. Returns how many connections had to be closed.
  virtual uint64_t Drain(std::chrono::milliseconds limit, std::chrono::milliseconds grace) = 0;
};

}  // namespace kvern::server
