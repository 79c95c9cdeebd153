#include "fovea/data/order/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "fovea/core/error.h"

namespace fovea::data {
namespace {

std::vector<int64_t> order_of(int64_t size, uint64_t seed, int64_t epoch) {
  const Permutation permutation(size, seed, epoch);
  std::vector<int64_t> order(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) order[i] = permutation(i);
  return order;
}

TEST(PermutationTest, IsABijectionForEverySize) {
  for (int64_t size = 1; size <= 300; ++size) {
    auto order = order_of(size, 42, size % 7);
    std::sort(order.begin(), order.end());
    for (int64_t i = 0; i < size; ++i) ASSERT_EQ(order[i], i) << "size " << size;
  }
}

TEST(PermutationTest, StaysInRangeAndIsInjectiveOnHugeSets) {
  const int64_t size = (int64_t{1} << 40) + 12345;
  const Permutation permutation(size, 1, 2);
  std::vector<int64_t> images;
  for (int64_t i = 0; i < 2000; ++i) images.push_back(permutation(size - 1 - i));
  std::sort(images.begin(), images.end());
  EXPECT_GE(images.front(), 0);
  EXPECT_LT(images.back(), size);
  EXPECT_EQ(std::adjacent_find(images.begin(), images.end()), images.end());
}

TEST(PermutationTest, SeedAndEpochChangeTheOrder) {
  const auto order = order_of(1000, 42, 0);
  EXPECT_EQ(order, order_of(1000, 42, 0));
  EXPECT_NE(order, order_of(1000, 42, 1));
  EXPECT_NE(order, order_of(1000, 43, 0));
}

// Each element is as often in each place: chi-square with 24 degrees of freedom, rejected at about
// 1e-6.
TEST(PermutationTest, PlacesAreUniform) {
  constexpr int64_t kSize = 25;
  constexpr int64_t kDraws = 5000;
  for (const int64_t place : {0, 7, 24}) {
    std::vector<double> counts(kSize);
    for (int64_t epoch = 0; epoch < kDraws; ++epoch)
      counts[Permutation(kSize, 9, epoch)(place)] += 1;
    double chi_square = 0;
    const double expected = static_cast<double>(kDraws) / kSize;
    for (const double count : counts)
      chi_square += (count - expected) * (count - expected) / expected;
    EXPECT_LT(chi_square, 75.0) << "place " << place;
  }
}

// Neighbours do not stay neighbours: the mean distance of a random order is a third of its length.
TEST(PermutationTest, NeighboursAreFarApart) {
  const auto order = order_of(60000, 3, 1);
  double distance = 0;
  for (size_t i = 1; i < order.size(); ++i)
    distance += std::abs(static_cast<double>(order[i] - order[i - 1]));
  distance /= static_cast<double>(order.size() - 1);
  EXPECT_NEAR(distance, 20000.0, 400.0);
}

TEST(PermutationTest, RefusesAnEmptySet) { EXPECT_THROW(Permutation(0, 1, 1), Error); }

}  // namespace
}  // namespace fovea::data
