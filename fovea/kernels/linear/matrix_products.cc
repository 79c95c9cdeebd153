#include "fovea/kernels/linear/matrix_products.h"

#include <ATen/Parallel.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

#include "fovea/core/simd.h"
#include "fovea/kernels/cpu/one_mkl_thread.h"
#include "fovea/kernels/cpu/panel_product.h"
#include "fovea/kernels/elementwise/bfloat16.h"
#include "fovea/kernels/linear/gpu_products.h"
#include "fovea/kernels/operators.h"

// M rows (all leading dims together), K input width, N output width.
namespace fovea::kernels {
namespace {

using LinearPointwise = at::Tensor(const at::Tensor&, const at::Tensor&,
                                   const std::optional<at::Tensor>&, std::string_view,
                                   c10::List<std::optional<at::Scalar>>,
                                   std::optional<std::string_view>);

// oneDNN's product, reached through the dispatcher. a: [M, K], b: [N, K], any strides -> a b^T:
// [M, N].
at::Tensor onednn_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias) {
  static const auto op = find_operator<LinearPointwise>("mkldnn::_linear_pointwise");
  return op.call(a, b, where_defined(bias), "none", c10::List<std::optional<at::Scalar>>(), "");
}

// With AVX-512 oneDNN runs at about twice the rate of the BLAS that libtorch picks; with AVX2 BLAS
// is as fast, and faster where the first factor is transposed.
bool onednn_is_faster() {
#ifdef __x86_64__
  return kUsesAvx512 && __builtin_cpu_supports("avx512f") != 0;
#else
  return false;
#endif
}

// On Intel's own processors with AVX-512 MKL is faster than oneDNN, by 5 to 25 %, where there are
// rows enough.
bool mkl_is_faster() {
#ifdef __x86_64__
  return cpu::set_mkl_threads != nullptr && onednn_is_faster() && __builtin_cpu_is("intel");
#else
  return false;
#endif
}

// Of the products of one thread each.
bool onednn_multiplies_blocks(at::ScalarType dtype) {
  return dtype == at::kFloat && onednn_is_faster() && !mkl_is_faster();
}

// out = a b^T + bias in one thread.
void product_into(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias,
                  at::Tensor out) {
  if (onednn_multiplies_blocks(a.scalar_type())) {
    out.copy_(onednn_product(a, b, bias));
  } else if (bias.defined()) {
    at::addmm_out(out, bias, a, b.t());
  } else {
    at::mm_out(out, a, b.t());
  }
}

// ceil(size / parts), up to a multiple of `unit`.
int64_t part_of(int64_t size, int64_t parts, int64_t unit) {
  return ((size + parts - 1) / parts + unit - 1) / unit * unit;
}

struct BlockSides {
  int64_t rows, columns;
};

// A library that splits one product over its threads splits by their number, and the sums come out
// with other bits. Here a product a b^T of M rows, b: [N, K], is split by its shape alone, and each
// block is one thread's.
BlockSides block_sides(int64_t M, const at::Tensor& b) {
  constexpr int64_t kFewRows = 2048, kBlocks = 64, kLeast = 128, kMost = 1024;
  const int64_t N = b.size(0);
  if (M >= kFewRows) return {std::clamp(part_of(M, kBlocks, kLeast), kLeast, kMost), N};
  // Few rows make a power of two of equal blocks, so that as many threads have as much to do.
  // oneDNN takes no columns of a transposed b.
  constexpr int64_t kBlocksOfFew = 8, kRowUnit = 8, kColumnUnit = 64, kLeastOfFew = 16;
  const auto full = std::bit_ceil(static_cast<uint64_t>((M + kLeast - 1) / kLeast));
  auto down = static_cast<int64_t>(full), across = std::max<int64_t>(kBlocksOfFew / down, 1);
  if (b.stride(1) != 1) down = std::max(down, kBlocksOfFew / 2), across = 1;
  return {std::max(part_of(M, down, kRowUnit), kLeastOfFew), part_of(N, across, kColumnUnit)};
}

// a: [M, K], b: [N, K], any strides -> a b^T + bias: [M, N] in their dtype, in blocks of `rows` x
// `columns`.
at::Tensor blocked_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias,
                           int64_t rows, int64_t columns) {
  const int64_t M = a.size(0), N = b.size(0);
  const int64_t across = (N + columns - 1) / columns, blocks = (M + rows - 1) / rows * across;
  auto out = at::empty({M, N}, a.options());
  cpu::each_product(blocks, [&](int64_t block) {
    const int64_t m = block / across * rows, n = block % across * columns;
    const int64_t height = std::min(rows, M - m), width = std::min(columns, N - n);
    product_into(a.narrow(0, m, height), b.narrow(0, n, width),
                 bias.defined() ? bias.narrow(0, n, width) : bias,
                 out.narrow(0, m, height).narrow(1, n, width));
  });
  return out;
}

// MKL forms the sums of a result in one order wherever it is cut at multiples of kUnit and no part
// is smaller (linear_test holds it to that), so the threads may have a say in the parts: the fewer
// there are, the less often factors are copied into MKL's layout.
constexpr int64_t kUnit = 192;

