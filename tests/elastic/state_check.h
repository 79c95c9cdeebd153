// States of runs, compared bit for bit.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "fovea/checkpoint/state.h"

namespace fovea::elastic::testing {

inline void expect_same_tensors(const checkpoint::TensorMap& actual,
                                const checkpoint::TensorMap& expected, const std::string& what) {
  EXPECT_EQ(actual.size(), expected.size()) << what;
  for (const auto& [name, tensor] : expected) {
    const auto found = actual.find(name);
    ASSERT_NE(found, actual.end()) << what << " " << name;
    EXPECT_TRUE(found->second.equal(tensor)) << what << " " << name;
  }
}

inline void expect_same_state(const checkpoint::State& actual, const checkpoint::State& expected) {
  ASSERT_FALSE(expected.model.empty());
  expect_same_tensors(actual.model, expected.model, "model");
  expect_same_tensors(actual.optimizer, expected.optimizer, "optimizer");
  expect_same_tensors(actual.ema, expected.ema, "ema");
  EXPECT_EQ(actual.scalars, expected.scalars);
}

}  // namespace fovea::elastic::testing
