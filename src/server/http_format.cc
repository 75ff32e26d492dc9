#include "server/http_format.h"

#include <algorithm>
#include <charconv>
#include <ctime>

namespace kvern::server {
namespace {

// RFC 9110 section 5.6.7.
std::string FormatDate(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm utc = {};
  gmtime_r(&seconds, &utc);
  char text[40];
  std::strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &utc);  // The C locale: nothing sets another.
  return text;
}

void AppendHeader(std::string& head, std::string_view name, std::string_view value) {
  head += name;
  head += ": ";
  for (const char c : value) {
    if (c != '\r' && c != '\n' && c != '\0') head += c;
  }
  head += "\r\n";
}

}  // namespace

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string_view ReasonPhrase(unsigned status) {
  switch (status) {
    case 200: return "OK";
    case 204: return "No Content";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Content Too Large";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    default: return "Unknown";
  }
}

std::string FormatHead(const HttpResponse& response, BodyFraming framing, uint64_t body_bytes, bool keeps_alive,
                       std::chrono::system_clock::time_point now) {
  std::string head = "HTTP/1.1 " + std::to_string(response.status) + " " + std::string(ReasonPhrase(response.status));
  head += "\r\n";
  AppendHeader(head, "Date", FormatDate(now));
  for (const HttpHeader& header : response.headers) AppendHeader(head, header.name, header.value);
  if (framing == BodyFraming::kLength && response.status != 204) {
    AppendHeader(head, "Content-Length", std::to_string(body_bytes));
  }
  if (framing == BodyFraming::kChunked) AppendHeader(head, "Transfer-Encoding", "chunked");
  AppendHeader(head, "Connection", keeps_alive && framing != BodyFraming::kClose ? "keep-alive" : "close");
  head += "\r\n";
  return head;
}

std::string FormatChunk(std::string_view data) {
  if (data.empty()) return "";
  char size[20];
  const int length = std::snprintf(size, sizeof(size), "%zx\r\n", data.size());
  std::string chunk(size, static_cast<size_t>(length));
  chunk += data;
  chunk += "\r\n";
  return chunk;
}

std::string_view PathOf(std::string_view target) {
  if (!target.starts_with('/')) {
    const size_t scheme = target.find("://");
    if (scheme != std::string_view::npos) {
      const size_t path = target.find('/', scheme + 3);
      target = path == std::string_view::npos ? std::string_view("/") : target.substr(path);
    }
  }
  return target.substr(0, target.find_first_of("?#"));
}

std::string PercentDecode(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    uint8_t byte = 0;
    const char* const end = text.data() + std::min(text.size(), i + 3);
    if (text[i] == '%' && end == text.data() + i + 3 &&
        std::from_chars(text.data() + i + 1, end, byte, 16).ptr == end) {
      decoded += static_cast<char>(byte);
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

}  // namespace kvern::server
