// The products of matrix_products.h by cpu/int8_product.h, for ProductPath::kInt8: rows of float32
// or bfloat16 and a weight whose codes are kept (weight_copies.h), on a CPU.
//
// M rows, K input width, N output width.
#pragma once

#include <ATen/core/Tensor.h>

#include "fovea/kernels/cpu/int8_blocks.h"
#include "fovea/kernels/linear/matrix_products.h"

namespace fovea::kernels {

// What this process takes: the best that the processor has, or that FOVEA_KERNELS names.
cpu::Int8Form int8_form();

// As product().
at::Tensor product_with_int8_weight(const at::Tensor& x, const at::Tensor& weight,
                                    const at::Tensor& bias, const at::Tensor& residual);

// As product_and_gelu(). Where the product is not needed it is undefined.
ProductAndGelu int8_product_and_gelu(const at::Tensor& x, const at::Tensor& weight,
                                     const at::Tensor& bias, bool needs_product);

}  // namespace fovea::kernels
