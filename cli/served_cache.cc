#include "cli/served_cache.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "cli/format.h"
#include "cli/json_fields.h"

namespace kvern::cli {
namespace {

using server::Json;

// A server may be told to say anything: control bytes do not reach the terminal.
std::string TextOf(const Json& object, const char* name) { return EscapeBytes(StringOf(FindField(object, name))); }

// Null is the text of another tenant.
std::string QuotedOf(const Json& object, const char* name) {
  if (FindField(object, name) == nullptr) return "what another tenant sent";
  std::string text = "\"";
  return text.append(TextOf(object, name)).append("\"");
}

// An empty object where it is missing.
const Json& PartOf(const Json& object, const char* name) {
  static const Json kNothing = Json::object();
  const Json* const part = FindField(object, name);
  return part != nullptr ? *part : kNothing;
}

// Tokens of prompts, by where their keys and values came from: together they are all of them.
struct Causes {
  uint64_t found, first_time, evicted, diverged, last;
};

// "50 prompt tokens: 25 found (50 %); computed: 24 after a difference, 1 as the last one, which always is"
std::string CausesLine(const Causes& causes) {
  const uint64_t total = causes.found + causes.first_time + causes.evicted + causes.diverged + causes.last;
  std::string text = FormatCountOf(total, "prompt token");
  if (total > 0) {
    text += ": " + FormatCount(causes.found) + " found (" + std::to_string(100 * causes.found / total) + " %)";
  }
  const char* before = "; computed: ";
  for (const auto& [count, cause] :
       {std::pair(causes.first_time, " for the first time"), std::pair(causes.evicted, " evicted before"),
        std::pair(causes.diverged, " after a difference"),
        std::pair(causes.last, " as the last one, which always is")}) {
    if (count == 0) continue;
    text += before + FormatCount(count) + cause;
    before = ", ";
  }
  return text + "\n";
}

}  // namespace

std::string HoldingText(const Json& cache) {
  const Json& blocks = PartOf(cache, "blocks");
  const Json& bytes = PartOf(cache, "bytes");
  const Json& sequences = PartOf(cache, "sequences");
  std::string text = TextOf(cache, "model") + ": " + FormatBytes(CountOf(bytes, "total")) + " in " +
                     FormatCount(CountOf(blocks, "total")) + " blocks of " +
                     FormatCount(CountOf(cache, "block_tokens")) + " tokens: " + FormatCount(CountOf(blocks, "free")) +
                     " free, " + FormatCount(CountOf(blocks, "filling")) + " filling, " +
                     FormatCount(CountOf(blocks, "full")) + " full, " + FormatCount(CountOf(blocks, "idle")) +
                     " idle (kept for whoever begins alike)\n";
  text += FormatCountOf(CountOf(sequences, "running"), "sequence") + " running, " +
          FormatCount(CountOf(sequences, "queued")) + " waiting\n";
  const Json& prompts = PartOf(cache, "prompts");
  text += CausesLine({.found = CountOf(prompts, "hit_tokens"),
                      .first_time = CountOf(prompts, "first_time_tokens"),
                      .evicted = CountOf(prompts, "evicted_tokens"),
                      .diverged = CountOf(prompts, "diverged_tokens"),
                      .last = CountOf(prompts, "last_tokens")});
  std::vector<std::vector<std::string>> rows = {{"who", "tokens", "blocks", "idle", "bytes", "found", "looked for"}};
  for (const Json& tenant : PartOf(cache, "tenants")) {
    const std::string salt = TextOf(tenant, "salt");
    rows.push_back({salt.empty() ? "(everybody)" : salt, FormatCount(CountOf(tenant, "tokens")),
                    FormatCount(CountOf(tenant, "blocks")), FormatCount(CountOf(tenant, "idle_blocks")),
                    FormatBytes(CountOf(tenant, "bytes")), FormatCount(CountOf(tenant, "hit_tokens")),
                    FormatCount(CountOf(tenant, "lookup_tokens"))});
  }
  return text + "\n" + (rows.size() == 1 ? "nothing is cached yet\n" : FormatTable(rows));
}

std::string ClearedText(const Json& cleared) {
  return FormatBytes(CountOf(cleared, "freed_bytes")) + " are free again\n";
}

std::string CausesText(const Json& requests) {
  std::string text;
  for (const Json& request : PartOf(requests, "data")) {
    const Json& causes = PartOf(request, "prompt_causes");
    const Json& divergence = PartOf(request, "divergence");
    text += TextOf(request, "request_id") + ": " +
            CausesLine({.found = CountOf(causes, "found"),
                        .first_time = CountOf(causes, "first_time"),
                        .evicted = CountOf(causes, "evicted"),
                        .diverged = CountOf(causes, "diverged"),
                        .last = CountOf(causes, "last_token")});
    if (divergence.empty()) continue;
    text += "  from token " + FormatCount(CountOf(divergence, "position")) + " on the cache has " +
            QuotedOf(divergence, "cached") + ", the prompt " + QuotedOf(divergence, "prompt") + "\n";
  }
  return text.empty() ? "no request has come yet\n" : text;
}

}  // namespace kvern::cli
