// A linear layer's products in cuBLASLt's terms. Its matrices lie column after column, so each of
// ours, row after row, is its transpose there; which factor is transposed once more, and which sums
// are a bias gradient, follows from that. No header of CUDA: tests run the calls without a GPU.
//
// M rows, K input width, N output width.
#pragma once

#include <compare>
#include <cstdint>

#include "fovea/kernels/cuda/launch.h"

namespace fovea::kernels::cuda {

// In memory `rows` values side by side, `columns` times.
struct LtMatrix {
  int64_t rows, columns;
  ElementType type;
  auto operator<=>(const LtMatrix&) const = default;
};

// What happens to a product at its end. cuBLASLt's names: DEFAULT, BIAS, BGRADB, DGELU, GELU_AUX
// and GELU_AUX_BIAS.
enum class LtEpilogue {
  kNone,
  kBias,          // + bias, [rows of d]
  kBiasGradient,  // bias: [columns of d] becomes the sums of op(b) over the product's inner dim
  kTanhGelu,      // times the derivative of gelu_tanh at `other`, which lies as d does
  // `other` becomes the product, + bias with kBiasAndGelu, and d gelu_tanh of that.
  kGelu,
  kBiasAndGelu,
};

// d = op(a) op(b), op being a transposition or nothing.
struct LtCall {
  LtMatrix a, b, d;
  bool is_a_transposed, is_b_transposed;
  LtEpilogue epilogue = LtEpilogue::kNone;
  bool adds_c = false;        // c, which lies as d does, and may be d
  bool may_use_tf32 = false;  // of float32
  auto operator<=>(const LtCall&) const = default;
};

struct LinearShape {
  int64_t M, K, N;
  ElementType type;
};

// a: weight [N, K], b: x [M, K] -> d: x weight^T + bias + c: [M, N].
inline LtCall lt_product(const LinearShape& s, bool has_bias, bool has_residual = false) {
  return {.a = {s.K, s.N, s.type},
          .b = {s.K, s.M, s.type},
          .d = {s.N, s.M, s.type},
          .is_a_transposed = true,
          .is_b_transposed = false,
          .epilogue = has_bias ? LtEpilogue::kBias : LtEpilogue::kNone,
          .adds_c = has_residual};
}

// a: weight [N, K], b: x [M, K] -> other: x weight^T + bias: [M, N], d: gelu_tanh of it.
inline LtCall lt_product_and_gelu(const LinearShape& s, bool has_bias) {
  auto call = lt_product(s, has_bias);
  call.epilogue = has_bias ? LtEpilogue::kBiasAndGelu : LtEpilogue::kGelu;
  return call;
}

// a: weight [N, K], b: dy [M, N] -> d: dy weight: [M, K], of what gelu_tanh made of `other`.
inline LtCall lt_input_gradient(const LinearShape& s, bool has_gelu) {
  return {.a = {s.K, s.N, s.type},
          .b = {s.N, s.M, s.type},
          .d = {s.K, s.M, s.type},
          .is_a_transposed = false,
          .is_b_transposed = false,
          .epilogue = has_gelu ? LtEpilogue::kTanhGelu : LtEpilogue::kNone};
}

// a: x [M, K], b: dy [M, N] -> d: dy^T x + c: [N, K] float32; bias: [N] float32.
inline LtCall lt_weight_gradient(const LinearShape& s, bool has_bias, bool adds_c = false) {
  return {.a = {s.K, s.M, s.type},
          .b = {s.N, s.M, s.type},
          .d = {s.K, s.N, ElementType::kFloat32},
          .is_a_transposed = false,
          .is_b_transposed = true,
          .epilogue = has_bias ? LtEpilogue::kBiasGradient : LtEpilogue::kNone,
          .adds_c = adds_c};
}

}  // namespace fovea::kernels::cuda
