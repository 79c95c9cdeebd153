// Matrices of 8-bit floats with one scale each, and the three products of a linear layer over them;
// the same bits for any number of threads. M rows, K input width, N output width.
//
// On a GPU that has them, products are cuBLASLt's (at::_scaled_mm). It multiplies matrices whose
// sums run along both their rows alone, so a matrix that is summed over its rows is kept transposed
// as well. On a CPU the codes are turned into bfloat16, which holds each of them exactly, and
// multiplied by the products of bfloat16: the numbers of FP8, at the speed of bfloat16 and less.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "fovea/kernels/linear/fp8_elements.h"

namespace fovea::kernels {

// Widths of products, K and N, are multiples of it; rows may be of any number.
inline constexpr int64_t kFp8Alignment = 16;

// Whether the device multiplies FP8 in hardware: no CPU, and GPUs from compute capability 8.9 on.
bool has_fp8_products(c10::Device device);

// x: float32 or bfloat16, of any shape -> [1] float32: the largest |x|; 0 of no elements, not
// finite where an element is not.
at::Tensor fp8_largest(const at::Tensor& x);

struct Fp8Matrix {
  Fp8Format format = Fp8Format::kE4M3;
  at::Tensor rows = {};     // [M, K] codes
  at::Tensor columns = {};  // [K, M'] the same transposed, M' = M rounded up to 16, with zeros
  at::Tensor inverse_scale = {};  // [1] float32: a code times it is the value
};

struct Fp8CastOptions {
  Fp8Format format = Fp8Format::kE4M3;
  int margin = 0;    // the scale is a power of two smaller for each
  bool rows = true;  // whether they are made; on a CPU rows always, and columns never
  bool columns = true;
  at::Tensor seen = {};  // [1] float32, where it is wanted: becomes max(itself, the largest |x|)
};

// x: [M, K] float32 or bfloat16, K a multiple of 16. largest: [1] float32, what the scale is made
// for; see Note [Scales of FP8]. What is larger is rounded to the largest number of the format.
// Nobody waits for the device.
Fp8Matrix fp8_cast(const at::Tensor& x, const at::Tensor& largest, const Fp8CastOptions& options);

// x: [M, K], weight: [N, K], by rows; bias: [N] bfloat16 or undefined -> x weight^T + bias: [M, N]
// bfloat16.
at::Tensor fp8_product(const Fp8Matrix& x, const Fp8Matrix& weight, const at::Tensor& bias);

// dy: [M, N] by rows, weight: [N, K] by columns -> dy weight: [M, K] bfloat16.
at::Tensor fp8_input_gradient(const Fp8Matrix& dy, const Fp8Matrix& weight);

// dy: [M, N], x: [M, K], by columns -> dy^T x: [N, K] float32 on a GPU, on a CPU as
// weight_gradient.
at::Tensor fp8_weight_gradient(const Fp8Matrix& dy, const Fp8Matrix& x);

}  // namespace fovea::kernels
