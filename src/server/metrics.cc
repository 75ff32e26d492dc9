#include "server/metrics.h"

#include <cstdio>

namespace kvern::server {
namespace {

std::string NumberText(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", value);
  return text;
}

void AppendHead(std::string& text, const std::string& name, const char* type, const std::string& help) {
  text += "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
}

void AppendSample(std::string& text, const std::string& name, uint64_t value) {
  text += name + " " + std::to_string(value) + "\n";
}

void AppendCounter(std::string& text, const std::string& name, const std::string& help, uint64_t value) {
  AppendHead(text, name, "counter", help);
  AppendSample(text, name, value);
}

void AppendGauge(std::string& text, const std::string& name, const std::string& help, uint64_t value) {
  AppendHead(text, name, "gauge", help);
  AppendSample(text, name, value);
}

void AppendEngine(std::string& text, const EngineStats& stats) {
  const CacheStats& cache = stats.cache;
  AppendGauge(text, "kvern_requests_running", "Sequences that the engine runs now.", stats.running_sequences);
  AppendGauge(text, "kvern_requests_queued", "Requests that wait for their turn.", stats.queued_requests);
  AppendCounter(text, "kvern_steps_total", "Forward passes.", stats.steps);
  AppendCounter(text, "kvern_tokens_computed_total", "Tokens whose keys and values were computed.",
                stats.tokens_computed);
  AppendCounter(text, "kvern_tokens_recomputed_total", "Tokens computed again because a preemption lost them.",
                stats.tokens_recomputed);
  AppendCounter(text, "kvern_preemptions_total", "Sequences that had to give their memory to others for a while.",
                stats.num_preemptions);
  AppendCounter(text, "kvern_kv_values_lost_total", "Keys and values that their type could not hold.",
                stats.kv_values_lost);
  AppendHead(text, "kvern_prompt_tokens_by_cause_total", "counter",
             "Tokens of prompts by why they were computed, or were not (found).");
  const PrefixStats& prefix = stats.prefix;
  AppendSample(text, "kvern_prompt_tokens_by_cause_total{cause=\"found\"}", prefix.hit_tokens);
  AppendSample(text, "kvern_prompt_tokens_by_cause_total{cause=\"first_time\"}", prefix.first_time_tokens);
  AppendSample(text, "kvern_prompt_tokens_by_cause_total{cause=\"evicted\"}", prefix.evicted_tokens);
  AppendSample(text, "kvern_prompt_tokens_by_cause_total{cause=\"diverged\"}", prefix.diverged_tokens);
  AppendSample(text, "kvern_prompt_tokens_by_cause_total{cause=\"last_token\"}", prefix.last_tokens);
  AppendCounter(text, "kvern_kv_blocks_evicted_total", "Idle blocks that made room for others.", prefix.evicted_blocks);
  AppendHead(text, "kvern_kv_blocks", "gauge", "Blocks of the KV cache by state.");
  AppendSample(text, "kvern_kv_blocks{state=\"free\"}", cache.free_blocks);
  AppendSample(text, "kvern_kv_blocks{state=\"filling\"}", cache.filling_blocks);
  AppendSample(text, "kvern_kv_blocks{state=\"full\"}", cache.full_blocks);
  AppendSample(text, "kvern_kv_blocks{state=\"idle\"}", cache.idle_blocks);
  AppendHead(text, "kvern_kv_bytes", "gauge", "Bytes of the KV cache by state of their block.");
  AppendSample(text, "kvern_kv_bytes{state=\"free\"}", cache.free_bytes);
  AppendSample(text, "kvern_kv_bytes{state=\"filling\"}", cache.filling_bytes);
  AppendSample(text, "kvern_kv_bytes{state=\"full\"}", cache.full_bytes);
  AppendSample(text, "kvern_kv_bytes{state=\"idle\"}", cache.idle_bytes);
  AppendGauge(text, "kvern_kv_peak_bytes", "Most bytes of the KV cache that were in use at once.",
              cache.peak_used_bytes);
  AppendGauge(text, "kvern_weight_bytes", "Bytes of the model's weights in memory.", stats.weight_bytes);
}

}  // namespace

void SecondsHistogram::Add(double seconds) {
  size_t i = 0;
  while (i < kBounds.size() && seconds > kBounds[i]) ++i;
  ++counts_[i];
  sum_ += seconds;
}

void SecondsHistogram::AppendTo(std::string& text, const std::string& name, const std::string& help) const {
  AppendHead(text, name, "histogram", help);
  uint64_t count = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    count += counts_[i];
    const std::string bound = i < kBounds.size() ? NumberText(kBounds[i]) : "+Inf";
    AppendSample(text, name + "_bucket{le=\"" + bound + "\"}", count);
  }
  text += name + "_sum " + NumberText(sum_) + "\n";
  AppendSample(text, name + "_count", count);
}

void Metrics::Add(const RequestRecord& record, const HttpOutcome& outcome) {
  const std::lock_guard lock(mutex_);
  ++requests_[{record.route.empty() ? "other" : record.route, outcome.status}];
  duration_.Add(1e-6 * static_cast<double>(outcome.duration.count()));
  if (!record.generates) return;
  if (!outcome.is_complete) ++cancelled_requests_;
  prompt_tokens_ += record.prompt_tokens;
  cached_tokens_ += record.cached_tokens;
  generated_tokens_ += record.generated_tokens;
  // Known from the first token on, and at the end of an answer without one.
  if (record.first_token_us.has_value() || outcome.is_complete) queue_.Add(1e-6 * static_cast<double>(record.queue_us));
  if (record.first_token_us.has_value()) first_token_.Add(1e-6 * static_cast<double>(*record.first_token_us));
  if (record.generated_tokens > 1) {
    between_tokens_.Add(1e-6 * static_cast<double>(record.decode_us) /
                        static_cast<double>(record.generated_tokens - 1));
  }
}

std::string Metrics::Text(const EngineStats* engine, const HttpServerStats& server) const {
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    AppendHead(text, "kvern_requests_total", "counter", "Requests by route and status of the reply.");
    for (const auto& [key, count] : requests_) {
      AppendSample(text,
                   "kvern_requests_total{route=\"" + key.first + "\",status=\"" + std::to_string(key.second) + "\"}",
                   count);
    }
    AppendCounter(text, "kvern_requests_cancelled_total", "Requests whose client left before the end.",
                  cancelled_requests_);
    AppendCounter(text, "kvern_prompt_tokens_total", "Tokens of all prompts.", prompt_tokens_);
    AppendCounter(text, "kvern_prompt_tokens_cached_total", "Those of them that were found in the cache.",
                  cached_tokens_);
    AppendCounter(text, "kvern_generated_tokens_total", "Tokens of all answers.", generated_tokens_);
    queue_.AppendTo(text, "kvern_queue_seconds", "From the arrival of a request to its first step.");
    first_token_.AppendTo(text, "kvern_time_to_first_token_seconds",
                          "From the arrival of a request to its first token.");
    between_tokens_.AppendTo(text, "kvern_time_between_tokens_seconds", "Mean time between the tokens of an answer.");
    duration_.AppendTo(text, "kvern_request_seconds", "From the first byte of a request to the last of its reply.");
  }
  AppendGauge(text, "kvern_connections", "Open connections.", server.open_connections);
  AppendCounter(text, "kvern_connections_accepted_total", "Connections so far.", server.accepted_connections);
  AppendCounter(text, "kvern_connections_refused_total", "Connections beyond the limits.", server.refused_connections);
  if (engine != nullptr) AppendEngine(text, *engine);
  return text;
}

}  // namespace kvern::server
