// The dtypes that kernels with parameters are tested in.
#pragma once

#include <c10/core/ScalarType.h>
#include <gtest/gtest.h>

#include <string>

namespace fovea::support {

struct DtypeCase {
  at::ScalarType dtype;      // of x
  at::ScalarType parameter;  // of weight and bias
};

inline auto dtype_cases() {
  return testing::Values(DtypeCase{at::kFloat, at::kFloat}, DtypeCase{at::kDouble, at::kDouble},
                         DtypeCase{at::kBFloat16, at::kFloat},
                         DtypeCase{at::kBFloat16, at::kBFloat16});
}

inline std::string dtype_case_name(const testing::TestParamInfo<DtypeCase>& info) {
  return std::string(c10::toString(info.param.dtype)) + "By" + c10::toString(info.param.parameter);
}

}  // namespace fovea::support
