// Comparison of named tensors: the same non-empty set of names, equal shapes, values within the one
// table of tolerances.
#pragma once

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace fovea::support {

using NamedTensors = std::map<std::string, at::Tensor>;

struct ParityReport {
  int64_t num_compared = 0;
  double worst_error = 0.0;  // as a share of what Tolerance allows
  std::string worst_name;
  std::vector<std::string> problems;

  bool is_equal() const { return problems.empty(); }
  std::string text() const;
};

// dtype: that of the computation which gave `actual`; picks the tolerance.
ParityReport compare(const NamedTensors& actual, const NamedTensors& expected,
                     at::ScalarType dtype);

}  // namespace fovea::support

// Prints how many tensors were compared and the worst of them.
#define EXPECT_PARITY(actual, expected, dtype)                                           \
  do {                                                                                   \
    const auto parity_report = ::fovea::support::compare((actual), (expected), (dtype)); \
    std::cout << "  " << #actual << ": " << parity_report.text() << "\n";                \
    EXPECT_TRUE(parity_report.is_equal()) << parity_report.text();                       \
  } while (false)
