#include "fovea/core/number_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace fovea {
namespace {

TEST(NumberTextTest, WritesNumbersForPeople) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(format_percent(91.256), "91.26 %");
  EXPECT_EQ(format_percent(nan), "\xE2\x80\x93");
  EXPECT_EQ(format_count(1234567), "1,234,567");
  EXPECT_EQ(format_count(-1000), "-1,000");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_bytes(812.0 * (1 << 20)), "812 MiB");
  EXPECT_EQ(format_bytes(1.5 * (1 << 30)), "1.5 GiB");
  EXPECT_EQ(format_significant(0.00001234), "1.234e-05");
  EXPECT_EQ(format_fixed(1.0 / 3, 2), "0.33");
}

}  // namespace
}  // namespace fovea
