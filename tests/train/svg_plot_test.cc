#include "fovea/train/report/svg_plot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "fovea/core/error.h"
#include "tests/support/html_checker.h"

namespace fovea::train {
namespace {

constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();

Curve decay(int steps) {
  Curve curve;
  for (int i = 1; i <= steps; ++i) curve.add(i, std::exp(-0.01 * i) + (i % 7) * 0.01);
  return curve;
}

support::HtmlSummary checked(const html::Markup& markup) {
  auto summary = support::check_html(html::page("t", markup));
  EXPECT_EQ(summary.fault, "");
  return summary;
}

TEST(LineChartTest, DrawsRawAndSmoothedLinesWithLegendAndAxis) {
  const auto chart = line_chart({.title = "Loss"}, {{"train", decay(500), 0, true},
                                                    {"val", {{100, 500}, {0.5, 0.1}}, 1, false}});
  const auto summary = checked(chart);
  EXPECT_EQ(summary.tags.at("polyline"), 3);
  EXPECT_NE(summary.text.find("train"), std::string::npos);
  EXPECT_NE(summary.text.find("Loss"), std::string::npos);
  EXPECT_NE(chart.html.find("aria-label=\"Loss over step."), std::string::npos);
}

TEST(LineChartTest, EscapesForeignNames) {
  const auto chart =
      line_chart({.title = "<b>"}, {{"</svg><script>x</script>", decay(3), 0, false}});
  const auto summary = checked(chart);
  EXPECT_EQ(summary.tags.at("script"), 1);  // the page's own
  EXPECT_EQ(summary.tags.count("b"), 0u);
}

TEST(LineChartTest, MarksWhatIsNotFiniteAndLeavesOutWhatHasNoValue) {
  auto curve = decay(30);
  curve.y[10] = kNoValue;
  curve.y[20] = std::numeric_limits<double>::infinity();
  const auto chart =
      line_chart({.title = "Loss"},
                 {{"train", curve, 0, true}, {"val", {{1, 2}, {kNoValue, kNoValue}}, 1, false}});
  checked(chart);
  EXPECT_NE(chart.html.find("train (2 not finite, marked red)"), std::string::npos);
  EXPECT_EQ(chart.html.find("val"), std::string::npos);
  EXPECT_EQ(chart.html.find("nan"), std::string::npos);
  EXPECT_EQ(chart.html.find("inf\""), std::string::npos);
}

TEST(LineChartTest, IsEmptyWithoutValues) {
  EXPECT_TRUE(line_chart({.title = "a"}, {}).empty());
  EXPECT_TRUE(line_chart({.title = "a"}, {{"b", {}, 0, false}}).empty());
  EXPECT_TRUE(line_chart({.title = "a"}, {{"b", {{1}, {kNoValue}}, 0, true}}).empty());
}

TEST(LineChartTest, HoldsForSinglePointsConstantsAndHugeValues) {
  for (const auto& curve :
       {Curve{{1}, {0}}, Curve{{0}, {5}}, Curve{{1, 2}, {3, 3}}, Curve{{1, 2}, {1e300, -1e300}},
        Curve{{1, 2}, {1e-300, 2e-300}}, Curve{{1, 1e15}, {0, 100}}}) {
    const auto chart = line_chart({.title = "a", .is_percent = true}, {{"b", curve, 0, false}});
    checked(chart);
    EXPECT_FALSE(chart.empty());
    EXPECT_EQ(chart.html.find("nan"), std::string::npos);
  }
}

// As a run that diverges, or a file made to harm, has them.
TEST(LineChartTest, HoldsForValuesWhoseRangeIsNoNumber) {
  for (const double value : {1e308, -1e308, 1e300}) {
    for (const double other : {1.0, -1e308, 1e-300}) {
      const Curve curve = {{1, 2, 3}, {1, value, other}};
      const auto chart = line_chart({.title = "a", .may_be_log = true}, {{"b", curve, 0, true}});
      checked(chart);
      EXPECT_FALSE(chart.empty());
      EXPECT_EQ(chart.html.find("nan"), std::string::npos) << value << " " << other;
      EXPECT_EQ(chart.html.find("inf"), std::string::npos) << value << " " << other;
    }
  }
}

TEST(LineChartTest, TurnsLogarithmicForASpikeWhereAllowed) {
  auto curve = decay(100);
  curve.y[3] = 1e6;
  const std::vector<PlotSeries> series = {{"a", curve, 0, false}};
  EXPECT_NE(line_chart({.title = "a", .may_be_log = true}, series).html.find("(logarithmic)"),
            std::string::npos);
  EXPECT_EQ(line_chart({.title = "a"}, series).html.find("(logarithmic)"), std::string::npos);
}

TEST(LineChartTest, StaysSmallForAMillionPoints) {
  const auto chart = line_chart({.title = "a"}, {{"b", decay(1000000), 0, true}});
  EXPECT_LT(chart.html.size(), 50000u);
}

TEST(HeatMapTest, WritesCountsAndNames) {
  const auto map = heat_map({"Confusion matrix", {"cat", "<dog>"}, {{90, 10}, {0, 7}}});
  const auto summary = checked(map);
  EXPECT_EQ(summary.tags.at("title"), 1 + 3);  // the page's, and one for each cell above zero
  EXPECT_NE(summary.text.find("<dog>"), std::string::npos);
  EXPECT_NE(summary.text.find("cat taken for <dog>: 10 of 100 (10.0 %)"), std::string::npos);
  EXPECT_NE(map.html.find(">90</text>"), std::string::npos);
}

// Names of columns lean to the right, the last one beyond its cell.
TEST(HeatMapTest, HasRoomForALongNameOfTheLastColumn) {
  const auto width_of = [](const std::string& last) {
    const auto html = heat_map({"m", {"a_long_name_here", last}, {{1, 0}, {0, 1}}}).html;
    const auto at = html.find("viewBox=\"0 0 ");
    return std::stod(html.substr(at + 13));
  };
  EXPECT_GE(width_of("another_long_one"), 2 * 44 + 18 + 16 * 6.6 + 0.7 * 16 * 6.6);
}

TEST(HeatMapTest, RefusesAMatrixThatIsNotSquare) {
  EXPECT_THROW(heat_map({"a", {"x", "y"}, {{1, 2}}}), Error);
  EXPECT_THROW(heat_map({"a", {"x"}, {{1, 2}}}), Error);
}

}  // namespace
}  // namespace fovea::train
