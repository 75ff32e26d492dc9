#include "cli/plots.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace kvern::cli {
namespace {

constexpr double kWidth = 720, kHeight = 420;
constexpr double kLeft = 76, kRight = 130, kTop = 40, kBottom = 52;
constexpr double kCell = 22;
constexpr const char* kColours[] = {"#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd",
                                    "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf"};

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value);
  return text;
}

std::string Coordinate(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", value);
  return text;
}

std::string Attribute(const char* name, double value) {
  return std::string(" ") + name + "=\"" + Coordinate(value) + "\"";
}

std::string Text(double x, double y, std::string_view text, const char* more = "") {
  return "<text" + Attribute("x", x) + Attribute("y", y) + " " + more + ">" + EscapeHtml(text) + "</text>\n";
}

std::string Line(double x1, double y1, double x2, double y2, const char* css) {
  return "<line" + Attribute("x1", x1) + Attribute("y1", y1) + Attribute("x2", x2) + Attribute("y2", y2) + " class=\"" +
         css + "\"/>\n";
}

std::string Begin(double width, double height, std::string_view title) {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + Coordinate(width) + " " + Coordinate(height) +
         "\"" + Attribute("width", width) + Attribute("height", height) + " role=\"img\">\n<title>" +
         EscapeHtml(title) +
         "</title>\n<style>text{font:12px sans-serif;fill:#333}.h{font-weight:bold;font-size:14px}.a{stroke:#666}"
         ".g{stroke:#8884}@media(prefers-color-scheme:dark){text{fill:#ddd}.a{stroke:#aaa}}</style>\n" +
         Text(width / 2, 22, title, "class=\"h\" text-anchor=\"middle\"");
}

// One axis: values to pixels, and where its ticks stand.
class Scale {
 public:
  Scale(bool is_log, double from, double to) : is_log_(is_log), from_(from), to_(to) {}

  void Include(double value) {
    if (!std::isfinite(value) || (is_log_ && value <= 0)) return;
    min_ = std::min(min_, value);
    max_ = std::max(max_, value);
  }
  // Rounds the ends after all values are in.
  void Finish() {
    if (min_ > max_) min_ = max_ = 1;
    if (is_log_) {
      low_ = std::floor(std::log10(min_) + 1e-9);
      high_ = std::max(std::ceil(std::log10(max_) - 1e-9), low_ + 1);
      return;
    }
    const double top = std::max(max_, 0.0), bottom = std::min(min_, 0.0);
    const double raw = std::max(top - bottom, std::numeric_limits<double>::min()) / 5;
    const double power = std::pow(10, std::floor(std::log10(raw)));
    step_ = power * (raw <= power ? 1 : raw <= 2 * power ? 2 : raw <= 5 * power ? 5 : 10);
    low_ = std::floor(bottom / step_) * step_;
    high_ = std::max(std::ceil(top / step_) * step_, low_ + step_);
  }
  double At(double value) const {
    const double position = is_log_ ? (value > 0 ? std::log10(value) : low_) : value;
    return from_ + (std::clamp(position, low_, high_) - low_) / (high_ - low_) * (to_ - from_);
  }
  std::vector<double> Ticks() const {
    std::vector<double> ticks;
    const double step = is_log_ ? std::max(1.0, std::ceil((high_ - low_) / 8)) : step_;
    for (double at = low_; at <= high_ + step / 1000; at += step) {
      ticks.push_back(is_log_ ? std::pow(10, at) : std::abs(at) < step / 1000 ? 0 : at);
    }
    return ticks;
  }

 private:
  const bool is_log_;
  const double from_, to_;  // Pixels.
  double min_ = std::numeric_limits<double>::infinity();
  double max_ = -std::numeric_limits<double>::infinity();
  double low_ = 0, high_ = 1, step_ = 1;  // Of log10 where is_log_.
};

struct Frame {
  Scale x, y;
  std::string svg;
};

Frame DrawFrame(const PlotAxes& axes, const std::vector<const std::vector<PlotPoint>*>& all) {
  Frame frame{Scale(axes.is_x_log, kLeft, kWidth - kRight), Scale(axes.is_y_log, kHeight - kBottom, kTop),
              Begin(kWidth, kHeight, axes.title)};
  for (const auto* points : all) {
    for (const PlotPoint& point : *points) {
      frame.x.Include(point.x);
      frame.y.Include(point.y);
    }
  }
  frame.x.Finish();
  frame.y.Finish();
  std::string& svg = frame.svg;
  for (const double tick : frame.x.Ticks()) {
    svg += Line(frame.x.At(tick), kTop, frame.x.At(tick), kHeight - kBottom, "g");
    svg += Text(frame.x.At(tick), kHeight - kBottom + 16, Number(tick), "text-anchor=\"middle\"");
  }
  for (const double tick : frame.y.Ticks()) {
    svg += Line(kLeft, frame.y.At(tick), kWidth - kRight, frame.y.At(tick), "g");
    svg += Text(kLeft - 6, frame.y.At(tick) + 4, Number(tick), "text-anchor=\"end\"");
  }
  svg += Line(kLeft, kHeight - kBottom, kWidth - kRight, kHeight - kBottom, "a");
  svg += Line(kLeft, kTop, kLeft, kHeight - kBottom, "a");
  svg += Text((kLeft + kWidth - kRight) / 2, kHeight - 14, axes.x_label, "text-anchor=\"middle\"");
  const std::string turned = "text-anchor=\"middle\" transform=\"rotate(-90 16 " + Coordinate(kHeight / 2) + ")\"";
  svg += Text(16, kHeight / 2, axes.y_label, turned.c_str());
  return frame;
}

