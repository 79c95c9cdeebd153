#include "fovea/core/philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "fovea/core/philox_blocks.h"

namespace fovea {
namespace {

// Random123's kat_vectors, lines `philox4x32 10`.
TEST(PhiloxTest, AgreesWithThePublishedKnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, BlocksSideBySideAreThoseOneByOne) {
  const PhiloxKey key = {0xa4093822, 0x299f31d0};
  for (const uint64_t first : {uint64_t{0}, uint64_t{0xffffffff} - 3, uint64_t{1} << 40}) {
    std::vector<uint32_t> words(4 * kPhiloxBlocks);
    const auto low = static_cast<uint32_t>(first), high = static_cast<uint32_t>(first >> 32);
    philox_blocks(key, {low, high, 7, 9}, words.data());
    for (uint64_t b = 0; b < kPhiloxBlocks; ++b) {
      const uint64_t block = first + b;
      const auto expected =
          philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 7, 9}, key);
      for (size_t i = 0; i < 4; ++i) EXPECT_EQ(words[4 * b + i], expected[i]) << block;
    }
  }
}

TEST(PhiloxTest, IsAConstantExpression) {
  static_assert(philox4x32({0, 0, 0, 0}, {0, 0})[0] == 0x6627e8d5);
  static_assert(philox_key(1, "a") != philox_key(2, "a"));
}

// Weights, orders and masks of saved runs depend on these: a change here breaks every resume.
TEST(PhiloxTest, KeysOfNamedStreamsStayAsTheyAre) {
  // Both worked out apart, from FNV-1a's and SplitMix64's definitions.
  EXPECT_EQ(philox_key(0, ""), (PhiloxKey{0xa9b5e89b, 0xf52a15e9}));
  EXPECT_EQ(philox_key(42, "blocks.0.attn.qkv.weight"), (PhiloxKey{0xaea1e731, 0xbc3a7d69}));
}

TEST(PhiloxTest, NeighbouringSeedsAndNamesShareNoKeys) {
  std::set<PhiloxKey> keys;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    for (int block = 0; block < 100; ++block) {
      keys.insert(philox_key(seed, "blocks." + std::to_string(block) + ".drop_path"));
    }
  }
  EXPECT_EQ(keys.size(), 10'000u);
}

// Pearson's statistic of 4 words of many counters in 256 bins, for one byte of the word.
double chi_square(PhiloxKey key, int byte, bool high_counter) {
  constexpr int kBlocks = 16'384, kBins = 256;
  std::vector<double> counts(kBins);
  for (uint32_t i = 0; i < kBlocks; ++i) {
    const auto block = philox4x32(high_counter ? PhiloxCounter{0, 0, 0, i} : PhiloxCounter{i}, key);
    for (const uint32_t word : block) ++counts[(word >> (8 * byte)) & 0xff];
  }
  const double expected = 4.0 * kBlocks / kBins;
  double sum = 0;
  for (const double count : counts) sum += (count - expected) * (count - expected) / expected;
  return sum;
}

TEST(PhiloxTest, EveryByteIsUniform) {
  // 255 degrees of freedom: mean 255, standard deviation 22.6; within 6 deviations, for any counter
  // word.
  for (int byte = 0; byte < 4; ++byte) {
    for (const bool high_counter : {false, true}) {
      const double statistic = chi_square(philox_key(7, "uniform"), byte, high_counter);
      EXPECT_GT(statistic, 255 - 6 * 22.6) << byte;
      EXPECT_LT(statistic, 255 + 6 * 22.6) << byte;
    }
  }
}

double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - 0.5) * (b[i] - 0.5);
    aa += (a[i] - 0.5) * (a[i] - 0.5);
    bb += (b[i] - 0.5) * (b[i] - 0.5);
  }
  return ab / std::sqrt(aa * bb);
}

std::vector<double> draws(PhiloxKey key, uint64_t a, uint32_t b = 0) {
  RandomStream stream(key, a, b);
  std::vector<double> values(10'000);
  for (double& value : values) value = stream.uniform(0, 1);
  return values;
}

TEST(RandomStreamTest, StreamsAreUncorrelated) {
  const auto base = draws(philox_key(1, "order"), 5);
  const double limit = 5 / std::sqrt(10'000.0);  // five standard deviations of no correlation
  EXPECT_LT(std::abs(correlation(base, draws(philox_key(2, "order"), 5))), limit);
  EXPECT_LT(std::abs(correlation(base, draws(philox_key(1, "ordes"), 5))), limit);
  EXPECT_LT(std::abs(correlation(base, draws(philox_key(1, "order"), 6))), limit);
  EXPECT_LT(std::abs(correlation(base, draws(philox_key(1, "order"), 5, 1))), limit);
  EXPECT_LT(std::abs(correlation(base, draws(philox_key(1, "order"), uint64_t{5} << 32))), limit);
  EXPECT_DOUBLE_EQ(correlation(base, draws(philox_key(1, "order"), 5)), 1);
}

TEST(RandomStreamTest, DrawsAreTheWordsOfItsCounters) {
  const PhiloxKey key = philox_key(3, "x");
  RandomStream stream(key, (uint64_t{9} << 32) | 8, 7);
  for (uint32_t block = 0; block < 3; ++block) {
    const auto words = philox4x32({block, 7, 8, 9}, key);
    for (const uint32_t word : words) EXPECT_EQ(stream.next_word(), word);
  }
}

TEST(RandomStreamTest, RangesHold) {
  EXPECT_EQ(to_unit_float(0), 0.0f);
  EXPECT_LT(to_unit_float(0xffffffff), 1.0f);
  EXPECT_GT(to_unit_double(0, 0), 0.0);
  EXPECT_LT(to_unit_double(0xffffffff, 0xffffffff), 1.0);
  RandomStream stream(philox_key(4, "range"), 0);
  std::vector<int> counts(10);
  int heads = 0;
  for (int i = 0; i < 10'000; ++i) {
    ++counts.at(stream.below(10));
    heads += stream.bernoulli(0.25) ? 1 : 0;
    const double value = stream.uniform(-2, 3);
    ASSERT_GE(value, -2);
    ASSERT_LT(value, 3);
  }
  for (const int count : counts) EXPECT_NEAR(count, 1000, 6 * 30);  // 30: standard deviation
  EXPECT_NEAR(heads, 2500, 6 * 43.3);
  EXPECT_FALSE(stream.bernoulli(0));
  EXPECT_TRUE(stream.bernoulli(1));
}

}  // namespace
}  // namespace fovea
