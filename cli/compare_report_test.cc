#include "cli/compare_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/cache_theory.h"

namespace kvern::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// 2 layers of 3 heads: prompts of 100 tokens, 3 more decoded.
CompareRun SmallRun() {
  CompareRun run;
  run.plan.length = 100;
  run.plan.batch = 4;
  run.model.num_layers = 2;
  run.model.num_heads = 3;
  run.model.context_tokens = 4096;
  run.options.model_path = "m.gguf";
  run.options.num_threads = 2;
  for (const bool is_enabled : {false, true}) {
    CompareResult result;
    result.row.name = is_enabled ? "f16" : "no cache";
    result.row.cache.is_enabled = is_enabled;
    result.bytes_per_token = 1000;
    result.depths = {{50, 0.1, {0.01, 0.02}}, {100, 0.2, {0.01, 0.02, 0.03}}};
    result.stats.prompt_tokens = 100;
    result.stats.generated_tokens = 4;
    result.stats.tokens_computed = is_enabled ? 103 : UncachedTokens(100, 103);
    result.stats.query_key_products = 6 * (is_enabled ? CachedProducts(103) : UncachedProducts(100, 103));
    result.peak_bytes = 128000;
    result.unused_bytes = 25000;
    result.sequences_per_gib = 537;
    result.batch_tokens_per_s = is_enabled ? 200 : 0;
    run.results.push_back(result);
  }
  run.results.emplace_back().row.name = "not yet";
  return run;
}

// With the recipe of one scale per tensor, which has quality and no times.
CompareRun RunWithPerTensorRow() {
  CompareRun run = SmallRun();
  CompareResult result;
  result.row.name = "int8 per tensor";
  result.row.is_per_tensor_int8 = true;
  result.bytes_per_token = 500;
  result.peak_bytes = 51200;
  QualityNumbers quality;
  quality.kld_mean = {0.25, 0.5};
  quality.same_top.value = 0.9;
  quality.nll_difference = {0.125, 0.25};
  result.quality = quality;
  run.results.push_back(result);
  return run;
}

TEST(CompareReportTest, OneScalePerTensorHasBytesAndQualityAndSaysWhyNoTimes) {
  const CompareRun run = RunWithPerTensorRow();

  EXPECT_THAT(MainCells(run)[3], ElementsAre("int8 per tensor", "500", "50.0 KiB", "-", "-", "-", "-", "-", "-", "-",
                                             "-", "-", "0.25 +- 0.5", "90.00 %", "0.125 +- 0.25"));
  EXPECT_THAT(BatchCells(run), SizeIs(2));
  for (const TableFormat format : {TableFormat::kTerminal, TableFormat::kMarkdown}) {
    EXPECT_THAT(CompareText(run, format), HasSubstr("no cache can be kept so"));
    EXPECT_THAT(CompareText(SmallRun(), format), Not(HasSubstr("no cache can be kept so")));
  }
  EXPECT_THAT(CompareText(run, TableFormat::kCsv), HasSubstr("int8 per tensor,,,,,,,,500,51200,,,,,,,,,,0.25,0.5,"));
}

TEST(CompareReportTest, OneScalePerTensorHasNullsInJsonAndAPointInOnePlot) {
  const CompareRun run = RunWithPerTensorRow();

  const auto row = CompareJson(run)["rows"][2];
  const std::string html = CompareHtml(run);

  EXPECT_EQ(row["row"], "int8 per tensor");
  EXPECT_EQ(row["bytes_per_token"], 500);
  EXPECT_EQ(row["peak_bytes"], 51200);
  EXPECT_EQ(row["quality"]["kld_mean"]["value"], 0.25);
  for (const char* key : {"k_type", "placement", "unused_bytes", "tokens_computed", "sequences_per_gib"}) {
    EXPECT_TRUE(row[key].is_null()) << key;
  }
  EXPECT_THAT(row["depths"], SizeIs(0));
  const size_t latency = html.find("Latency against length");
  EXPECT_LT(html.find(">int8 per tensor<"), latency);
  EXPECT_EQ(html.find("int8 per tensor", latency), html.find("int8 per tensor</td>", latency));
}

