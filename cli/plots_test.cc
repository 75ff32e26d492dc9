#include "cli/plots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace kvern::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// "" where every tag of `markup` is closed in order and no bare & or < stands in its text; else what is wrong.
std::string Fault(const std::string& markup) {
  std::vector<std::string> open;
  for (size_t at = 0; at < markup.size(); ++at) {
    if (markup[at] == '&') {
      const size_t end = markup.find(';', at);
      if (end == std::string::npos || end - at > 6) return "bare & at " + std::to_string(at);
    }
    if (markup[at] != '<') continue;
    const size_t end = markup.find('>', at);
    if (end == std::string::npos) return "open tag at " + std::to_string(at);
    const std::string tag = markup.substr(at + 1, end - at - 1);
    at = end;
    if (tag.starts_with("!")) continue;
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) return "quotes of <" + tag + ">";
    if (tag.ends_with("/")) continue;
    const std::string name = tag.substr(0, tag.find(' '));
    if (!name.starts_with("/")) {
      open.push_back(name);
    } else if (open.empty() || "/" + open.back() != name) {
      return "</" + name.substr(1) + "> closes nothing";
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? "" : "<" + open.back() + "> is never closed";
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(PlotsTest, LinePlotsAreWellFormedAndNameTheirSeries) {
  const std::string svg = LinePlotSvg(
      {.title = "a < b & \"c\"", .x_label = "x", .y_label = "y", .is_x_log = false, .is_y_log = true},
      {{"f16", {{1, 2, ""}, {2, 4, ""}}}, {"no <cache>", {{1, 0, ""}, {2, kNan, ""}, {3, 1e6, ""}}}, {"", {}}});

  EXPECT_EQ(Fault(svg), "");
  EXPECT_THAT(svg, HasSubstr(">f16</text>"));
  EXPECT_THAT(svg, HasSubstr("no &lt;cache&gt;"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

// The height of the text `label`.
double HeightOf(const std::string& svg, const std::string& label) {
  const size_t end = svg.find(">" + label + "</text>");
  const size_t at = svg.rfind(" y=\"", end);
  return std::stod(svg.substr(at + 4));
}

TEST(PlotsTest, LabelsThatWouldOverlapStandALineApartInsideTheFrame) {
  const std::string svg = ScatterPlotSvg({.title = "t", .x_label = "x", .y_label = "y"},
                                         {{1, 0, "one"}, {1, 0, "two"}, {1.01, 0.001, "three"}, {9, 5, "far"}});

  std::vector<double> heights = {HeightOf(svg, "one"), HeightOf(svg, "two"), HeightOf(svg, "three")};
  std::sort(heights.begin(), heights.end());
  EXPECT_GE(heights[1] - heights[0], 12.9);
  EXPECT_GE(heights[2] - heights[1], 12.9);
  EXPECT_LE(heights[2], 368);  // Where the axis is.
}

TEST(PlotsTest, ScatterPlotsAreWellFormedAndLabelTheirPoints) {
  const std::string svg = ScatterPlotSvg({.title = "t", .x_label = "x", .y_label = "y"},
                                         {{1, 1, "one"}, {1, 1, "two"}, {kNan, 3, "none"}, {-5, 0, "three"}});

  EXPECT_EQ(Fault(svg), "");
  EXPECT_THAT(svg, HasSubstr(">one</text>"));
  EXPECT_THAT(svg, HasSubstr(">three</text>"));
  EXPECT_THAT(svg, Not(HasSubstr(">none</text>")));
}

TEST(PlotsTest, PlotsOfNothingAreStillPictures) {
  EXPECT_EQ(Fault(LinePlotSvg({}, {})), "");
  EXPECT_EQ(Fault(ScatterPlotSvg({.title = "", .x_label = "", .y_label = "", .is_x_log = true}, {})), "");
  EXPECT_EQ(Fault(HeatMapSvg({})), "");
}

TEST(PlotsTest, HeatMapsHaveASquarePerValue) {
  const std::string svg = HeatMapSvg(
      {.title = "m", .row_name = "layer", .column_name = "head", .num_columns = 2, .values = {1, 2, kNan, 4}});

  EXPECT_EQ(Fault(svg), "");
  EXPECT_THAT(svg, HasSubstr("layer 0, head 1: 2<"));
  EXPECT_THAT(svg, HasSubstr("layer 1, head 1: 4<"));
  EXPECT_THAT(svg, HasSubstr("fill=\"red\""));
}

TEST(PlotsTest, PagesAreWellFormed) { EXPECT_EQ(Fault(HtmlPage("a & b", "<p>" + EscapeHtml("<&>\"") + "</p>\n")), ""); }

}  // namespace
}  // namespace kvern::cli
