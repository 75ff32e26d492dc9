#include "cli/format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvern::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(FormatCountOfTest, OneIsOne) {
  EXPECT_EQ(FormatCountOf(0, "turn"), "0 turns");
  EXPECT_EQ(FormatCountOf(1, "turn"), "1 turn");
  EXPECT_EQ(FormatCountOf(1200, "turn"), "1,200 turns");
}

TEST(ParseBytesTest, ReadsNumbersWithAndWithoutSuffix) {
  EXPECT_EQ(*ParseBytes("512"), 512u);
  EXPECT_EQ(*ParseBytes("64KiB"), 64u * 1024);
  EXPECT_EQ(*ParseBytes("1.5 GiB"), 3u << 29);
  EXPECT_EQ(*ParseBytes("2mib"), 2u << 20);
  EXPECT_EQ(*ParseBytes("0"), 0u);
}

TEST(ParseBytesTest, RefusesWhatIsNoSizeAndShowsIt) {
  for (const char* text : {"", "x", "3x", "-1", "1e30", "nan", "inf", "99999999999GiB", "1 KB"}) {
    const Result<uint64_t> bytes = ParseBytes(text);

    ASSERT_FALSE(bytes.ok()) << text;
    EXPECT_THAT(bytes.status().message(), HasSubstr(text));
  }
}

TEST(ParseCountsTest, ReadsListsAndNone) {
  EXPECT_THAT(*ParseCounts("128,512"), ElementsAre(128u, 512u));
  EXPECT_THAT(*ParseCounts("0"), ElementsAre(0u));
  EXPECT_THAT(*ParseCounts("none"), IsEmpty());
}

TEST(ParseRangesTest, ReadsPositionsAndRangesWithTheirEnds) {
  const std::vector<TokenRange> ranges = *ParseRanges("100-149,300,0-0");

  ASSERT_EQ(ranges.size(), 3u);
  EXPECT_EQ(ranges[0].begin, 100u);
  EXPECT_EQ(ranges[0].end, 150u);
  EXPECT_EQ(ranges[1].begin, 300u);
  EXPECT_EQ(ranges[1].end, 301u);
  EXPECT_EQ(ranges[2].end, 1u);
}

TEST(ParseRangesTest, RefusesAnythingElse) {
  for (const char* text : {"", ",", "1,", "1-", "-1", "5-4", "1--2", "1-2-3", "a", "1 - 2", "4294967295"})
    EXPECT_FALSE(ParseRanges(text).ok()) << text;
}

TEST(ParseCountsTest, RefusesAnythingElse) {
  for (const char* text : {"", ",", "1,", "1;2", "1, 2", "-1", "4294967296"})
    EXPECT_FALSE(ParseCounts(text).ok()) << text;
}

TEST(FormatTest, SizesAndCountsAreShortForPeople) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(uint64_t{5} << 40), "5.0 TiB");
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1234567), "1,234,567");
}

TEST(FormatTest, RatesThatWereNotMeasuredAreADash) {
  EXPECT_EQ(FormatRate(0), "-");
  EXPECT_EQ(FormatRate(1234.4), "1234");
  EXPECT_EQ(FormatRate(78.26), "78.3");
  EXPECT_EQ(FormatPercent(0), "-");
  EXPECT_EQ(FormatPercent(0.361), "36.1 %");
}

TEST(EscapeBytesTest, KeepsCharactersAndShowsOtherBytes) {
  EXPECT_EQ(EscapeBytes("a b\n\t\\"), "a b\\n\\t\\\\");
  EXPECT_EQ(EscapeBytes("\xC3\xA9"), "\xC3\xA9");
  EXPECT_EQ(EscapeBytes("\xC3"), "\\xc3");
  EXPECT_EQ(EscapeBytes(std::string_view("\0\x7F", 2)), "\\x00\\x7f");
}

TEST(IsUtf8Test, RefusesOverlongFormsSurrogatesAndCutCharacters) {
  EXPECT_TRUE(IsUtf8("plain \xF0\x9F\x98\x80"));
  EXPECT_TRUE(IsUtf8(""));
  EXPECT_FALSE(IsUtf8("\xC0\x80"));
  EXPECT_FALSE(IsUtf8("\xE0\x80\x80"));
  EXPECT_FALSE(IsUtf8("\xED\xA0\x80"));
  EXPECT_FALSE(IsUtf8("\xF4\x90\x80\x80"));
  EXPECT_FALSE(IsUtf8("\xF0\x9F\x98"));
}

TEST(FormatTableTest, AlignsTheFirstColumnLeftAndTheOthersRight) {
  EXPECT_EQ(FormatTable({{"", "ab"}, {"row", "1"}}), "     ab\nrow   1\n");
  EXPECT_EQ(FormatTable({{"only"}, {""}}), "only\n\n");
}

}  // namespace
}  // namespace kvern::cli
