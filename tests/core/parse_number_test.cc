#include "fovea/core/parse_number.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace fovea {
namespace {

TEST(ParseNumberTest, TakesAllOfTheText) {
  EXPECT_EQ(parse_number<int64_t>("-12"), -12);
  EXPECT_EQ(parse_number<uint64_t>("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(parse_number<double>("2.5e-3"), 2.5e-3);
}

TEST(ParseNumberTest, OrNoneOfIt) {
  for (const char* text : {"", "-", "+1", " 1", "1 ", "1.5", "1x", "0x1", "9223372036854775808"}) {
    EXPECT_EQ(parse_number<int64_t>(text), std::nullopt) << text;
  }
  EXPECT_EQ(parse_number<uint64_t>("-1"), std::nullopt);
  for (const char* text : {"", "1.5 ", "1,5", "1e999"}) {
    EXPECT_EQ(parse_number<double>(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace fovea