std::string Dot(double x, double y, const char* colour) {
  return "<circle" + Attribute("cx", x) + Attribute("cy", y) + " r=\"4\" fill=\"" + colour + "\"/>\n";
}

bool IsFinite(const PlotPoint& point) { return std::isfinite(point.x) && std::isfinite(point.y); }

// Where labels begin; moves those that would overlap apart: from the bottom of the frame up, each as little as it must.
struct Label {
  double x, y;
};
void Spread(std::vector<Label>& labels) {
  constexpr double kLineHeight = 13, kLabelWidth = 120;
  std::vector<size_t> order(labels.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, [&](size_t a, size_t b) { return labels[a].y > labels[b].y; });
  for (size_t i = 0; i < order.size(); ++i) {
    Label& label = labels[order[i]];
    label.y = std::min(label.y, kHeight - kBottom - kLineHeight / 2);
    for (size_t j = 0; j < i; ++j) {  // Those below, the lowest first.
      const Label& other = labels[order[j]];
      if (std::abs(other.x - label.x) < kLabelWidth && label.y > other.y - kLineHeight &&
          label.y < other.y + kLineHeight) {
        label.y = other.y - kLineHeight;
      }
    }
  }
}

}  // namespace

std::string LinePlotSvg(const PlotAxes& axes, const std::vector<PlotSeries>& series) {
  std::vector<const std::vector<PlotPoint>*> all;
  for (const PlotSeries& one : series) all.push_back(&one.points);
  Frame frame = DrawFrame(axes, all);
  std::vector<Label> labels;
  for (size_t i = 0; i < series.size(); ++i) {
    const char* const colour = kColours[i % std::size(kColours)];
    std::string path;
    double end = kHeight - kBottom;
    for (const PlotPoint& point : series[i].points) {
      if (!IsFinite(point)) continue;
      end = frame.y.At(point.y);
      path += Coordinate(frame.x.At(point.x)) + "," + Coordinate(end) + " ";
      frame.svg += Dot(frame.x.At(point.x), end, colour);
    }
    frame.svg += "<polyline points=\"" + path + "\" fill=\"none\" stroke-width=\"2\" stroke=\"" + colour + "\"/>\n";
    labels.push_back({kWidth - kRight + 8, end});
  }
  Spread(labels);
  for (size_t i = 0; i < series.size(); ++i) {
    const std::string style = std::string("style=\"fill:") + kColours[i % std::size(kColours)] + "\"";
    frame.svg += Text(labels[i].x, labels[i].y + 4, series[i].name, style.c_str());
  }
  return frame.svg + "</svg>\n";
}

std::string ScatterPlotSvg(const PlotAxes& axes, const std::vector<PlotPoint>& points) {
  Frame frame = DrawFrame(axes, {&points});
  std::vector<Label> labels;
  for (const PlotPoint& point : points) {
    labels.push_back(IsFinite(point) ? Label{frame.x.At(point.x) + 8, frame.y.At(point.y)} : Label{});
  }
  Spread(labels);
  for (size_t i = 0; i < points.size(); ++i) {
    if (!IsFinite(points[i])) continue;
    const double x = frame.x.At(points[i].x);
    frame.svg += Dot(x, frame.y.At(points[i].y), kColours[i % std::size(kColours)]);
    frame.svg += Text(labels[i].x, labels[i].y + 4, points[i].label);
  }
  return frame.svg + "</svg>\n";
}

std::string HeatMapSvg(const HeatMap& map) {
  const size_t num_rows = map.num_columns == 0 ? 0 : map.values.size() / map.num_columns;
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const double value : map.values) {
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  const double width = std::max(260.0, 90 + kCell * static_cast<double>(map.num_columns));
  std::string svg = Begin(width, 80 + kCell * static_cast<double>(num_rows), map.title);
  svg += Text(width / 2, 40, low <= high ? Number(low) + " (light) to " + Number(high) + " (dark)" : "no values",
              "text-anchor=\"middle\"");
  for (size_t row = 0; row < num_rows; ++row) {
    const double y = 52 + kCell * static_cast<double>(row);
    svg += Text(66, y + 15, map.row_name + " " + std::to_string(row), "text-anchor=\"end\"");
    for (size_t column = 0; column < map.num_columns; ++column) {
      const double value = map.values[row * map.num_columns + column];
      const double share = high > low ? (value - low) / (high - low) : 0;
      // From pale yellow over green to dark blue; red for what is no number.
      const std::string colour =
          std::isfinite(value) ? "hsl(" + Coordinate(60 + 180 * share) + " 70% " + Coordinate(88 - 60 * share) + "%)"
                               : "red";
      svg += "<rect" + Attribute("x", 72 + kCell * static_cast<double>(column)) + Attribute("y", y) +
             Attribute("width", kCell - 2) + Attribute("height", kCell - 2) + " fill=\"" + colour + "\"><title>" +
             EscapeHtml(map.row_name + " " + std::to_string(row) + ", " + map.column_name + " " +
                        std::to_string(column) + ": " + Number(value)) +
             "</title></rect>\n";
    }
  }
  return svg + "</svg>\n";
}

std::string EscapeHtml(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      default: escaped += c;
    }
  }
  return escaped;
}

std::string HtmlPage(std::string_view title, std::string_view body) {
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<title>" + EscapeHtml(title) +
         "</title>\n<style>body{font:14px sans-serif;margin:2em;color-scheme:light dark}"
         "table{border-collapse:collapse}td,th{padding:2px 8px;border-bottom:1px solid #8884;text-align:right}"
         "td:first-child,th:first-child{text-align:left}svg{margin:8px;vertical-align:top}</style>\n</head>\n<body>\n"
         "<h1>" +
         EscapeHtml(title) + "</h1>\n" + std::string(body) + "</body>\n</html>\n";
}

}  // namespace kvern::cli
