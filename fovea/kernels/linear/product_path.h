// How a product of a linear layer is computed: chosen once for each call, here, for all devices.
//
// M rows, K input width, N output width.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace fovea::kernels {

enum class ProductPath {
  kPlain,          // libtorch's operation as it is
  kFused,          // cuBLASLt, on a GPU with our module
  kPadded,         // padded_products.h, whose products are kFused
  kAsFloat,        // bfloat16 turned into float32, by the path of that
  kPanels,         // bfloat16 on AVX-512 (cpu/panel_product.h)
  kPanelsInTiles,  // the same on AMX
  kFewRows,        // bfloat16 by libtorch, which asks oneDNN, in blocks where it would split sums
  kStrips,         // float32 on AVX2 or AVX-512 (cpu/strip_product.h)
  kRoundedStrips,  // kAsFloat by strips that are kept of a weight, rounded on the way
  kBlas,           // float32 by libtorch's BLAS, in blocks of one thread each
  kOneDnn,         // float32 by oneDNN, in such blocks where it would split sums
  kMkl,            // float32 by MKL, in parts where it forms sums alike
  kInt8,           // either with a weight of 8-bit integers (cpu/int8_product.h)
  kSplit,          // float32 as sums of products of bfloat16 (split_products.h)
};

inline bool is_of_panels(ProductPath path) {
  return path == ProductPath::kPanels || path == ProductPath::kPanelsInTiles;
}

struct ProductCase {
  at::ScalarType dtype;
  bool has_kernels;  // on a GPU, with the module
  int64_t M, N, K;
  bool is_aligned;  // what the product reads begins at multiples of 16 bytes
  bool is_on_cpu = false;
  bool has_int8 = false;    // the weight, on a CPU
  bool has_strips = false;  // likewise; of bfloat16: of its values as float32
  bool has_panels = false;  // likewise, asked of few rows alone
};

// On a CPU what kernel_paths() has for it. On a GPU: tensor cores read 16 bytes at a time, so rows
// of 16-bit values whose length is no multiple of 8 fall back to kernels of a third of the speed (K
// = 588 of 14 x 14 RGB patches: 130 against 37 us on an H100); a copy with longer rows costs less,
// but for rows of a few values.
ProductPath product_path(const ProductCase& product);

// Whether a result of linear layers whose weights are kept packed (weight_copies.h) has the same
// bits whatever rows stand beside its own, of kLeastRowsApart rows or more.
bool multiplies_rows_apart(at::ScalarType dtype);

// Of the product of what split_factor() makes of the factors of such a case: of panels where
// bfloat16 is multiplied in hardware; elsewhere that of float32.
ProductPath path_of_parts(const ProductCase& product);

// The case of x [M, K] and N columns of the result.
ProductCase case_of_input(const at::Tensor& x, int64_t N);

// The case of x [M, K] and a weight [N, K], which may have codes of 8 bits (weight_copies.h).
ProductCase case_of_weight(const at::Tensor& x, const at::Tensor& weight);

// The case of dy [M, N] and a weight of K columns.
ProductCase case_of_gradient(const at::Tensor& dy, int64_t K);

}  // namespace fovea::kernels
