#include "fovea/nn/init.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "tests/support/close.h"
#include "tests/support/golden.h"
#include "tests/support/threads.h"

namespace fovea::nn {
namespace {

at::Tensor filled(std::vector<int64_t> shape, const std::string& name, uint64_t seed,
                  const ParameterInit& init) {
  const auto parameter = at::empty(shape);
  initialize(parameter, name, seed, init);
  return parameter;
}

InitRule rule_named(const std::string& kind, double value) {
  if (kind == "normal") return InitRule::normal(value);
  return kind == "uniform" ? InitRule::uniform(value) : InitRule::truncated_normal(value);
}

// The first nine and the last nine of 4099 draws, by tools/golden/philox.py and scipy's quantile.
TEST(InitTest, DrawsTheStreamsOfTheReference) {
  std::ifstream stream(support::golden_path("vit_init.json"));
  const auto draws = nlohmann::json::parse(stream)["draws"];
  for (const auto* kind : {"normal", "truncated_normal", "uniform"}) {
    const auto values = filled({4099}, draws["name"], draws["seed"], {rule_named(kind, 3.0)});
    const auto expected = draws[kind].get<std::vector<double>>();
    for (int64_t i = 0; i < 18; ++i) {
      const auto index = i < 9 ? i : 4090 + i - 9;
      EXPECT_FLOAT_EQ(values[index].item<float>(), static_cast<float>(expected[i])) << kind << i;
    }
  }
}

TEST(InitTest, ASliceIsTheSameAsThatPartOfTheWhole) {
  const auto key = philox_key(1, "init.head.weight");
  std::vector<float> whole(101), part(37);
  generate(InitRule::normal(0.02), key, 0, whole);
  generate(InitRule::normal(0.02), key, 50, part);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 50));
}

TEST(InitTest, DoesNotDependOnThreads) {
  support::expect_same_bits_for_any_threads([] {
    return std::vector<at::Tensor>{
        filled({100, 1000}, "head.weight", 5, {InitRule::normal(1), InitRule::uniform(1)})};
  });
}

TEST(InitTest, DependsOnSeedAndName) {
  const auto first = filled({64}, "head.weight", 5, {InitRule::normal(1)});
  support::expect_same_bits(first, filled({64}, "head.weight", 5, {InitRule::normal(1)}), "same");
  EXPECT_FALSE(first.equal(filled({64}, "head.weight", 6, {InitRule::normal(1)})));
  EXPECT_FALSE(first.equal(filled({64}, "head.bias", 5, {InitRule::normal(1)})));
}

TEST(InitTest, FillsTheSecondHalfByItsOwnRule) {
  const auto x = filled({4, 3}, "fc1.weight", 5, {InitRule::constant(2), InitRule::constant(7)});
  EXPECT_TRUE(x.narrow(0, 0, 2).eq(2).all().item<bool>());
  EXPECT_TRUE(x.narrow(0, 2, 2).eq(7).all().item<bool>());
}

TEST(InitTest, RefusesAnUnknownScheme) {
  EXPECT_THROW(init_scheme_from_name("xavier"), ConfigError);
  for (const auto& name : init_scheme_names()) EXPECT_NO_THROW(init_scheme_from_name(name));
}

}  // namespace
}  // namespace fovea::nn
