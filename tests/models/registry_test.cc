#include "fovea/models/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"

namespace fovea::models {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Before memory is taken: the system would end the process without a word.
TEST(RegistryTest, AModelBeyondTheMachineIsRefused) {
  VitConfig config;
  config.embed_dim = 1 << 17;
  config.depth = 1000;
  config.num_heads = 1 << 10;
  EXPECT_THAT([&] { build_model({config}); },
              ThrowsMessage<ConfigError>(
                  AllOf(HasSubstr("parameters take"), HasSubstr("this machine has"))));
}

}  // namespace
}  // namespace fovea::models
