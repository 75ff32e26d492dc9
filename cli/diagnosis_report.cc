#include "cli/diagnosis_report.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cli/format.h"
#include "cli/plots.h"
#include "cli/quality_report.h"

namespace kvern::cli {
namespace {

using Json = nlohmann::ordered_json;

double Largest(const RowStatistics& rows) { return std::max(rows.max, -rows.min); }

Json ToJson(const RowStatistics& rows) {
  return {{"min", rows.min},
          {"max", rows.max},
          {"mean", rows.mean},
          {"deviation", rows.deviation},
          {"mean_norm", rows.mean_norm},
          {"norm_deviation", rows.norm_deviation},
          {"outlier_ratio", rows.outlier_ratio},
          {"mean_peak", rows.mean_peak},
          {"mean_share", rows.mean_share},
          {"beyond_f16", rows.num_beyond_f16},
          {"channel_means", rows.channel_means}};
}

Json ToJson(const HeadDiagnosis& head, uint32_t layer, uint32_t index) {
  return {{"layer", layer},
          {"head", index},
          {"k", ToJson(head.k)},
          {"v", ToJson(head.v)},
          {"k_lag1", head.k_lag1},
          {"k_cosine_heads", head.k_cosine_heads},
          {"v_cosine_heads", head.v_cosine_heads},
          {"k_cosine_layers", head.k_cosine_layers},
          {"v_cosine_layers", head.v_cosine_layers},
          {"entropy", head.entropy},
          {"sink_share", head.sink_share},
          {"recent_share", head.recent_share},
          {"score_deviation", head.score_deviation},
          {"score_noise_int8", head.score_noise_int8},
          {"score_noise_int4", head.score_noise_int4}};
}

// What is worth a picture.
struct Metric {
  const char* title;
  double (*value)(const HeadDiagnosis& head);
};
constexpr Metric kMetrics[] = {
    {"largest key", [](const HeadDiagnosis& head) { return Largest(head.k); }},
    {"K outlier ratio", [](const HeadDiagnosis& head) { return head.k.outlier_ratio; }},
    {"share of K in channel means", [](const HeadDiagnosis& head) { return head.k.mean_share; }},
    {"largest value", [](const HeadDiagnosis& head) { return Largest(head.v); }},
    {"K: correlation with the token before", [](const HeadDiagnosis& head) { return head.k_lag1; }},
    {"attention entropy (nats)", [](const HeadDiagnosis& head) { return head.entropy; }},
    {"attention to the first 4 tokens", [](const HeadDiagnosis& head) { return head.sink_share; }},
    {"attention to the last 64 tokens", [](const HeadDiagnosis& head) { return head.recent_share; }},
    {"score noise of 8-bit K", [](const HeadDiagnosis& head) { return head.score_noise_int8; }},
    {"score noise of 4-bit K", [](const HeadDiagnosis& head) { return head.score_noise_int4; }},
};

}  // namespace

std::string DiagnosisTable(const KvDiagnosis& diagnosis) {
  std::string text = FormatCount(diagnosis.num_tokens) + " tokens, " + std::to_string(diagnosis.num_layers) +
                     " layers, " + std::to_string(diagnosis.num_kv_heads) + " KV heads of " +
                     std::to_string(diagnosis.head_dim) + "\n\n";
  if (!diagnosis.non_finite) {
    std::vector<std::vector<std::string>> cells = {
        {"layer head", "K min",     "max",    "mean",    "dev",    "norm",  "outlier", "in means",
         "lag-1",      "cos heads", "layers", "V min",   "max",    "dev",   "norm",    "cos heads",
         "layers",     "entropy",   "sinks",  "last 64", "noise8", "noise4"}};
    for (uint32_t layer = 0; layer < diagnosis.num_layers; ++layer) {
      for (uint32_t h = 0; h < diagnosis.num_kv_heads; ++h) {
        const HeadDiagnosis& head = diagnosis.Head(layer, h);
        std::vector<std::string> row = {std::to_string(layer) + " " + std::to_string(h)};
        for (const double value :
             {head.k.min, head.k.max, head.k.mean, head.k.deviation, head.k.mean_norm, head.k.outlier_ratio}) {
          row.push_back(FormatSmall(value));
        }
        row.push_back(FormatPercent(head.k.mean_share));
        for (const double value : {head.k_lag1, head.k_cosine_heads, head.k_cosine_layers}) {
          row.push_back(FormatFixed(value, 2));
        }
        for (const double value : {head.v.min, head.v.max, head.v.deviation, head.v.mean_norm}) {
          row.push_back(FormatSmall(value));
        }
        for (const double value : {head.v_cosine_heads, head.v_cosine_layers, head.entropy}) {
          row.push_back(FormatFixed(value, 2));
        }
        row.push_back(FormatPercent(head.sink_share));
        row.push_back(FormatPercent(head.recent_share));
        row.push_back(FormatSmall(head.score_noise_int8));
        row.push_back(FormatSmall(head.score_noise_int4));
        cells.push_back(std::move(row));
      }
    }
    text += FormatTable(cells) + "\n";
  }
  for (const std::string& advice : AdviceFor(diagnosis)) text += "- " + advice + "\n";
  return text;
}

Json DiagnosisJson(const KvDiagnosis& diagnosis) {
  Json heads = Json::array();
  if (!diagnosis.non_finite) {
    for (uint32_t layer = 0; layer < diagnosis.num_layers; ++layer) {
      for (uint32_t head = 0; head < diagnosis.num_kv_heads; ++head) {
        heads.push_back(ToJson(diagnosis.Head(layer, head), layer, head));
      }
    }
  }
  Json non_finite = nullptr;
  if (diagnosis.non_finite) {
    non_finite = {{"row", std::string(1, diagnosis.non_finite->row)},
                  {"layer", diagnosis.non_finite->layer},
                  {"head", diagnosis.non_finite->head},
                  {"position", diagnosis.non_finite->position}};
  }
  return {{"tokens", diagnosis.num_tokens},   {"num_layers", diagnosis.num_layers},
          {"num_heads", diagnosis.num_heads}, {"num_kv_heads", diagnosis.num_kv_heads},
          {"head_dim", diagnosis.head_dim},   {"non_finite", std::move(non_finite)},
          {"advice", AdviceFor(diagnosis)},   {"heads", std::move(heads)}};
}

std::string DiagnosisHtml(const KvDiagnosis& diagnosis, const std::string& model_path) {
  std::string body = "<p>" + FormatCount(diagnosis.num_tokens) + " tokens; one square per layer and KV head, its " +
                     "number under the pointer.</p>\n<ul>\n";
  for (const std::string& advice : AdviceFor(diagnosis)) body += "<li>" + EscapeHtml(advice) + "</li>\n";
  body += "</ul>\n";
  for (const Metric& metric : kMetrics) {
    if (diagnosis.non_finite) break;
    HeatMap map = {.title = metric.title,
                   .row_name = "layer",
                   .column_name = "head",
                   .num_columns = diagnosis.num_kv_heads,
                   .values = {}};
    for (const HeadDiagnosis& head : diagnosis.heads) map.values.push_back(metric.value(head));
    body += HeatMapSvg(map);
  }
  return HtmlPage("Keys and values of " + model_path, body);
}

}  // namespace kvern::cli
