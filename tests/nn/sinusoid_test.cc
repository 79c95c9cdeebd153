#include "fovea/nn/sinusoid.h"

#include <gtest/gtest.h>

#include "tests/support/close.h"
#include "tests/support/golden.h"

namespace fovea::nn {
namespace {

TEST(SinusoidTest, TablesAreThoseOfT2tVit) {
  const auto golden = support::load_golden("t2t_vit_tables.safetensors");
  support::expect_close(sinusoid_table(17, 24), golden.at("sinusoid/24"), at::kFloat, "even width");
  support::expect_close(sinusoid_table(300, 7), golden.at("sinusoid/7"), at::kFloat, "odd width");
}

}  // namespace
}  // namespace fovea::nn
