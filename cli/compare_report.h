// The result of kvern compare: one table for people, for documents, for spreadsheets and for programs, and a page with
// plots.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/compare_measure.h"

namespace kvern::cli {

enum class TableFormat : uint8_t { kTerminal, kMarkdown, kCsv, kJson };
// "table", "markdown", "csv", "json".
Result<TableFormat> ParseTableFormat(std::string_view name);

// Head and cells, as in FormatTable.
using Cells = std::vector<std::vector<std::string>>;
std::string MarkdownTable(const Cells& cells);
// RFC 4180: cells with a comma, a quote or a line break stand in quotes.
std::string CsvTable(const Cells& cells);

// Query-key products of a whole run, all heads and layers, that theory gives a causal model that sees everything.
uint64_t TheoryProducts(const CompareRun& run, const CompareResult& result);
// Of the last step with every query and every key: n^2 without a cache, 2n - 1 with one.
uint64_t LastStepOf(const CompareRun& run, const CompareResult& result);

// Rows that were not measured are left out.
Cells MainCells(const CompareRun& run);
// How many sequences a GiB holds, and what they do together.
Cells BatchCells(const CompareRun& run);

// Both in one for spreadsheets: names and plain numbers of the JSON, speed after the longest prompt; "" where a row has
// none.
Cells CsvCells(const CompareRun& run);

std::string CompareText(const CompareRun& run, TableFormat format);
nlohmann::ordered_json CompareJson(const CompareRun& run);
// The tables, memory against quality and latency against length.
std::string CompareHtml(const CompareRun& run);

}  // namespace kvern::cli