// Of `parts` parts of a size, each of whole units: where part i begins; the last one has the rest.
int64_t cut(int64_t size, int64_t parts, int64_t i) {
  return i == parts ? size : i * (size / kUnit) / parts * kUnit;
}

struct Tiling {
  int64_t down = 1, across = 1;  // how many tiles
};

// a: [M, K], b: [N, K], float32, either layout -> a b^T + bias: [M, N] in such parts.
at::Tensor tiled_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias,
                         const Tiling& tiling) {
  const int64_t M = a.size(0), N = b.size(0);
  auto out = at::empty({M, N}, a.options());
  cpu::each_product(tiling.down * tiling.across, [&](int64_t tile) {
    const auto row = tile / tiling.across, column = tile % tiling.across;
    const auto m = cut(M, tiling.down, row), n = cut(N, tiling.across, column);
    const auto height = cut(M, tiling.down, row + 1) - m,
               width = cut(N, tiling.across, column + 1) - n;
    product_into(a.narrow(0, m, height), b.narrow(0, n, width),
                 bias.defined() ? bias.narrow(0, n, width) : bias,
                 out.narrow(0, m, height).narrow(1, n, width));
  });
  return out;
}

// The tiling of `rows` rows, a unit at least, in one part or a few for each thread.
Tiling tiling_of_rows(int64_t rows, int64_t threads) {
  constexpr int64_t kMost = 4096;
  return {std::min(rows / kUnit, threads * ((rows + kMost * threads - 1) / (kMost * threads))), 1};
}

// The tiling of a result of `units_down` x `units_across` for these threads that takes least time:
// the largest tile's products, and what copying its factors into MKL's layout costs, which is that
// of kCopy products a row or column (measured on [6304, 384] and [6304, 1536]).
Tiling best_tiling(int64_t units_down, int64_t units_across, int64_t threads) {
  constexpr double kCopy = 90;
  Tiling best;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t down = 1; down <= std::min(units_down, threads); ++down) {
    const auto across = std::min(units_across, (threads + down - 1) / down);
    const auto rounds = (down * across + threads - 1) / threads;
    const auto height = static_cast<double>((units_down + down - 1) / down * kUnit);
    const auto width = static_cast<double>((units_across + across - 1) / across * kUnit);
    const auto cost = static_cast<double>(rounds) * (height * width + kCopy * (height + width));
    if (cost < least) least = cost, best = {down, across};
  }
  return best;
}

bool is_cpu_float(const at::Tensor& x) {
  return x.is_cpu() && x.scalar_type() == at::kFloat && x.numel() > 0;
}

// a: [M, K], b: [N, K], float32 -> a b^T + bias: [M, N].
at::Tensor float_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias) {
  // With this many tiles to hand out oneDNN splits no sum, and writes straight to its result.
  constexpr int64_t kManyOutputs = int64_t{1} << 20, kManyRows = 512;
  if (mkl_is_faster() && a.size(0) >= kManyRows) {
    return tiled_product(a, b, bias, tiling_of_rows(a.size(0), at::get_num_threads()));
  }
  if (onednn_is_faster() && a.size(0) * b.size(0) >= kManyOutputs) {
    return onednn_product(a, b, bias);
  }
  const auto sides = block_sides(a.size(0), b);
  return blocked_product(a, b, bias, sides.rows, sides.columns);
}

// Whether a product of `rows` rows of bfloat16 is worth packing its factors into panels. Nothing is
// kept from call to call, so nothing goes stale, and gathered weights have no copy.
bool multiplies_panels(const at::Tensor& rows) {
  constexpr int64_t kLeastRows = 64;
  return rows.is_cpu() && rows.scalar_type() == at::kBFloat16 && rows.size(0) >= kLeastRows &&
         rows.size(1) > 0 && has_bfloat16_products(rows.device());
}

// [rows, columns], of which one dim is dense.
at::Tensor with_dense_dim(const at::Tensor& x) {
  return x.stride(1) == 1 || x.stride(0) == 1 ? x : x.contiguous();
}

cpu::Factor factor_of(const at::Tensor& x) {
  const bool is_transposed = x.stride(1) != 1;
  return {bits_of(x), x.stride(is_transposed ? 1 : 0), is_transposed};
}

// a: [M, K], b: [K, N] -> a b + bias: [M, N] bfloat16, and that + residual: [M, N].
at::Tensor product_of_panels(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias,
                             const at::Tensor& residual = {}) {
  const auto first = with_dense_dim(a), second = with_dense_dim(b);
  const int64_t M = a.size(0), N = b.size(1);
  auto out = at::empty({M, N}, a.options());
  if (out.numel() == 0) return out;
  const auto wide_bias = bias.defined() ? bias.to(at::kFloat).contiguous() : bias;
  const auto added = residual.defined() ? residual.contiguous() : residual;
  cpu::panel_product(
      factor_of(first), factor_of(second), {M, N, a.size(1)},
      cpu::Bfloat16Result{.data = mutable_bits_of(out),
                          .stride = N,
                          .bias = bias.defined() ? wide_bias.const_data_ptr<float>() : nullptr,
                          .residual = added.defined() ? bits_of(added) : nullptr,
                          .residual_stride = N});
  return out;
}

