// The result of kvern quality as a table and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/codec_pair.h"
#include "kvern/quality.h"

namespace kvern::cli {

// Two significant digits, with an exponent below 0.001: "0.0123", "4.5e-06"; "inf", and "0" for 0.
std::string FormatSmall(double value);
// "0.0123 +- 0.0004".
std::string FormatEstimate(const Estimate& estimate);

// "passed", "FAILED"; "too few tokens" below kVerdictTokens; "exact" where there is no gate.
std::string VerdictText(const QualityReport& report);

inline CodecPair CodecsOf(const QualityReport& report) { return {report.cache.k_type, report.cache.v_type}; }

std::string QualityTable(const std::vector<QualityReport>& reports);
nlohmann::ordered_json QualityJson(const std::vector<QualityReport>& reports);
nlohmann::ordered_json ToJson(const QualityNumbers& numbers);

}  // namespace kvern::cli
