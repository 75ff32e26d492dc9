// Calls a server's Api as the HTTP server would, without sockets.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "server/api.h"
#include "server/json.h"

namespace kvern::server {

inline HttpRequest MakeRequest(std::string method, std::string path, std::string body = "",
                               std::vector<HttpHeader> headers = {}) {
  return {.method = std::move(method),
          .path = std::move(path),
          .headers = std::move(headers),
          .body = std::move(body),
          .remote = "127.0.0.1"};
}

// Begins a request: what its head or its body says.
inline HttpReply Begin(Api& api, const HttpRequest& request) {
  HttpRequest head = request;
  head.body.clear();
  if (std::optional<HttpReply> reply = api.CheckHead(head)) return std::move(*reply);
  return api.Handle(request);
}

// Reads `reply` to its end; the pieces of a stream one after the other.
inline HttpResponse Finish(HttpReply reply) {
  HttpResponse response = std::move(reply.response);
  if (reply.source != nullptr) {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_woken = false;
    reply.source->OnReady([&] {
      const std::lock_guard lock(mutex);
      is_woken = true;
      changed.notify_all();
    });
    std::string all;
    while (true) {
      const bool is_done = reply.source->Read(response);
      const std::string piece = std::exchange(response.body, {});
      all += piece;
      if (is_done) break;
      if (!piece.empty()) continue;
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return std::exchange(is_woken, false); });
    }
    response.body = all;
    reply.source.reset();
  }
  if (reply.on_end) {
    reply.on_end({.status = response.status, .num_bytes = response.body.size(), .is_complete = true});
  }
  return response;
}

inline HttpResponse Call(Api& api, const HttpRequest& request) { return Finish(Begin(api, request)); }

inline Json JsonOf(const HttpResponse& response) { return ParseJson(response.body).value(); }

// The data of the events of a stream, parsed; "[DONE]" as a string.
inline std::vector<Json> EventsOf(const HttpResponse& response) {
  std::vector<Json> events;
  std::string_view rest = response.body;
  constexpr std::string_view kData = "data: ";
  while (!rest.empty()) {
    const size_t end = rest.find("\n\n");
    std::string_view data = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 2);
    if (!data.starts_with(kData)) return {};  // Not what it should be.
    data.remove_prefix(kData.size());
    events.push_back(data == "[DONE]" ? Json("[DONE]") : ParseJson(data).value());
  }
  return events;
}

inline std::string HeaderOf(const HttpResponse& response, std::string_view name) {
  for (const HttpHeader& header : response.headers) {
    if (header.name == name) return header.value;
  }
  return "";
}

}  // namespace kvern::server
