#include "fovea/kernels/linear/product_path.h"

#include <c10/util/accumulate.h>

#include <algorithm>
#include <limits>

#include "fovea/core/error.h"
#include "fovea/kernels/kernel_paths.h"
#include "fovea/kernels/linear/gpu_products.h"
#include "fovea/kernels/linear/split_products.h"
#include "fovea/kernels/linear/weight_copies.h"

namespace fovea::kernels {
namespace {

ProductCase case_of(const at::Tensor& rows, int64_t N, int64_t K) {
  const bool has_kernels = has_gpu_products(rows);
  const bool is_aligned =
      has_kernels && reinterpret_cast<uintptr_t>(rows.const_data_ptr()) % 16 == 0;
  const auto M = c10::multiply_integers(rows.sizes().slice(0, rows.dim() - 1));
  return {rows.scalar_type(), has_kernels, M, N, K, is_aligned, rows.is_cpu()};
}

ProductPath gpu_path(const ProductCase& product) {
  constexpr int64_t kLeastPadded = 64;  // below, the copy is a large part of the product
  const auto most = std::max({product.M, product.N, product.K});
  if (!product.has_kernels || most > std::numeric_limits<int32_t>::max()) {
    return ProductPath::kPlain;
  }
  const bool is_sixteen_bit = product.dtype == at::kBFloat16 || product.dtype == at::kHalf;
  if (!is_sixteen_bit && product.dtype != at::kFloat) return ProductPath::kPlain;
  const bool has_short_rows = is_sixteen_bit && product.K % 8 != 0 && product.K >= kLeastPadded;
  return has_short_rows ? ProductPath::kPadded : ProductPath::kFused;
}

// Of fewer rows packing the other factor into panels costs more than it gives, if it has to be
// done.
constexpr int64_t kLeastRowsOfPanels = kLeastRowsApart;

// Whether products of float32 on this path, or such of a weight whose strips are kept, are of
// strips.
bool takes_strips(KernelPath path) {
  return path == KernelPath::kAvx2 || path == KernelPath::kAvx512 || path == KernelPath::kMkl;
}

// Of float32 or bfloat16.
ProductPath library_or_own_path(const ProductCase& product) {
  const auto [path, is_as_float] = kernel_paths().of(KernelOp::kLinear, product.dtype);
  if (is_as_float) {
    const bool is_of_strips = product.has_strips && takes_strips(path);
    return is_of_strips ? ProductPath::kRoundedStrips : ProductPath::kAsFloat;
  }
  const bool has_few_rows = product.M < kLeastRowsOfPanels && !product.has_panels;
  switch (path) {
    case KernelPath::kReference:
      return ProductPath::kPlain;
    case KernelPath::kAvx512Bf16:
      return has_few_rows ? ProductPath::kFewRows : ProductPath::kPanels;
    case KernelPath::kAmx:
      return has_few_rows ? ProductPath::kFewRows : ProductPath::kPanelsInTiles;
    case KernelPath::kOneDnn:
      return product.dtype == at::kBFloat16 ? ProductPath::kFewRows : ProductPath::kOneDnn;
    case KernelPath::kMkl:
      return product.has_strips ? ProductPath::kStrips : ProductPath::kMkl;
    case KernelPath::kAvx2:
    case KernelPath::kAvx512:
      return ProductPath::kStrips;
    case KernelPath::kBaseline:
      return ProductPath::kBlas;
  }
  fail("linear has no path {}", static_cast<int>(path));
}

ProductPath cpu_path(const ProductCase& product) {
  if (product.dtype != at::kBFloat16 && product.dtype != at::kFloat) return ProductPath::kPlain;
  if (product.has_int8) return ProductPath::kInt8;
  const bool is_split = product.dtype == at::kFloat && product.M >= kLeastRowsOfPanels &&
                        float32_products() != Float32Products::kFloat32;
  return is_split ? ProductPath::kSplit : library_or_own_path(product);
}

}  // namespace

ProductPath product_path(const ProductCase& product) {
  if (std::min({product.M, product.N, product.K}) == 0) return ProductPath::kPlain;
  return product.is_on_cpu ? cpu_path(product) : gpu_path(product);
}

bool multiplies_rows_apart(at::ScalarType dtype) {
  if (dtype != at::kFloat && dtype != at::kBFloat16) return false;
  const auto path_of = [](at::ScalarType type) {
    return library_or_own_path({.dtype = type,
                                .has_kernels = false,
                                .M = kLeastRowsApart,
                                .N = 1,
                                .K = 1,
                                .is_aligned = false,
                                .has_strips = true});
  };
  const auto path = path_of(dtype);
  return path == ProductPath::kStrips || path == ProductPath::kRoundedStrips || is_of_panels(path);
}

ProductPath path_of_parts(const ProductCase& product) {
  auto parts = product;
  parts.dtype = at::kBFloat16;
  const auto path = library_or_own_path(parts);
  return is_of_panels(path) ? path : library_or_own_path(product);
}

ProductCase case_of_input(const at::Tensor& x, int64_t N) { return case_of(x, N, x.size(-1)); }

ProductCase case_of_weight(const at::Tensor& x, const at::Tensor& weight) {
  auto product = case_of_input(x, weight.size(0));
  if (!product.is_on_cpu) return product;
  product.has_int8 = kept_int8(weight) != nullptr;
  if (product.dtype == at::kBFloat16 && !product.has_int8 && product.M < kLeastRowsOfPanels) {
    product.has_panels = true;
    const bool would_take_them = is_of_panels(library_or_own_path(product));
    product.has_panels = would_take_them && kept_panels(weight) != nullptr;
  }
  if (product.dtype == at::kBFloat16 && !product.has_int8) {
    const auto [path, is_as_float] = kernel_paths().of(KernelOp::kLinear, at::kBFloat16);
    product.has_strips =
        is_as_float && takes_strips(path) && kept_rounded_strips(weight) != nullptr;
  }
  if (product.dtype == at::kFloat) {
    const bool asks = !product.has_int8 &&
                      kernel_paths().of(KernelOp::kLinear, at::kFloat).path == KernelPath::kMkl;
    product.has_strips = asks && kept_strips(weight) != nullptr;
  }
  return product;
}

ProductCase case_of_gradient(const at::Tensor& dy, int64_t K) { return case_of(dy, dy.size(1), K); }

}  // namespace fovea::kernels
