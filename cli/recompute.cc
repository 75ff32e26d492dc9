#include "cli/recompute.h"

#include <algorithm>
#include <utility>

#include "cli/format.h"
#include "cli/generation.h"

namespace kvern::cli {
namespace {

std::string WithError(const NllMean& mean) {
  return FormatFixed(mean.mean(), 4) + " +- " + FormatFixed(mean.standard_error(), 4);
}

}  // namespace

Result<RecomputedWindow> RecomputedWindow::Create(const CacheOptions& cache, uint32_t every) {
  if (cache.window_tokens == 0) {
    return Status::InvalidArgument("--recompute-every compares a window with recomputing it: give --window too");
  }
  if (!cache.global_tokens.empty()) {
    return Status::InvalidArgument("--recompute-every knows windows and sinks; leave --global out");
  }
  if (every == 0) return Status::InvalidArgument("--recompute-every is 0, expected 1 or more");
  return RecomputedWindow(cache.window_tokens, cache.num_sinks, every);
}

RecomputedWindow::RecomputedWindow(uint32_t window_tokens, uint32_t num_sinks, uint32_t every)
    : window_tokens_(window_tokens), num_sinks_(num_sinks), every_(every) {
  ways_.push_back({.num_sinks = 0, .nll = {}, .difference = {}});
  if (num_sinks > 0) ways_.push_back({.num_sinks = num_sinks, .nll = {}, .difference = {}});
}

std::vector<size_t> RecomputedWindow::Targets(size_t num_tokens, size_t first_scored) const {
  std::vector<size_t> targets;
  const size_t first = std::max<size_t>(first_scored, size_t{window_tokens_} + num_sinks_ + 1);
  for (size_t target = first; target < num_tokens; target += every_) targets.push_back(target);
  return targets;
}

std::vector<TokenId> RecomputedWindow::Context(std::span<const TokenId> tokens, size_t target,
                                               uint32_t num_sinks) const {
  const std::span<const TokenId> sinks = tokens.first(num_sinks);
  const std::span<const TokenId> window = tokens.subspan(target - window_tokens_, window_tokens_ + 1);
  std::vector<TokenId> context(sinks.begin(), sinks.end());
  context.insert(context.end(), window.begin(), window.end());
  return context;
}

uint64_t RecomputedWindow::TokensPerTarget() const {
  uint64_t count = 0;
  for (const Way& way : ways_) count += way.num_sinks + uint64_t{window_tokens_} + 1;
  return count;
}

// The engine's own window holds all of such a context, and its sinks are where they would be without one.
Status RecomputedWindow::Add(Engine& engine, std::span<const TokenId> tokens, size_t first_scored,
                             std::span<const TokenScore> scores,
                             const std::function<bool(uint64_t tokens_done)>& goes_on) {
  uint64_t done = 0;
  for (const size_t target : Targets(tokens.size(), first_scored)) {
    const float cached = scores[target - first_scored].log_prob;
    std::vector<float> anew;
    for (const Way& way : ways_) {
      ScoreRequest request;
      request.tokens = Context(tokens, target, way.num_sinks);
      request.first_scored = static_cast<uint32_t>(request.tokens.size() - 1);
      KVERN_ASSIGN_OR_RETURN(const std::vector<TokenScore> score, engine.Score(request));
      anew.push_back(score.front().log_prob);
    }
    cached_.Add(cached);
    for (size_t i = 0; i < ways_.size(); ++i) {
      ways_[i].nll.Add(anew[i]);
      ways_[i].difference.Add(cached - anew[i]);
    }
    done += TokensPerTarget();
    if (!goes_on(done)) return Status::Cancelled("scoring was cancelled");
  }
  return Status::Ok();
}

std::string RecomputedWindow::Text() const {
  std::vector<std::vector<std::string>> rows = {{"", "NLL", "cache less this"}};
  rows.push_back(
      {"cached window" + (num_sinks_ > 0 ? " + " + FormatCount(num_sinks_) + " sinks" : ""), WithError(cached_), "-"});
  for (const Way& way : ways_) {
    rows.push_back({"recomputed window" + (way.num_sinks > 0 ? " + " + FormatCount(way.num_sinks) + " sinks" : ""),
                    WithError(way.nll), WithError(way.difference)});
  }
  return "window of " + FormatCount(window_tokens_) + " tokens, recomputed for " + FormatCount(cached_.count()) +
         " tokens: each " + FormatCount(every_) + "th behind it\n" + FormatTable(rows);
}

nlohmann::ordered_json RecomputedWindow::Json() const {
  nlohmann::ordered_json ways = nlohmann::ordered_json::array();
  for (const Way& way : ways_) {
    ways.push_back({{"sinks", way.num_sinks},
                    {"nll", way.nll.mean()},
                    {"nll_error", way.nll.standard_error()},
                    {"cached_less_this", way.difference.mean()},
                    {"cached_less_this_error", way.difference.standard_error()}});
  }
  return {{"every", every_},
          {"window", window_tokens_},
          {"sinks", num_sinks_},
          {"tokens", cached_.count()},
          {"cached_nll", cached_.mean()},
          {"cached_nll_error", cached_.standard_error()},
          {"recomputed", std::move(ways)}};
}

}  // namespace kvern::cli
