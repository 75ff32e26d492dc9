// The bytes of HTTP/1.x replies.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/http_message.h"

namespace kvern::server {

// "Not Found"; "Unknown" for a status that no reply of kvern has.
std::string_view ReasonPhrase(unsigned status);

// How the end of a body is marked.
enum class BodyFraming : uint8_t {
  kLength,   // Content-Length.
  kChunked,  // HTTP/1.1 only.
  kClose,    // The end of the connection.
};

// Status line and headers up to the empty line. `body_bytes` counts with kLength alone. Header values lose bytes that
// would end the line.
std::string FormatHead(const HttpResponse& response, BodyFraming framing, uint64_t body_bytes, bool keeps_alive,
                       std::chrono::system_clock::time_point now);

// `data` as one chunk; "" for no data, which would be the last chunk.
std::string FormatChunk(std::string_view data);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

// A comment of an event stream, which clients skip: it shows that the server is alive.
inline constexpr std::string_view kEventComment = ":\n\n";

// The path of a request target: without the query, and without scheme and host where a client sends them.
std::string_view PathOf(std::string_view target);

// "a b" of "a%20b". What is no escape stays as it is.
std::string PercentDecode(std::string_view text);

// ASCII letters; names of headers are the same in any case.
std::string LowerCase(std::string_view text);

}  // namespace kvern::server
