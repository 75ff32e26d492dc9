// Text from outside, fit for a message.
#pragma once

#include <string>
#include <string_view>

namespace kvern {

// "'text'" with everything but printable ASCII as \xNN, cut after 60 bytes.
inline std::string Quoted(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string quoted = "'";
  for (const char c : text.substr(0, 60)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7F) {
      quoted += c;
    } else {
      quoted += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  quoted += text.size() > 60 ? "'..." : "'";
  return quoted;
}

}  // namespace kvern
