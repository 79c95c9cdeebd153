#include "fovea/parallel/element_sums.h"

#include <c10/util/BFloat16.h>

#include <algorithm>
#include <array>

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/loop_clones.h"
#include "fovea/kernels/cpu/norm_rows.h"

namespace fovea::parallel {
namespace {

constexpr int64_t kRow = 1024;  // numbers of bfloat16 that are float32 at a time

template <class T>
void add_elements(void* out, const void* a, const void* b, int64_t count) {
  auto* const to = static_cast<T*>(out);
  const auto* const x = static_cast<const T*>(a);
  const auto* const y = static_cast<const T*>(b);
  kernels::cpu::run_loop<kernels::KernelOp::kLoops>([=]() FOVEA_LOOP {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(x[i] + y[i]);
  });
}

template <class T>
void take_larger(void* out, const void* a, const void* b, int64_t count) {
  auto* const to = static_cast<T*>(out);
  const auto* const x = static_cast<const T*>(a);
  const auto* const y = static_cast<const T*>(b);
  for (int64_t i = 0; i < count; ++i) to[i] = std::max(x[i], y[i]);
}

// sum: [count] float32.
void add_widened(float* sum, const uint16_t* a, const uint16_t* b, int64_t count) {
  std::array<float, kRow> second;
  kernels::cpu::bfloat16_to_float(a, count, sum);
  kernels::cpu::bfloat16_to_float(b, count, second.data());
  add_elements<float>(sum, sum, second.data(), count);
}

void add_bfloat16(void* out, const void* a, const void* b, int64_t count) {
  auto* const to = static_cast<uint16_t*>(out);
  const auto* const x = static_cast<const uint16_t*>(a);
  const auto* const y = static_cast<const uint16_t*>(b);
  std::array<float, kRow> sum;
  for (int64_t i = 0; i < count; i += kRow) {
    const auto size = std::min(kRow, count - i);
    add_widened(sum.data(), x + i, y + i, size);
    kernels::cpu::float_to_bfloat16(sum.data(), size, to + i);
  }
}

void add_bfloat16_to_float(void* out, const void* a, const void* b, int64_t count) {
  auto* const to = static_cast<float*>(out);
  const auto* const x = static_cast<const uint16_t*>(a);
  const auto* const y = static_cast<const uint16_t*>(b);
  for (int64_t i = 0; i < count; i += kRow) {
    add_widened(to + i, x + i, y + i, std::min(kRow, count - i));
  }
}

template <class T>
Combine combine_of(ReduceOp op) {
  return op == ReduceOp::kSum ? add_elements<T> : take_larger<T>;
}

}  // namespace

Combine combine_of(ReduceOp op, at::ScalarType in, at::ScalarType out) {
  if (in == at::kBFloat16 && out == at::kFloat && op == ReduceOp::kSum) {
    return add_bfloat16_to_float;
  }
  FOVEA_CHECK(in == out,
              "a reduction of {} into {}; expected one dtype, or sums of BFloat16 into "
              "Float",
              c10::toString(in), c10::toString(out));
  switch (in) {
    case at::kFloat:
      return combine_of<float>(op);
    case at::kDouble:
      return combine_of<double>(op);
    case at::kLong:
      return combine_of<int64_t>(op);
    case at::kByte:
      return combine_of<uint8_t>(op);
    case at::kBFloat16:
      return op == ReduceOp::kSum ? add_bfloat16 : take_larger<c10::BFloat16>;
    default:
      fail("ranks do not reduce {}; expected Float, Double, BFloat16, Long or Byte",
           c10::toString(in));
  }
}

}  // namespace fovea::parallel
