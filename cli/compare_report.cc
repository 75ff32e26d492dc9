#include "cli/compare_report.h"

#include <algorithm>
#include <utility>

#include "cli/cache_theory.h"
#include "cli/engine_flags.h"
#include "cli/format.h"
#include "cli/generation.h"
#include "cli/plots.h"
#include "cli/quality_report.h"

namespace kvern::cli {
namespace {

using Json = nlohmann::ordered_json;

bool IsTimed(const CompareResult& result) { return !result.depths.empty(); }

bool IsMeasured(const CompareResult& result) {
  return IsTimed(result) || (result.row.is_per_tensor_int8 && result.quality);
}

const DepthResult& Deepest(const CompareResult& result) { return result.depths.back(); }

double TokensPerSecond(const DepthResult& depth) {
  double seconds = 0;
  for (const double token : depth.token_seconds) seconds += token;
  return seconds > 0 ? static_cast<double>(depth.token_seconds.size()) / seconds : 0;
}

double MillisecondsAt(const DepthResult& depth, double q) { return 1e3 * PercentileOf(depth.token_seconds, q); }

std::string Milliseconds(double seconds) { return FormatFixed(1e3 * seconds, seconds < 1 ? 2 : 0); }

// Tokens with keys and values at the end of the deepest run.
uint64_t ContextOf(const CompareResult& result) {
  if (result.row.cache.is_enabled) return result.stats.tokens_computed;
  return result.stats.prompt_tokens + std::max<uint64_t>(result.stats.generated_tokens, 1) - 1;
}

uint64_t HeadsOf(const CompareRun& run) { return uint64_t{run.model.num_layers} * run.model.num_heads; }

std::string Heading(const CompareRun& run) {
  std::string text = run.options.model_path + ", " + run.options.isa + ", " + std::to_string(run.options.num_threads) +
                     " threads, " + ActivationModeName(run.options.activations) + " activations: prompts of up to " +
                     FormatCount(run.plan.length) + " tokens";
  if (run.quality_tokens_done > 0) text += ", quality over " + FormatCount(run.quality_tokens_done) + " tokens";
  return text;
}

// Why the row of one scale per tensor has quality only; "" where it is not there.
std::string PerTensorNote(const CompareRun& run) {
  const auto is_shown = [](const CompareResult& result) { return result.row.is_per_tensor_int8 && IsMeasured(result); };
  if (std::ranges::none_of(run.results, is_shown)) return "";
  return "int8 per tensor: 8 bits a value, one scale and one zero point for all keys of a layer in the text and for\n"
         "all its values. Bytes are computed, and there are no times, since no cache can be kept so: a token that "
         "widens\n"
         "a range would have all earlier ones stored again.\n";
}

std::string Notes(const CompareRun& run) {
  std::string text =
      "ms at depth: to one more token after the whole prompt, half and 95 % of them. unused: bytes held without a "
      "token.\nq.k: needed query-key products of prompt and answer; theory: what a causal model that sees everything "
      "needs; last step: n^2 without a cache,\n2n - 1 with one, all heads, no mask. KLD, same top, dNLL: against f32 "
      "keys and values.\n";
  text += PerTensorNote(run);
  if (run.quality_tokens_done > 0 && run.quality_tokens_done < kVerdictTokens) {
    text += "A verdict on a codec needs " + FormatCount(kVerdictTokens) + " tokens: kvern quality.\n";
  }
  return text;
}

// Times and counters of the deepest run.
std::vector<std::string> SpeedCells(const CompareRun& run, const CompareResult& result) {
  const DepthResult& deepest = Deepest(result);
  const uint64_t theory = TheoryProducts(run, result);
  return {
      Milliseconds(deepest.first_token_s),
      FormatFixed(MillisecondsAt(deepest, 0.5), 2),
      FormatFixed(MillisecondsAt(deepest, 0.95), 2),
      FormatRate(TokensPerSecond(deepest)),
      FormatCount(result.stats.tokens_computed),
      FormatCount(result.stats.query_key_products),
      theory == result.stats.query_key_products
          ? "as theory"
          : FormatFixed(static_cast<double>(result.stats.query_key_products) / static_cast<double>(theory), 3) + " x",
      FormatCount(LastStepOf(run, result))};
}

constexpr size_t kSpeedCells = 8;

std::vector<std::string> QualityCells(const QualityNumbers& quality) {
  return {FormatEstimate(quality.kld_mean), FormatFixed(100 * quality.same_top.value, 2) + " %",
          FormatEstimate(quality.nll_difference)};
}

constexpr size_t kQualityCells = 3;

std::vector<std::string> MainRow(const CompareRun& run, const CompareResult& result) {
  const bool is_timed = IsTimed(result);
  std::vector<std::string> cells = {result.row.name, FormatCount(result.bytes_per_token),
                                    FormatBytes(result.peak_bytes), is_timed ? FormatBytes(result.unused_bytes) : "-"};
  const auto append = [&cells](std::vector<std::string> more) { std::ranges::move(more, std::back_inserter(cells)); };
  append(is_timed ? SpeedCells(run, result) : std::vector<std::string>(kSpeedCells, "-"));
  append(result.quality ? QualityCells(*result.quality) : std::vector<std::string>(kQualityCells, "-"));
  return cells;
}

std::string HtmlTable(const Cells& cells) {
  std::string html = "<table>\n";
  for (size_t i = 0; i < cells.size(); ++i) {
    const char* const tag = i == 0 ? "th" : "td";
    html += "<tr>";
    for (const std::string& cell : cells[i]) {
      html += std::string("<") + tag + ">" + EscapeHtml(cell) + "</" + tag + ">";
    }
    html += "</tr>\n";
  }
  return html + "</table>\n";
}

// What is known of a recipe that no cache was run with; the rest is null.
constexpr std::string_view kOfPerTensor[] = {"row", "bytes_per_token", "peak_bytes", "depths", "quality"};

Json ToJson(const CompareRun& run, const CompareResult& result) {
  Json depths = Json::array();
  for (const DepthResult& depth : result.depths) {
    depths.push_back({{"depth", depth.depth},
                      {"first_token_ms", 1e3 * depth.first_token_s},
                      {"token_ms_p50", MillisecondsAt(depth, 0.5)},
                      {"token_ms_p95", MillisecondsAt(depth, 0.95)},
                      {"tok_per_s", TokensPerSecond(depth)}});
  }
  Json json = {{"row", result.row.name},
               {"is_cache_enabled", result.row.cache.is_enabled},
               {"k_type", KvTypeName(result.row.cache.k_type)},
               {"v_type", KvTypeName(result.row.cache.v_type)},
               {"placement", result.row.cache.placement},
               {"block_size", result.row.cache.block_size},
               {"window_tokens", result.row.cache.window_tokens},
               {"num_sinks", result.row.cache.num_sinks},
               {"bytes_per_token", result.bytes_per_token},
               {"peak_bytes", result.peak_bytes},
               {"unused_bytes", result.unused_bytes},
               {"depths", std::move(depths)},
               {"tokens_computed", result.stats.tokens_computed},
               {"query_key_products", result.stats.query_key_products},
               {"theory_products", TheoryProducts(run, result)},
               {"last_step_unmasked", LastStepOf(run, result)},
               {"quality", result.quality ? cli::ToJson(*result.quality) : Json(nullptr)},
               {"sequences_per_gib", result.row.cache.is_enabled ? Json(result.sequences_per_gib) : Json(nullptr)},
               {"batch_tok_per_s", result.batch_tokens_per_s > 0 ? Json(result.batch_tokens_per_s) : Json(nullptr)}};
  if (!result.row.is_per_tensor_int8) return json;
  for (auto& [key, value] : json.items()) {
    if (std::ranges::find(kOfPerTensor, key) == std::end(kOfPerTensor)) value = nullptr;
  }
  return json;
}

// Columns of the table for spreadsheets, as places in a row of the JSON with its deepest run at "/deepest".
constexpr std::pair<const char*, const char*> kCsvColumns[] = {
    {"row", "/row"},
    {"is_cache_enabled", "/is_cache_enabled"},
    {"k_type", "/k_type"},
    {"v_type", "/v_type"},
    {"placement", "/placement"},
    {"block_size", "/block_size"},
    {"window_tokens", "/window_tokens"},
    {"num_sinks", "/num_sinks"},
    {"bytes_per_token", "/bytes_per_token"},
    {"peak_bytes", "/peak_bytes"},
    {"unused_bytes", "/unused_bytes"},
    {"first_token_ms", "/deepest/first_token_ms"},
    {"token_ms_p50", "/deepest/token_ms_p50"},
    {"token_ms_p95", "/deepest/token_ms_p95"},
    {"tok_per_s", "/deepest/tok_per_s"},
    {"tokens_computed", "/tokens_computed"},
    {"query_key_products", "/query_key_products"},
    {"theory_products", "/theory_products"},
    {"last_step_unmasked", "/last_step_unmasked"},
    {"kld_mean", "/quality/kld_mean/value"},
    {"kld_mean_error", "/quality/kld_mean/error"},
    {"same_top", "/quality/same_top/value"},
    {"same_top_error", "/quality/same_top/error"},
    {"nll_difference", "/quality/nll_difference/value"},
    {"nll_difference_error", "/quality/nll_difference/error"},
    {"sequences_per_gib", "/sequences_per_gib"},
    {"batch_tok_per_s", "/batch_tok_per_s"},
};

std::string CsvCell(const Json& row, const char* place) {
  const Json::json_pointer pointer(place);
  if (!row.contains(pointer) || row[pointer].is_null()) return "";
  const Json& value = row[pointer];
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace

Result<TableFormat> ParseTableFormat(std::string_view name) {
  if (name == "table") return TableFormat::kTerminal;
  if (name == "markdown") return TableFormat::kMarkdown;
  if (name == "csv") return TableFormat::kCsv;
  if (name == "json") return TableFormat::kJson;
  return Status::InvalidArgument("--format: '" + std::string(name) + "', expected table, markdown, csv or json");
}

std::string MarkdownTable(const Cells& cells) {
  std::string text;
  for (size_t i = 0; i < cells.size(); ++i) {
    text += "|";
    for (const std::string& cell : cells[i]) {
      text += " ";
      for (const char c : cell) text += c == '|' ? std::string("\\|") : std::string(1, c);
      text += " |";
    }
    text += "\n";
    if (i != 0) continue;
    text += "|";
    for (size_t column = 0; column < cells[0].size(); ++column) text += column == 0 ? "---|" : "---:|";
    text += "\n";
  }
  return text;
}

std::string CsvTable(const Cells& cells) {
  std::string text;
  for (const std::vector<std::string>& row : cells) {
    for (size_t i = 0; i < row.size(); ++i) {
      if (i != 0) text += ",";
      if (row[i].find_first_of(",\"\r\n") == std::string::npos) {
        text += row[i];
        continue;
      }
      text += '"';
      for (const char c : row[i]) text += c == '"' ? std::string("\"\"") : std::string(1, c);
      text += '"';
    }
    text += "\r\n";
  }
  return text;
}

uint64_t TheoryProducts(const CompareRun& run, const CompareResult& result) {
  const uint64_t context = ContextOf(result);
  if (context == 0) return 0;
  return HeadsOf(run) * (result.row.cache.is_enabled ? CachedProducts(context)
                                                     : UncachedProducts(result.stats.prompt_tokens, context));
}

uint64_t LastStepOf(const CompareRun& run, const CompareResult& result) {
  const uint64_t context = ContextOf(result);
  if (context == 0) return 0;
  const StepProducts step = LastStepProducts(context);
  return HeadsOf(run) * (result.row.cache.is_enabled ? step.unmasked_cached : step.unmasked_uncached);
}

Cells MainCells(const CompareRun& run) {
  Cells cells = {{"", "KV B/token", "peak", "unused", "first token ms", "ms p50", "p95", "tok/s", "K/V rows", "q.k",
                  "theory", "last step", "KLD", "same top", "dNLL"}};
  for (const CompareResult& result : run.results) {
    if (IsMeasured(result)) cells.push_back(MainRow(run, result));
  }
  return cells;
}

Cells BatchCells(const CompareRun& run) {
  Cells cells = {{"sequences of " + FormatCount(run.plan.batch_tokens) + " tokens", "per GiB",
                  "tok/s of " + std::to_string(run.plan.batch) + " together", "tok/s of each"}};
  for (const CompareResult& result : run.results) {
    if (!IsTimed(result) || !result.row.cache.is_enabled) continue;
    cells.push_back({result.row.name, FormatCount(result.sequences_per_gib), FormatRate(result.batch_tokens_per_s),
                     FormatRate(result.batch_tokens_per_s / std::max(run.plan.batch, 1u))});
  }
  return cells;
}

Cells CsvCells(const CompareRun& run) {
  Cells cells(1);
  for (const auto& [name, place] : kCsvColumns) cells[0].push_back(name);
  const Json json = CompareJson(run);
  for (Json row : json["rows"]) {
    if (!row["depths"].empty()) row["deepest"] = row["depths"].back();
    std::vector<std::string>& line = cells.emplace_back();
    for (const auto& [name, place] : kCsvColumns) line.push_back(CsvCell(row, place));
  }
  return cells;
}

std::string CompareText(const CompareRun& run, TableFormat format) {
  switch (format) {
    case TableFormat::kJson: return Dump(CompareJson(run));
    case TableFormat::kCsv: return CsvTable(CsvCells(run));
    case TableFormat::kMarkdown: {
      const std::string note = PerTensorNote(run);
      return Heading(run) + "\n\n" + MarkdownTable(MainCells(run)) + "\n" + MarkdownTable(BatchCells(run)) +
             (note.empty() ? "" : "\n" + note);
    }
    case TableFormat::kTerminal: break;
  }
  return Heading(run) + "\n\n" + FormatTable(MainCells(run)) + "\n" + FormatTable(BatchCells(run)) + "\n" + Notes(run);
}

Json CompareJson(const CompareRun& run) {
  Json rows = Json::array();
  for (const CompareResult& result : run.results) {
    if (IsMeasured(result)) rows.push_back(ToJson(run, result));
  }
  return {{"model", run.options.model_path},
          {"isa", run.options.isa},
          {"threads", run.options.num_threads},
          {"activations", ActivationModeName(run.options.activations)},
          {"length", run.plan.length},
          {"context", run.plan.ContextTokens(run.model)},
          {"quality_tokens", run.quality_tokens_done},
          {"batch", run.plan.batch},
          {"batch_tokens", run.plan.batch_tokens},
          {"rows", std::move(rows)}};
}

std::string CompareHtml(const CompareRun& run) {
  std::vector<PlotPoint> quality;
  std::vector<PlotSeries> latency;
  for (const CompareResult& result : run.results) {
    if (!IsMeasured(result)) continue;
    if (result.quality && result.row.cache.is_enabled) {
      quality.push_back(
          {static_cast<double>(result.peak_bytes) / (1 << 20), result.quality->kld_mean.value, result.row.name});
    }
    if (!IsTimed(result)) continue;
    PlotSeries& series = latency.emplace_back(PlotSeries{result.row.name, {}});
    for (const DepthResult& depth : result.depths) {
      series.points.push_back({static_cast<double>(depth.depth), MillisecondsAt(depth, 0.5), ""});
    }
  }
  std::string body = "<p>" + EscapeHtml(Heading(run)) + "</p>\n";
  body += ScatterPlotSvg({.title = "Memory against quality",
                          .x_label = "MiB held by " + FormatCount(run.plan.length) + " tokens",
                          .y_label = "KLD against f32, nats",
                          .is_x_log = false,
                          .is_y_log = true},
                         quality);
  body += LinePlotSvg({.title = "Latency against length",
                       .x_label = "tokens in the context",
                       .y_label = "ms per token (median)",
                       .is_x_log = false,
                       .is_y_log = true},
                      latency);
  body += HtmlTable(MainCells(run)) + "<p></p>\n" + HtmlTable(BatchCells(run));
  body += "<p>" + EscapeHtml(Notes(run)) + "</p>\n";
  return HtmlPage("Ways to keep keys and values", body);
}

}  // namespace kvern::cli
