#include "cli/served_cache.h"

#include <cstdint>
#include <vector>

#include "cli/format.h"

namespace kvern::cli {
namespace {

using server::Json;

uint64_t Number(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

// A server may be told to say anything: control bytes do not reach the terminal.
std::string Text(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? EscapeBytes(found->get<std::string>()) : "";
}

Json Part(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_object() ? *found : Json::object();
}

// The objects of an array.
std::vector<Json> List(const Json& object, const char* name) {
  std::vector<Json> list;
  const auto found = object.find(name);
  if (found == object.end() || !found->is_array()) return list;
  for (const Json& element : *found) {
    if (element.is_object()) list.push_back(element);
  }
  return list;
}

// Tokens of prompts, by where their keys and values came from: together they are all of them.
struct Causes {
  uint64_t found, first_time, evicted, diverged, last;
};

std::string CausesLine(const Causes& causes) {
  const uint64_t total = causes.found + causes.first_time + causes.evicted + causes.diverged + causes.last;
  std::string text = FormatCountOf(total, "prompt token") + ": " + FormatCount(causes.found) + " found";
  if (total > 0) text += " (" + std::to_string(100 * causes.found / total) + " %)";
  return text + "; computed: " + FormatCount(causes.first_time) + " for the first time, " +
         FormatCount(causes.evicted) + " evicted before, " + FormatCount(causes.diverged) + " after a difference, " +
         FormatCount(causes.last) + " as the last one, which always is\n";
}

}  // namespace

std::string HoldingText(const Json& cache) {
  const Json blocks = Part(cache, "blocks"), bytes = Part(cache, "bytes"), sequences = Part(cache, "sequences");
  std::string text = Text(cache, "model") + ": " + FormatBytes(Number(bytes, "total")) + " in " +
                     FormatCount(Number(blocks, "total")) + " blocks of " + FormatCount(Number(cache, "block_tokens")) +
                     " tokens: " + FormatCount(Number(blocks, "free")) + " free, " +
                     FormatCount(Number(blocks, "filling")) + " filling, " + FormatCount(Number(blocks, "full")) +
                     " full, " + FormatCount(Number(blocks, "idle")) + " idle (kept for whoever begins alike)\n";
  text += FormatCountOf(Number(sequences, "running"), "sequence") + " running, " +
          FormatCount(Number(sequences, "queued")) + " waiting\n";
  const Json prompts = Part(cache, "prompts");
  text += CausesLine({.found = Number(prompts, "hit_tokens"),
                      .first_time = Number(prompts, "first_time_tokens"),
                      .evicted = Number(prompts, "evicted_tokens"),
                      .diverged = Number(prompts, "diverged_tokens"),
                      .last = Number(prompts, "last_tokens")});
  std::vector<std::vector<std::string>> rows = {{"who", "tokens", "blocks", "idle", "bytes", "found", "looked for"}};
  for (const Json& tenant : List(cache, "tenants")) {
    const std::string salt = Text(tenant, "salt");
    rows.push_back({salt.empty() ? "(everybody)" : salt, FormatCount(Number(tenant, "tokens")),
                    FormatCount(Number(tenant, "blocks")), FormatCount(Number(tenant, "idle_blocks")),
                    FormatBytes(Number(tenant, "bytes")), FormatCount(Number(tenant, "hit_tokens")),
                    FormatCount(Number(tenant, "lookup_tokens"))});
  }
  return text + "\n" + (rows.size() == 1 ? "nothing is cached yet\n" : FormatTable(rows));
}

std::string ClearedText(const Json& cleared) {
  return FormatBytes(Number(cleared, "freed_bytes")) + " are free again\n";
}

std::string CausesText(const Json& requests) {
  std::string text;
  for (const Json& request : List(requests, "data")) {
    const Json causes = Part(request, "prompt_causes"), divergence = Part(request, "divergence");
    text += Text(request, "request_id") + ": " +
            CausesLine({.found = Number(causes, "found"),
                        .first_time = Number(causes, "first_time"),
                        .evicted = Number(causes, "evicted"),
                        .diverged = Number(causes, "diverged"),
                        .last = Number(causes, "last_token")});
    if (divergence.empty()) continue;
    text += "  from token " + FormatCount(Number(divergence, "position")) + " on the cache has \"" +
            Text(divergence, "cached") + "\", the prompt \"" + Text(divergence, "prompt") + "\"\n";
  }
  return text.empty() ? "no request has come yet\n" : text;
}

}  // namespace kvern::cli
