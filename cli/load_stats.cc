#include "cli/load_stats.h"

#include <algorithm>
#include <numeric>

#include "cli/format.h"

namespace kvern::cli {
namespace {

using nlohmann::ordered_json;

std::string FormatMs(double ms) { return FormatFixed(ms, ms < 10 ? 2 : ms < 1000 ? 1 : 0); }

std::vector<std::string> Row(const char* name, const Percentiles& p) {
  if (p.count == 0) return {name, "-", "-", "-", "-", "-", "0"};
  return {
      name, FormatMs(p.p50), FormatMs(p.p90), FormatMs(p.p99), FormatMs(p.max), FormatMs(p.mean), FormatCount(p.count)};
}

ordered_json ToJson(const Percentiles& p) {
  return {{"count", p.count}, {"mean", p.mean}, {"p50", p.p50}, {"p90", p.p90}, {"p99", p.p99}, {"max", p.max}};
}

std::string PlanText(const LoadPlan& plan) {
  std::string text = plan.rate > 0
                         ? FormatRate(plan.rate) + (plan.num_turns > 1 ? " conversations" : " requests") +
                               " a second arrive (Poisson), at most " + FormatCount(plan.num_clients) + " at once"
                         : FormatCountOf(plan.num_clients, "client");
  text += "; ";
  if (plan.shared_tokens > 0) text += "a shared prefix of " + FormatCount(plan.shared_tokens) + " tokens, ";
  if (plan.num_turns > 1) text += FormatCountOf(plan.num_turns, "turn") + " each with ";
  text += "about " + FormatCount(plan.prompt_tokens) + " prompt tokens, up to " + FormatCount(plan.max_tokens) +
          " in the answer; seed " + std::to_string(plan.seed);
  return text;
}

std::string TokenText(const LoadSummary& summary) {
  if (!summary.has_usage) {
    return "The server sends no usage, so each piece of text counts as a token, and prompts are not counted.\n";
  }
  const AnswerUsage& tokens = summary.tokens;
  const double share = tokens.prompt_tokens == 0
                           ? 0
                           : static_cast<double>(tokens.cached_tokens) / static_cast<double>(tokens.prompt_tokens);
  return "prompts: " + FormatCount(tokens.prompt_tokens) + " tokens, " + FormatCount(tokens.cached_tokens) +
         " of them from the cache (" + FormatFixed(100 * share, 1) + " %)\n";
}

}  // namespace

Percentiles PercentilesOf(std::vector<double> values) {
  Percentiles result;
  result.count = values.size();
  if (values.empty()) return result;
  std::ranges::sort(values);
  const auto at = [&values](size_t percent) { return values[(percent * values.size() + 99) / 100 - 1]; };
  result.mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  result.p50 = at(50);
  result.p90 = at(90);
  result.p99 = at(99);
  result.max = values.back();
  return result;
}

LoadSummary Summarize(const LoadOutcome& outcome) {
  LoadSummary summary;
  summary.num_asked = outcome.samples.size();
  summary.wall_s = outcome.wall_s;
  summary.peak_at_once = outcome.peak_at_once;
  summary.num_never_asked = outcome.num_never_asked;
  bool has_usage = true;
  std::vector<double> first_token, gaps, per_token, latency;
  uint64_t answer_tokens = 0;
  for (const AnswerSample& sample : outcome.samples) {
    answer_tokens += sample.answer_tokens();
    switch (sample.outcome) {
      case AnswerOutcome::kDone: break;
      case AnswerOutcome::kHungUp: ++summary.num_hung_up; continue;
      case AnswerOutcome::kCut: ++summary.num_cut; continue;
      case AnswerOutcome::kFailed: {
        ++summary.num_failed;
        LoadFailure& failure = summary.failures[sample.failure];
        if (failure.count++ == 0) failure.message = sample.message;
        continue;
      }
    }
    ++summary.num_done;
    has_usage = has_usage && sample.has_usage;
    summary.tokens.prompt_tokens += sample.usage.prompt_tokens;
    summary.tokens.cached_tokens += sample.usage.cached_tokens;
    summary.tokens.completion_tokens += sample.answer_tokens();
    latency.push_back(sample.latency_ms);
    if (sample.first_token_ms.has_value()) first_token.push_back(*sample.first_token_ms);
    if (const auto mean = sample.MsPerToken()) per_token.push_back(*mean);
    gaps.insert(gaps.end(), sample.gaps_ms.begin(), sample.gaps_ms.end());
  }
  summary.first_token_ms = PercentilesOf(std::move(first_token));
  summary.gap_ms = PercentilesOf(std::move(gaps));
  summary.ms_per_token = PercentilesOf(std::move(per_token));
  summary.latency_ms = PercentilesOf(std::move(latency));
  summary.has_usage = has_usage && summary.num_done > 0;
  if (outcome.wall_s > 0) {
    summary.tokens_per_s = static_cast<double>(answer_tokens) / outcome.wall_s;
    summary.requests_per_s = static_cast<double>(summary.num_done) / outcome.wall_s;
  }
  return summary;
}

std::string LoadText(const LoadTarget& target, const LoadPlan& plan, const LoadSummary& summary) {
  std::string text =
      target.url + ", " + EscapeBytes(target.model) + (plan.is_chat ? ", chat" : "") + "\n" + PlanText(plan) + "\n";
  text += FormatCountOf(summary.num_asked, "request") + " in " + FormatFixed(summary.wall_s, 1) + " s, at most " +
          FormatCount(summary.peak_at_once) + " at once: " + FormatCount(summary.num_done) + " answered, " +
          FormatCount(summary.num_failed) + " failed";
  if (summary.num_hung_up > 0) text += ", " + FormatCount(summary.num_hung_up) + " hung up as planned";
  if (summary.num_cut > 0) text += ", " + FormatCount(summary.num_cut) + " cut by the end";
  text += "\n\n" + FormatTable({{"ms", "p50", "p90", "p99", "max", "mean", "of"},
                                Row("time to first token", summary.first_token_ms),
                                Row("between tokens", summary.gap_ms),
                                Row("per token, by answer", summary.ms_per_token),
                                Row("whole answer", summary.latency_ms)});
  text += "\nanswers: " + FormatCountOf(summary.tokens.completion_tokens, "token") + ", " +
          FormatRate(summary.requests_per_s) + " answers/s; " + FormatRate(summary.tokens_per_s) +
          " tok/s, tokens of answers that are not whole included\n";
  if (summary.num_done > 0) text += TokenText(summary);
  if (summary.num_never_asked > 0) {
    text += "never asked: " + FormatCountOf(summary.num_never_asked, plan.num_turns > 1 ? "conversation" : "request") +
            " that had arrived still waited at the end, and no time above has their wait: the server is too slow for "
            "this rate, or --clients too few\n";
  }
  for (const auto& [kind, failure] : summary.failures) {
    text += "failed: " + FormatCount(failure.count) + " x " + kind + ", the first: " + failure.message + "\n";
  }
  return text;
}

ordered_json LoadJson(const LoadTarget& target, const LoadPlan& plan, const LoadSummary& summary) {
  ordered_json failures = ordered_json::array();
  for (const auto& [kind, failure] : summary.failures) {
    failures.push_back({{"kind", kind}, {"count", failure.count}, {"first_message", failure.message}});
  }
  return {{"url", target.url},
          {"model", target.model},
          {"plan",
           {{"chat", plan.is_chat},
            {"requests", plan.num_requests},
            {"duration_s", plan.duration_s},
            {"clients", plan.num_clients},
            {"rate_per_s", plan.rate},
            {"prompt_tokens", plan.prompt_tokens},
            {"shared_tokens", plan.shared_tokens},
            {"max_tokens", plan.max_tokens},
            {"turns", plan.num_turns},
            {"disconnect_share", plan.disconnect_share},
            {"seed", plan.seed}}},
          {"wall_s", summary.wall_s},
          {"peak_at_once", summary.peak_at_once},
          {"requests",
           {{"asked", summary.num_asked},
            {"answered", summary.num_done},
            {"hung_up", summary.num_hung_up},
            {"cut", summary.num_cut},
            {"failed", summary.num_failed},
            {"never_asked", summary.num_never_asked}}},
          {"failures", std::move(failures)},
          {"time_to_first_token_ms", ToJson(summary.first_token_ms)},
          {"between_tokens_ms", ToJson(summary.gap_ms)},
          {"per_token_ms", ToJson(summary.ms_per_token)},
          {"latency_ms", ToJson(summary.latency_ms)},
          {"has_usage", summary.has_usage},
          {"prompt_tokens", summary.tokens.prompt_tokens},
          {"cached_tokens", summary.tokens.cached_tokens},
          {"answer_tokens", summary.tokens.completion_tokens},
          {"tok_per_s", summary.tokens_per_s},
          {"answers_per_s", summary.requests_per_s}};
}

}  // namespace kvern::cli
