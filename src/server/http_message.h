// Requests and replies as routes and tests see them. What moves them over the network is http_server.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvern::server {

struct HttpHeader {
  std::string name;
  std::string value;
};

struct HttpRequest {
  std::string method = {};               // "GET". Empty where none could be read.
  std::string path = {};                 // "/v1/models": the target up to '?'.
  std::vector<HttpHeader> headers = {};  // Names in lower case.
  std::string body = {};
  std::string remote = {};  // "127.0.0.1"

  // The first header called `name` (in lower case), or "".
  std::string_view Header(std::string_view name) const {
    for (const HttpHeader& header : headers) {
      if (header.name == name) return header.value;
    }
    return "";
  }
};

struct HttpResponse {
  unsigned status = 200;
  std::vector<HttpHeader> headers = {};
  std::string body = {};
};

// The part of a reply that is not there at once. Called on the I/O thread, so every call must be quick.
class ReplySource {
 public:
  virtual ~ReplySource() = default;  // Before Read has said true: the client is gone, nobody wants the rest.

  // `wake` is to be called, from any thread, whenever Read may have more. It may be called from within OnReady and
  // until the source is destroyed.
  virtual void OnReady(std::function<void()> wake) = 0;
  // Appends to response.body what has come, a little at a time: it is called again as long as it appends, each time
  // when that was sent, and then when woken. True at the end. Until the first byte is sent, and to the end where no
  // event stream is, status and headers may change too.
  virtual bool Read(HttpResponse& response) = 0;
  // The server is about to end: come to an end soon. `wake` follows when there is something to read.
  virtual void Stop() = 0;
};

// How a reply ended.
struct HttpOutcome {
  unsigned status = 0;
  uint64_t num_bytes = 0;                 // Of the body, as far as it was sent.
  bool is_complete = false;               // Otherwise the client left, was too slow, or the server ended.
  std::chrono::microseconds duration{0};  // From the first byte of the request to the last of the reply.
};

struct HttpReply {
  HttpResponse response;
  std::unique_ptr<ReplySource> source;  // Null: `response` is all.
  bool is_event_stream = false;         // Its pieces are sent as they come; otherwise the whole when it is complete.
  std::function<void(const HttpOutcome&)> on_end = {};  // Called once, on the I/O thread.
};

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;

  // A request whose head has come. A reply here ends it before its body is read. I/O thread.
  virtual std::optional<HttpReply> CheckHead(const HttpRequest& head) = 0;
  // A whole request. One of the handler threads, so it may take its time; several at once.
  virtual HttpReply Handle(HttpRequest request) = 0;
  // The reply to what is no proper request, or comes at a bad time. `request` is what could be read. I/O thread.
  virtual HttpReply Refuse(const HttpRequest& request, unsigned status, const std::string& message) = 0;
};

}  // namespace kvern::server