TEST(CompareReportTest, RowsThatWereMeasuredStandInTheTable) {
  const Cells cells = MainCells(SmallRun());

  ASSERT_THAT(cells, SizeIs(3));
  EXPECT_THAT(cells[2], ElementsAre("f16", "1,000", "125.0 KiB", "24.4 KiB", "200.00", "20.00", "30.00", "50.0", "103",
                                    "32,136", "as theory", "1,230", "-", "-", "-"));
  EXPECT_EQ(cells[1][11], "63,654");  // 6 x 103^2
  for (const auto& row : cells) EXPECT_THAT(row, SizeIs(cells[0].size()));
}

TEST(CompareReportTest, LessThanTheoryIsAShareOfIt) {
  CompareRun run = SmallRun();
  run.results[1].stats.query_key_products /= 2;

  EXPECT_EQ(MainCells(run)[2][10], "0.500 x");
}

TEST(CompareReportTest, BatchesHaveNoRowWithoutTheCache) {
  const Cells cells = BatchCells(SmallRun());

  ASSERT_THAT(cells, SizeIs(2));
  EXPECT_THAT(cells[1], ElementsAre("f16", "537", "200", "50.0"));
}

TEST(CompareReportTest, MarkdownHasARuleUnderItsHead) {
  EXPECT_EQ(MarkdownTable({{"a", "b"}, {"x|y", "1"}}), "| a | b |\n|---|---:|\n| x\\|y | 1 |\n");
}

TEST(CompareReportTest, CsvQuotesWhatNeedsIt) {
  EXPECT_EQ(CsvTable({{"a", "b,c"}, {"d\"e", "f"}}), "a,\"b,c\"\r\n\"d\"\"e\",f\r\n");
}

TEST(CompareReportTest, CsvIsOneTableOfPlainNumbers) {
  const Cells cells = CsvCells(SmallRun());

  ASSERT_THAT(cells, SizeIs(3));
  EXPECT_THAT(cells[0][0], "row");
  EXPECT_THAT(cells[2], ElementsAre("f16", "true", "f16", "f16", "paged", "64", "0", "0", "1000", "128000", "25000",
                                    "200.0", "20.0", "30.0", "50.0", "103", "32136", "32136", "1230", "", "", "", "",
                                    "", "", "537", "200.0"));
  EXPECT_THAT(cells[1].back(), "");  // Without the cache nothing decodes together.
  for (const auto& row : cells) EXPECT_THAT(row, SizeIs(cells[0].size()));
}

TEST(CompareReportTest, JsonHasNumbersAndNullsWhereNothingWasMeasured) {
  const auto json = CompareJson(SmallRun());

  ASSERT_THAT(json["rows"], SizeIs(2));
  EXPECT_EQ(json["rows"][1]["row"], "f16");
  EXPECT_EQ(json["rows"][1]["query_key_products"], json["rows"][1]["theory_products"]);
  EXPECT_EQ(json["rows"][1]["depths"][1]["token_ms_p95"], 30.0);
  EXPECT_TRUE(json["rows"][1]["quality"].is_null());
  EXPECT_TRUE(json["rows"][0]["batch_tok_per_s"].is_null());
  EXPECT_EQ(json["rows"][1]["batch_tok_per_s"], 200);
}

TEST(CompareReportTest, ThePageHasBothPlotsAndNothingFromOutside) {
  const std::string html = CompareHtml(SmallRun());

  EXPECT_THAT(html, HasSubstr("Memory against quality"));
  EXPECT_THAT(html, HasSubstr("Latency against length"));
  EXPECT_THAT(html, HasSubstr("<td>f16</td>"));
  EXPECT_THAT(html, Not(HasSubstr("src=")));
  EXPECT_THAT(html, Not(HasSubstr("href=")));
}

TEST(CompareReportTest, FormatsHaveNames) {
  EXPECT_EQ(ParseTableFormat("csv").value(), TableFormat::kCsv);
  EXPECT_THAT(ParseTableFormat("xml").status().message(), HasSubstr("markdown"));
}

}  // namespace
}  // namespace kvern::cli
