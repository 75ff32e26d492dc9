// Pictures for reports: SVG that needs nothing else, and an HTML page around it. Colours follow the reader's light or
// dark theme.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvern::cli {

struct PlotPoint {
  double x = 0;
  double y = 0;
  std::string label;  // Of a scatter plot's point; unused by lines.
};

struct PlotSeries {
  std::string name;
  std::vector<PlotPoint> points;
};

struct PlotAxes {
  std::string title;
  std::string x_label;
  std::string y_label;
  bool is_x_log = false;  // Values of 0 and below then stand at the left or lower edge.
  bool is_y_log = false;
};

// One line per series, named at its right end. Values that are not finite are left out.
std::string LinePlotSvg(const PlotAxes& axes, const std::vector<PlotSeries>& series);
// One dot per point with its label beside it.
std::string ScatterPlotSvg(const PlotAxes& axes, const std::vector<PlotPoint>& points);

struct HeatMap {
  std::string title;
  std::string row_name;     // "layer"
  std::string column_name;  // "head"
  size_t num_columns = 0;
  std::vector<double> values;  // [rows][num_columns]; one that is not finite is marked.
};
std::string HeatMapSvg(const HeatMap& map);

// A page of its own with `body` (HTML) in it.
std::string HtmlPage(std::string_view title, std::string_view body);
std::string EscapeHtml(std::string_view text);

}  // namespace kvern::cli
