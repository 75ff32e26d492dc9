// The result of kvern diagnose as a table, as JSON and as heat maps.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "kvern/kv_diagnostics.h"

namespace kvern::cli {

// One line per layer and KV head, then the advice.
std::string DiagnosisTable(const KvDiagnosis& diagnosis);
nlohmann::ordered_json DiagnosisJson(const KvDiagnosis& diagnosis);
// A page with one map of layers and heads per statistic.
std::string DiagnosisHtml(const KvDiagnosis& diagnosis, const std::string& model_path);

}  // namespace kvern::cli
