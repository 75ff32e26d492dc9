#include "bench/replay/trace.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <list>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "base/xorshift.h"

namespace kvern::bench {

Result<Trace> ReadTrace(const std::string& path) {
  std::ifstream file(path);
  if (!file) return Status::NotFound(path + ": cannot be opened");
  Trace trace = {.name = std::filesystem::path(path).stem().string(), .requests = {}};
  uint64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    const auto is_count = [](const nlohmann::json& value) { return value.is_number_unsigned(); };
    if (!json.is_object() || !json.contains("input_length") || !is_count(json["input_length"]) ||
        !json.contains("hash_ids") || !json["hash_ids"].is_array() ||
        !std::ranges::all_of(json["hash_ids"], is_count)) {
      return Status::Corruption(path + ":" + std::to_string(number) +
                                ": expected an object with a number input_length and numbers hash_ids");
    }
    TraceRequest request = {json["input_length"].get<uint64_t>(), json["hash_ids"].get<std::vector<uint64_t>>()};
    const uint64_t num_ids =
        request.input_tokens / kTraceBlockTokens + (request.input_tokens % kTraceBlockTokens == 0 ? 0 : 1);
    if (request.ids.size() != num_ids) {
      return Status::Corruption(path + ":" + std::to_string(number) + ": " + std::to_string(request.ids.size()) +
                                " ids for " + std::to_string(request.input_tokens) + " tokens, expected " +
                                std::to_string(num_ids));
    }
    trace.input_tokens += request.input_tokens;
    trace.requests.push_back(std::move(request));
  }
  if (trace.input_tokens == 0) return Status::Corruption(path + ": holds no request with input");
  return trace;
}

void TokensOf(const TraceRequest& request, std::vector<TokenId>& tokens) {
  tokens.resize(request.input_tokens);
  for (size_t i = 0; i < request.ids.size(); ++i) {
    XorShift64 random(request.ids[i]);
    const size_t begin = i * kTraceBlockTokens, end = std::min(tokens.size(), begin + kTraceBlockTokens);
    for (size_t t = begin; t < end; ++t) tokens[t] = static_cast<TokenId>(random.Next32() >> 12);
  }
}

uint64_t IdealHitTokens(const Trace& trace, uint64_t capacity_blocks) {
  std::list<uint64_t> by_use;  // Used last at the end.
  std::unordered_map<uint64_t, std::list<uint64_t>::iterator> places;
  uint64_t hits = 0;
  for (const TraceRequest& request : trace.requests) {
    size_t num_found = 0;
    while (num_found < request.ids.size() && places.contains(request.ids[num_found])) ++num_found;
    hits += std::min<uint64_t>(num_found * kTraceBlockTokens, request.input_tokens);
    for (size_t i = request.ids.size(); i-- > 0;) {
      const auto place = places.find(request.ids[i]);
      if (place != places.end()) by_use.erase(place->second);
      places[request.ids[i]] = by_use.insert(by_use.end(), request.ids[i]);
    }
    for (; by_use.size() > capacity_blocks; by_use.pop_front()) places.erase(by_use.front());
  }
  return hits;
}

}  // namespace kvern::bench
