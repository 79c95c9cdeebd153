// Weights at step 0 against the moments of timm's, parameter by parameter, under every scheme
// (tools/golden/make_vit_init.py).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>

#include "fovea/models/vit.h"
#include "tests/support/close.h"
#include "tests/support/fields_from_json.h"
#include "tests/support/golden.h"

namespace fovea::models {
namespace {

using nlohmann::json;

// Sampling errors allowed, in standard deviations of the estimate.
constexpr double kSigmas = 6.0;

void expect_same_distribution(const at::Tensor& values, const json& expected, int64_t num_seeds) {
  const auto x = values.to(at::kDouble);
  if (expected.contains("constant")) {
    support::expect_close(values, at::full_like(values, expected["constant"].get<double>()),
                          at::kFloat, "constant");
    return;
  }
  // Both sides are estimates: ours from n values, timm's from num_seeds * n.
  const auto n = static_cast<double>(x.numel());
  const auto spread = (1.0 + 1.0 / static_cast<double>(num_seeds)) / n;
  const auto std = expected["std"].get<double>(), kurtosis = expected["kurtosis"].get<double>();
  const auto centred = x - x.mean();
  const auto variance = centred.square().mean().item<double>();
  EXPECT_NEAR(x.mean().item<double>(), expected["mean"].get<double>(),
              kSigmas * std * std::sqrt(spread));
  EXPECT_NEAR(std::sqrt(variance) / std, 1.0, kSigmas * std::sqrt((kurtosis - 1.0) / 4 * spread));
  if (n < 1000) return;  // too few to tell the shape of the distribution
  const auto fourth = centred.pow(4).mean().item<double>();
  EXPECT_NEAR(fourth / (variance * variance), kurtosis, kSigmas * std::sqrt(24.0 * spread));
}

TEST(VitInitTest, HasTimmsDistributions) {
  std::ifstream stream(support::golden_path("vit_init.json"));
  const auto golden = json::parse(stream);
  for (const auto& [name, test] : golden["cases"].items()) {
    SCOPED_TRACE(name);
    Vit model(support::config_from_json<VitConfig>(test["config"]));
    model.init_weights(17);
    std::set<std::string> compared;
    const auto compare = [&](const std::string& key, const at::Tensor& values) {
      SCOPED_TRACE(key);
      ASSERT_TRUE(test["parameters"].contains(key));
      expect_same_distribution(values, test["parameters"][key], golden["num_seeds"]);
      compared.insert(key);
    };
    for (const auto& item : model.named_parameters()) {
      const bool is_packed = test["parameters"].contains(item.key() + "[first]");
      if (!is_packed) {
        compare(item.key(), item.value());
        continue;
      }
      const auto halves = item.value().chunk(2);
      compare(item.key() + "[first]", halves[0]);
      compare(item.key() + "[second]", halves[1]);
    }
    EXPECT_EQ(compared.size(), test["parameters"].size());
  }
}

}  // namespace
}  // namespace fovea::models
