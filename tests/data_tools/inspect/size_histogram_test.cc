#include "fovea/data_tools/inspect/size_histogram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fovea::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string page_text(const html::Markup& markup) { return html::page("sizes", markup); }

TEST(SizeHistogramTest, BarsAreOfARoundWidthAndHoldEverySample) {
  const std::map<Extent, int64_t> few = {{{1, 7, 9}, 2}, {{1, 8, 9}, 1}, {{1, 10, 9}, 4}};
  const auto heights = side_histogram(few, 1);
  EXPECT_EQ(heights.low, 7);
  EXPECT_EQ(heights.step, 1);
  EXPECT_THAT(heights.counts, ElementsAre(2, 1, 0, 4));
  const std::map<Extent, int64_t> many = {{{1, 1, 33}, 1}, {{1, 1, 500}, 5}, {{1, 1, 4288}, 3}};
  const auto widths = side_histogram(many, 2);
  EXPECT_EQ(widths.low, 0);
  EXPECT_EQ(widths.step, 200);
  ASSERT_EQ(widths.counts.size(), 22u);
  EXPECT_EQ(widths.counts[0], 1);
  EXPECT_EQ(widths.counts[2], 5);
  EXPECT_EQ(widths.counts[21], 3);
}

TEST(SizeHistogramTest, SidesThatDoNotDifferAreNotDrawn) {
  const auto drawn = page_text(size_histograms({{{1, 7, 9}, 2}, {{1, 8, 9}, 1}}, "train"));
  EXPECT_THAT(drawn, HasSubstr("train: height"));
  EXPECT_THAT(drawn, HasSubstr("7: 2 samples"));
  EXPECT_THAT(drawn, HasSubstr("8: 1 sample<"));
  EXPECT_THAT(drawn, Not(HasSubstr("train: width")));
  EXPECT_TRUE(size_histograms({{{1, 7, 9}, 2}}, "train").empty());
}

}  // namespace
}  // namespace fovea::data
