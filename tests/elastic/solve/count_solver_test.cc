#include "fovea/elastic/solve/count_solver.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace fovea::elastic {
namespace {

// Of all choices of so many devices that hold the samples.
double least_of_all(const std::vector<KindOffer>& offers, size_t kind, int64_t devices,
                    int64_t samples) {
  if (kind == offers.size()) {
    return devices == 0 && samples <= 0 ? 0 : std::numeric_limits<double>::infinity();
  }
  double least = std::numeric_limits<double>::infinity();
  const auto& offer = offers[kind];
  const auto most = offer.capacity > 0 ? std::min(offer.count, devices) : 0;
  for (int64_t n = 0; n <= most; ++n) {
    least = std::min(least,
                     static_cast<double>(n) * offer.price +
                         least_of_all(offers, kind + 1, devices - n, samples - n * offer.capacity));
  }
  return least;
}

TEST(CountSolverTest, TheCheapestChoiceIsThatOfAll) {
  std::mt19937_64 random(3);
  int64_t possible = 0, tight = 0;
  for (int64_t i = 0; i < 2000; ++i) {
    std::vector<KindOffer> offers(1 + random() % (i % 10 == 0 ? 10 : 4));
    for (auto& offer : offers) {
      offer = {.count = static_cast<int64_t>(random() % (i % 10 == 0 ? 3 : 7)),
               .capacity = static_cast<int64_t>(random() % 9),
               .price = 0.25 * static_cast<double>(1 + random() % 8)};
    }
    const auto devices = static_cast<int64_t>(1 + random() % 10);
    const auto samples = static_cast<int64_t>(1 + random() % 40);
    const double expected = least_of_all(offers, 0, devices, samples);
    const double bound = price_bound(offers, devices, samples);
    const auto choice =
        cheapest_choice(offers, devices, samples, std::numeric_limits<double>::infinity());
    ASSERT_EQ(choice.has_value(), std::isfinite(expected));
    ASSERT_EQ(std::isfinite(bound), std::isfinite(expected));
    if (!choice) continue;
    ++possible;
    EXPECT_NEAR(price_of(offers, *choice), expected, 1e-9);
    EXPECT_LE(bound, expected + 1e-9);
    tight += bound > expected - 1e-9;
    EXPECT_FALSE(cheapest_choice(offers, devices, samples, expected).has_value());
  }
  EXPECT_GT(possible, 400);
  EXPECT_GT(tight, 200);  // the bound is often the price itself
}

}  // namespace
}  // namespace fovea::elastic
