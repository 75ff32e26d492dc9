#include "cli/quality_report.h"

#include <cmath>
#include <cstdio>

#include "cli/format.h"

namespace kvern::cli {
namespace {

nlohmann::ordered_json ToJson(const Estimate& estimate) {
  return {{"value", estimate.value}, {"error", estimate.error}};
}

std::string PercentOf(const Estimate& estimate) {
  return FormatFixed(100 * estimate.value, 2) + " +- " + FormatFixed(100 * estimate.error, 2) + " %";
}

std::string RangeOf(const QualityBucket& bucket) {
  return std::to_string(bucket.begin) + " to " + std::to_string(bucket.end - 1);
}

}  // namespace

std::string FormatSmall(double value) {
  if (value == 0) return "0";
  char buffer[32];
  std::snprintf(buffer, sizeof(buffer), "%.3g", value);
  return buffer;
}

std::string FormatEstimate(const Estimate& estimate) {
  return FormatSmall(estimate.value) + " +- " + FormatSmall(estimate.error);
}

std::string VerdictText(const QualityReport& report) {
  const auto gate = GateFor(report.cache.k_type, report.cache.v_type);
  if (!gate) return "exact";
  if (report.all.num_tokens < kVerdictTokens) return "too few tokens";
  return PassesGate(*gate, report.all) ? "passed" : "FAILED";
}

std::string QualityTable(const std::vector<QualityReport>& reports) {
  std::vector<std::vector<std::string>> all = {
      {"codec", "KLD", "p50", "p99", "max", "same top", "RMS dp", "dNLL", "gate", "verdict"}};
  std::vector<std::vector<std::string>> buckets = {{"codec, tokens before", "KLD", "p99", "same top", "dNLL"}};
  for (const QualityReport& report : reports) {
    const QualityNumbers& n = report.all;
    const auto gate = GateFor(report.cache.k_type, report.cache.v_type);
    all.push_back(
        {NameOf(CodecsOf(report)), FormatEstimate(n.kld_mean), FormatEstimate(n.kld_p50), FormatEstimate(n.kld_p99),
         FormatSmall(n.kld_max), PercentOf(n.same_top), FormatEstimate(n.rms_delta_p), FormatEstimate(n.nll_difference),
         gate ? "KLD <= " + FormatSmall(gate->max_kld_mean) +
                    (gate->min_same_top > 0 ? ", top >= " + FormatFixed(100 * gate->min_same_top, 1) + " %" : "")
              : "-",
         VerdictText(report)});
    for (const QualityBucket& bucket : report.buckets) {
      buckets.push_back({NameOf(CodecsOf(report)) + ", " + RangeOf(bucket), FormatEstimate(bucket.numbers.kld_mean),
                         FormatSmall(bucket.numbers.kld_p99.value), PercentOf(bucket.numbers.same_top),
                         FormatEstimate(bucket.numbers.nll_difference)});
    }
  }
  return FormatTable(all) + "\n" + FormatTable(buckets);
}

nlohmann::ordered_json ToJson(const QualityNumbers& numbers) {
  return {{"tokens", numbers.num_tokens},
          {"kld_mean", ToJson(numbers.kld_mean)},
          {"kld_p50", ToJson(numbers.kld_p50)},
          {"kld_p99", ToJson(numbers.kld_p99)},
          {"kld_max", numbers.kld_max},
          {"same_top", ToJson(numbers.same_top)},
          {"rms_delta_p", ToJson(numbers.rms_delta_p)},
          {"nll_difference", ToJson(numbers.nll_difference)},
          {"reference_nll", ToJson(numbers.reference_nll)}};
}

nlohmann::ordered_json QualityJson(const std::vector<QualityReport>& reports) {
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  for (const QualityReport& report : reports) {
    nlohmann::ordered_json buckets = nlohmann::ordered_json::array();
    for (const QualityBucket& bucket : report.buckets) {
      buckets.push_back({{"begin", bucket.begin}, {"end", bucket.end}, {"numbers", ToJson(bucket.numbers)}});
    }
    const auto gate = GateFor(report.cache.k_type, report.cache.v_type);
    results.push_back({{"k_type", KvTypeName(report.cache.k_type)},
                       {"v_type", KvTypeName(report.cache.v_type)},
                       {"gate", gate ? nlohmann::ordered_json(gate->name) : nlohmann::ordered_json(nullptr)},
                       {"verdict", VerdictText(report)},
                       {"numbers", ToJson(report.all)},
                       {"buckets", std::move(buckets)}});
  }
  return results;
}

}  // namespace kvern::cli
