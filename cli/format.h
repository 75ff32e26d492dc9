// Numbers, sizes and bytes as people write and read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvern/options.h"
#include "kvern/status.h"

namespace kvern::cli {

// "512", "64KiB", "1.5 GiB" -> bytes; suffixes B, KiB, MiB, GiB, TiB in any case. kInvalidArgument says what was found.
Result<uint64_t> ParseBytes(std::string_view text);
// "128,512,2048" -> those counts; "none" -> no count at all.
Result<std::vector<uint32_t>> ParseCounts(std::string_view text);
// "100-149,300" -> those positions, the last one of a range included.
Result<std::vector<TokenRange>> ParseRanges(std::string_view text);

std::string FormatBytes(uint64_t bytes);                             // 1536 -> "1.5 KiB"
std::string FormatCount(uint64_t count);                             // 1234567 -> "1,234,567"
std::string FormatCountOf(uint64_t count, const std::string& what);  // 1, "turn" -> "1 turn"; 2 -> "2 turns"
std::string FormatRate(double per_second);  // Three significant digits; "-" where there is no rate (0 or not finite).
std::string FormatFixed(double value, int digits);
std::string FormatSeconds(uint64_t us);   // "0.123 s"
std::string FormatPercent(double share);  // 0.361 -> "36.1 %"; "-" for 0.

// One line that shows any bytes: control bytes, backslash and ill-formed UTF-8 as \n, \\, \xNN.
std::string EscapeBytes(std::string_view bytes);
bool IsUtf8(std::string_view bytes);

// Rows of cells, the first column left-aligned, the others right-aligned, two spaces between; the first row is the
// head.
std::string FormatTable(const std::vector<std::vector<std::string>>& rows);

}  // namespace kvern::cli
