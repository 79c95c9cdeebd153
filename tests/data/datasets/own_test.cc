#include "fovea/data/datasets/own.h"

#include <gtest/gtest.h>

#include <memory>

#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/data/datasets/registry.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

// Image i is one pixel of brightness i.
class Ramp : public Dataset {
 public:
  int64_t size() const override { return 5; }
  void read(int64_t index, Sample& sample) const override {
    sample.become<Image>() = {1, 1, 1, {static_cast<uint8_t>(index)}};
    sample.label = index % 2;
  }
  const std::vector<std::string>& class_names() const override { return names_; }
  int64_t num_classes() const override { return 2; }
  std::string describe(int64_t index) const override { return fmt::format("ramp[{}]", index); }

 private:
  std::vector<std::string> names_ = {"even", "odd"};
};

DatasetConfig config_of(const std::string& name) {
  OwnDatasetConfig config;
  config.dataset = name;
  return {config};
}

TEST(OwnDatasetTest, ARecipeNamesWhatAProgramHasRegistered) {
  register_dataset("ramp", [] { return std::make_shared<const Ramp>(); });
  const auto dataset = build_dataset(config_of("ramp"));
  Sample sample;
  dataset->read(3, sample);
  EXPECT_EQ(sample.image().pixels, (std::vector<uint8_t>{3}));
  EXPECT_EQ(dataset->size(), 5);
  const auto fault = testing::message_of<ConfigError>([] { build_dataset(config_of("ramps")); });
  for (const char* part : {"'ramps'", "ramp", "fovea.register_dataset"}) {
    EXPECT_NE(fault.find(part), std::string::npos) << fault;
  }
}

}  // namespace
}  // namespace fovea::data
