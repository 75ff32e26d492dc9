#include "cli/format.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

namespace kvern::cli {
namespace {

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr Unit kUnits[] = {
    {"B", 1.0}, {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0}};

std::string Quoted(std::string_view text) { return std::string(1, '\'').append(text).append("'"); }

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

std::string Printf(const char* format, double value, int digits) {
  char buffer[64];
  const int length = std::snprintf(buffer, sizeof(buffer), format, digits, value);
  return std::string(buffer, static_cast<size_t>(std::clamp(length, 0, 63)));
}

// Bytes of the well-formed UTF-8 sequence at the front of `bytes` (RFC 3629), or 0.
size_t Utf8Length(std::string_view bytes) {
  const auto at = [&](size_t i) { return i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0u; };
  const auto is_tail = [&](size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
    return at(i) >= low && at(i) <= high;
  };
  const unsigned lead = at(0);
  if (bytes.empty()) return 0;
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return is_tail(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const unsigned low = lead == 0xE0 ? 0xA0 : 0x80;   // No overlong forms,
    const unsigned high = lead == 0xED ? 0x9F : 0xBF;  // no surrogates.
    return is_tail(1, low, high) && is_tail(2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const unsigned low = lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xF4 ? 0x8F : 0xBF;  // At most U+10FFFF.
    return is_tail(1, low, high) && is_tail(2) && is_tail(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

Result<uint64_t> ParseBytes(std::string_view text) {
  const Status error =
      Status::InvalidArgument(Quoted(text) + " is no size; expected a number with B, KiB, MiB, GiB or TiB");
  double number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (code != std::errc() || !(number >= 0)) return error;
  std::string_view suffix = text.substr(static_cast<size_t>(end - text.data()));
  while (!suffix.empty() && suffix.front() == ' ') suffix.remove_prefix(1);
  if (suffix.empty()) suffix = "B";
  for (const Unit& unit : kUnits) {
    if (!EqualsIgnoringCase(suffix, unit.name)) continue;
    const double bytes = number * unit.bytes;
    if (bytes >= 9.2e18) return error;
    return static_cast<uint64_t>(bytes);
  }
  return error;
}

Result<std::vector<TokenRange>> ParseRanges(std::string_view text) {
  const Status error =
      Status::InvalidArgument(Quoted(text) + " is no list of positions; expected one like 100-149,300");
  std::vector<TokenRange> ranges;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  while (true) {
    uint32_t first = 0, last = 0;
    auto [next, code] = std::from_chars(at, end, first);
    if (code != std::errc()) return error;
    last = first;
    if (next != end && *next == '-') {
      const auto [after, last_code] = std::from_chars(next + 1, end, last);
      if (last_code != std::errc()) return error;
      next = after;
    }
    if (last < first || last == std::numeric_limits<uint32_t>::max()) return error;
    ranges.push_back({first, last + 1});
    if (next == end) return ranges;
    if (*next != ',') return error;
    at = next + 1;
  }
}

Result<std::vector<uint32_t>> ParseCounts(std::string_view text) {
  std::vector<uint32_t> counts;
  if (text == "none") return counts;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  while (true) {
    uint32_t count = 0;
    const auto [next, code] = std::from_chars(at, end, count);
    if (code != std::errc() || (next != end && *next != ',')) {
      return Status::InvalidArgument(Quoted(text) + " is no list; expected counts like 128,512 or 'none'");
    }
    counts.push_back(count);
    if (next == end) return counts;
    at = next + 1;
  }
}

std::string FormatBytes(uint64_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + " B";
  const Unit* unit = &kUnits[1];
  while (unit != std::end(kUnits) - 1 && static_cast<double>(bytes) >= unit[1].bytes) ++unit;
  return Printf("%.*f", static_cast<double>(bytes) / unit->bytes, 1) + " " + std::string(unit->name);
}

std::string FormatCount(uint64_t count) {
  const std::string digits = std::to_string(count);
  std::string grouped;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i != 0 && (digits.size() - i) % 3 == 0) grouped += ',';
    grouped += digits[i];
  }
  return grouped;
}

std::string FormatCountOf(uint64_t count, const std::string& what) {
  return FormatCount(count) + " " + what + (count == 1 ? "" : "s");
}

std::string FormatRate(double per_second) {
  if (!std::isfinite(per_second) || per_second <= 0) return "-";
  const int digits = per_second >= 100 ? 0 : per_second >= 10 ? 1 : 2;
  return Printf("%.*f", per_second, digits);
}

std::string FormatFixed(double value, int digits) { return Printf("%.*f", value, digits); }

std::string FormatSeconds(uint64_t us) { return FormatFixed(static_cast<double>(us) / 1e6, 3) + " s"; }

std::string FormatPercent(double share) {
  if (!std::isfinite(share) || share <= 0) return "-";
  return FormatFixed(100 * share, 1) + " %";
}

std::string EscapeBytes(std::string_view bytes) {
  std::string shown;
  while (!bytes.empty()) {
    const size_t length = Utf8Length(bytes);
    const auto byte = static_cast<unsigned char>(bytes.front());
    if (length == 1 && (byte == '\n' || byte == '\t' || byte == '\r' || byte == '\\')) {
      shown += byte == '\n' ? "\\n" : byte == '\t' ? "\\t" : byte == '\r' ? "\\r" : "\\\\";
    } else if (length == 0 || byte < 0x20 || byte == 0x7F) {
      char hex[5];
      std::snprintf(hex, sizeof(hex), "\\x%02x", byte);
      shown += hex;
    } else {
      shown += bytes.substr(0, length);
    }
    bytes.remove_prefix(std::max<size_t>(length, 1));
  }
  return shown;
}

bool IsUtf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t length = Utf8Length(bytes);
    if (length == 0) return false;
    bytes.remove_prefix(length);
  }
  return true;
}

std::string FormatTable(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string table;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      if (i != 0) line += "  ";
      line += i == 0 ? row[i] + padding : padding + row[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    table += line + "\n";
  }
  return table;
}

}  // namespace kvern::cli