// dy: [M, N], x: [M, K] -> dy^T x: [N, K] float32. The larger side is the rows of the product: its
// other factor is packed whole. The gradient of the bias comes where dy is the first factor.
WeightGradients weight_gradients_of_panels(const at::Tensor& dy, const at::Tensor& x,
                                           bool wants_bias) {
  const auto rows = with_dense_dim(dy), inputs = with_dense_dim(x);
  const int64_t M = dy.size(0), N = dy.size(1), K = x.size(1);
  const auto options = dy.options().dtype(at::kFloat);
  const auto out = at::empty({N, K}, options);
  if (out.numel() == 0) return {out, {}};
  auto* data = out.mutable_data_ptr<float>();
  if (N >= K) {
    const auto bias = wants_bias ? at::empty({N}, options) : at::Tensor();
    cpu::panel_product(
        factor_of(rows.t()), factor_of(inputs), {N, K, M},
        cpu::FloatResult{.data = data,
                         .stride = K,
                         .row_sums = wants_bias ? bias.mutable_data_ptr<float>() : nullptr});
    return {out, bias};
  }
  cpu::panel_product(factor_of(inputs.t()), factor_of(rows), {K, N, M},
                     cpu::FloatResult{.data = data, .stride = K, .is_transposed = true});
  return {out, {}};
}

}  // namespace

at::Tensor product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                   const at::Tensor& residual) {
  if (const auto y = gpu_product(x, weight, bias, residual); y.defined()) return y;
  if (multiplies_panels(x)) return product_of_panels(x, weight.t(), bias, residual);
  if (residual.defined()) return product(x, weight, bias).add_(residual);
  if (is_multiplied_as_float(x)) {
    const auto wide_bias = bias.defined() ? bias.to(at::kFloat) : bias;
    return product(x.to(at::kFloat), weight.to(at::kFloat), wide_bias).to(at::kBFloat16);
  }
  return is_cpu_float(x) ? float_product(x, weight, bias) : at::linear(x, weight, bias);
}

at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& weight) {
  if (is_multiplied_as_float(dy)) {
    return input_gradient(dy.to(at::kFloat), weight.to(at::kFloat)).to(at::kBFloat16);
  }
  if (const auto dx = gpu_input_gradient(dy, weight); dx.defined()) return dx;
  if (multiplies_panels(dy)) return product_of_panels(dy, weight, {});
  return is_cpu_float(dy) ? float_product(dy, weight.t(), {}) : at::matmul(dy, weight);
}

at::Tensor weight_gradient(const at::Tensor& dy, const at::Tensor& x) {
  if (is_multiplied_as_float(dy)) return weight_gradient(dy.to(at::kFloat), x.to(at::kFloat));
  if (const auto found = gpu_weight_gradients(dy, x, /*wants_bias=*/false)) return found->weight;
  if (multiplies_panels(dy)) return weight_gradients_of_panels(dy, x, /*wants_bias=*/false).weight;
  const bool is_bfloat16 = dy.is_cpu() && dy.scalar_type() == at::kBFloat16 && dy.numel() > 0;
  if (!is_bfloat16 && !is_cpu_float(dy)) return at::matmul(dy.t(), x);
  // The sums run over all M rows, so the result is cut into tiles: a library would split sums.
  constexpr int64_t kLeast = 16, kMost = 192, kMostAcross = 768, kLeastUnits = 4;
  const int64_t N = dy.size(1), K = x.size(1);
  const auto part = [&](int64_t size) { return std::clamp((size + 1) / 2, kLeast, kMost); };
  // Of fewer units some threads would have nothing to do.
  const bool has_units = N / kUnit * (K / kUnit) >= kLeastUnits;
  if (!is_bfloat16 && mkl_is_faster() && has_units) {
    return tiled_product(dy.t(), x.t(), {},
                         best_tiling(N / kUnit, K / kUnit, at::get_num_threads()));
  }
  if (!is_bfloat16 && !onednn_is_faster()) {
    return blocked_product(dy.t(), x.t(), {}, part(N), part(K));
  }
  // The smaller side is cut most. oneDNN copies its first factor and wants the second one whole. Of
  // few rows the product costs no more than to turn its result would.
  constexpr int64_t kFewRows = 768;
  const bool is_whole = onednn_multiplies_blocks(dy.scalar_type());
  const auto across = [&](int64_t size) { return is_whole ? size : std::min(size, kMostAcross); };
  return N <= K || (is_whole && dy.size(0) < kFewRows)
             ? blocked_product(dy.t(), x.t(), {}, part(N), across(K))
             : blocked_product(x.t(), dy.t(), {}, part(K), across(N)).t();
}

WeightGradients weight_gradients(const at::Tensor& dy, const at::Tensor& x, bool wants_bias) {
  if (const auto found = gpu_weight_gradients(dy, x, wants_bias)) return *found;
  if (multiplies_panels(dy)) return weight_gradients_of_panels(dy, x, wants_bias);
  return {weight_gradient(dy, x), {}};
}

}  // namespace fovea::kernels
