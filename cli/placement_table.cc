#include "cli/placement_table.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/exit_code.h"
#include "cli/format.h"
#include "cli/generation.h"
#include "cli/output.h"

namespace kvern::cli {
namespace {

nlohmann::ordered_json ToJson(const PlacementUsage& usage) {
  return {{"placement", usage.placement},           {"block_size", usage.block_size},
          {"reserved_bytes", usage.reserved_bytes}, {"used_bytes", usage.used_bytes},
          {"wasted_bytes", usage.wasted_bytes()},   {"peak_bytes", usage.peak_bytes},
          {"unavailable", usage.unavailable}};
}

std::string ToText(const std::vector<PlacementUsage>& usages) {
  std::vector<std::vector<std::string>> rows = {
      {"placement", "block size", "reserved", "used", "wasted", "share", "at the worst"}};
  std::string notes;
  for (const PlacementUsage& usage : usages) {
    if (!usage.unavailable.empty()) {
      notes += usage.placement + ": " + usage.unavailable + "\n";
      continue;
    }
    const double share = static_cast<double>(usage.wasted_bytes()) / static_cast<double>(usage.reserved_bytes);
    rows.push_back({usage.placement, FormatCount(usage.block_size), FormatBytes(usage.reserved_bytes),
                    FormatBytes(usage.used_bytes), FormatBytes(usage.wasted_bytes()), FormatPercent(share),
                    FormatBytes(usage.peak_bytes)});
  }
  return FormatTable(rows) + notes;
}

}  // namespace

std::vector<uint32_t> DefaultLengths() {
  std::vector<uint32_t> lengths;
  for (uint32_t i = 0; i < 32; ++i) lengths.push_back(200 + i * (4000 - 200) / 31);
  return lengths;
}

void PlacementTable::AddTo(CLI::App& app) {
  const char* const group = "Placements";
  app.add_flag("--placements", is_wanted_, "What each placement reserves, uses and wastes for a mix of sequences")
      ->group(group);
  app.add_option("--lengths", lengths_, "Tokens of each sequence; default: 32 sequences of 200 to 4,000")
      ->type_name("N,N,...")
      ->group(group);
  app.add_option("-c,--ctx-size", max_tokens_, "What a sequence may come to; default: the longest of the lengths")
      ->type_name("TOKENS")
      ->group(group);
  app.add_option("--window", window_tokens_, "As for kvern run")->type_name("TOKENS")->group(group);
  app.add_option("--sinks", num_sinks_, "As for kvern run")->type_name("TOKENS")->group(group);
}

Result<std::vector<uint32_t>> PlacementTable::Lengths() const {
  if (lengths_.empty()) return DefaultLengths();
  const Result<std::vector<uint32_t>> lengths = ParseCounts(lengths_);
  if (!lengths.ok()) return Status::InvalidArgument("--lengths: " + lengths.status().message());
  if (lengths->empty()) return Status::InvalidArgument("--lengths: no sequence at all");
  return lengths;
}

std::vector<CacheOptions> PlacementTable::Candidates(uint32_t block_size) const {
  std::vector<uint32_t> sizes = {16, block_size, 256};
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  std::vector<CacheOptions> candidates;
  const auto add = [&](const std::string& placement, uint32_t size) {
    if (window_tokens_ > 0 && window_tokens_ < size) return;
    CacheOptions options;
    options.placement = placement;
    options.block_size = size;
    options.window_tokens = window_tokens_;
    options.num_sinks = num_sinks_;
    candidates.push_back(std::move(options));
  };
  for (const std::string& placement : PlacementNames()) {
    if (placement == CacheOptions().placement) {
      for (const uint32_t size : sizes) add(placement, size);
    } else {
      add(placement, block_size);
    }
  }
  return candidates;
}

int PlacementTable::Run(const std::string& path, uint32_t block_size, bool is_json) const {
  const Result<std::vector<uint32_t>> lengths = Lengths();
  if (!lengths.ok()) return FailUsage(lengths.status());
  const uint32_t longest = *std::ranges::max_element(*lengths);
  const auto usages =
      ComparePlacements(path, Candidates(block_size), *lengths, max_tokens_ != 0 ? max_tokens_ : longest);
  if (!usages.ok())
    return usages.status().code() == StatusCode::kInvalidArgument ? FailUsage(usages.status()) : Fail(usages.status());
  if (is_json) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const PlacementUsage& usage : *usages) rows.push_back(ToJson(usage));
    WriteOut(Dump({{"path", path}, {"lengths", *lengths}, {"placements", std::move(rows)}}));
  } else {
    WriteOut(FormatCount(lengths->size()) + " sequences of up to " + FormatCount(longest) + " tokens\n" +
             ToText(*usages));
  }
  return kExitDone;
}

}  // namespace kvern::cli
