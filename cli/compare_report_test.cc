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
