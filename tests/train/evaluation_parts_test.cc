#include "fovea/train/evaluate/evaluation_parts.h"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "fovea/core/error.h"

namespace fovea::train {
namespace {

struct KeptSample {
  int64_t index = 0;
};

TEST(EvaluationPartsTest, ValuesArriveAsTheyWere) {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto numbers = at::tensor({0.1, -infinity, std::nan(""), 1e-310}, at::kDouble).view({2, 2});
  const auto integers = at::tensor({int64_t{1} << 60, int64_t{-7}}, at::kLong);
  const std::string bytes("\xff\0png", 5);
  const nlohmann::json sent = {{"numbers", json_of(numbers)},
                               {"integers", json_of(integers)},
                               {"none", json_of({})},
                               {"bytes", json_of_bytes(bytes)},
                               {"third", 1.0 / 3},
                               {"lowest", -infinity}};
  const auto found = json_from_bytes(to_bytes(sent));
  const auto same = tensor_of(found.at("numbers"));
  EXPECT_EQ(same.sizes(), numbers.sizes());
  EXPECT_EQ(std::memcmp(same.const_data_ptr(), numbers.const_data_ptr(), numbers.nbytes()), 0);
  EXPECT_TRUE(tensor_of(found.at("integers")).equal(integers));
  EXPECT_FALSE(tensor_of(found.at("none")).defined());
  EXPECT_EQ(bytes_of(found.at("bytes")), bytes);
  EXPECT_EQ(found.at("third").get<double>(), 1.0 / 3);
  EXPECT_EQ(found.at("lowest").get<double>(), -infinity);
  EXPECT_THROW(json_of(at::tensor({1.0f})), Error);
}

TEST(EvaluationPartsTest, KeptSamplesAreSpreadOverTheDataSet) {
  std::vector<KeptSample> all;
  for (int64_t i = 0; i < 10; ++i) all.push_back({.index = (i * 3) % 10});
  const auto few = spread_evenly(all, 5);
  ASSERT_EQ(few.size(), 5u);
  for (size_t i = 0; i < few.size(); ++i) EXPECT_EQ(few[i].index, static_cast<int64_t>(2 * i));
  EXPECT_EQ(spread_evenly(all, 20).size(), 10u);
}

}  // namespace
}  // namespace fovea::train
