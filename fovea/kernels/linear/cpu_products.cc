#include "fovea/kernels/linear/cpu_products.h"

#include <ATen/Parallel.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

#include "fovea/kernels/cpu/one_mkl_thread.h"
#include "fovea/kernels/operators.h"

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

// out = a b^T + bias in one thread.
void product_into(ProductPath path, const at::Tensor& a, const at::Tensor& b,
                  const at::Tensor& bias, at::Tensor out) {
  if (path == ProductPath::kOneDnn) {
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

// How a product a b^T of M rows, b: [N, K], is split; each block is one thread's.
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
at::Tensor blocked_product(ProductPath path, const at::Tensor& a, const at::Tensor& b,
                           const at::Tensor& bias, const BlockSides& sides) {
  const int64_t rows = sides.rows, columns = sides.columns;
  const int64_t M = a.size(0), N = b.size(0);
  const int64_t across = (N + columns - 1) / columns, blocks = (M + rows - 1) / rows * across;
  auto out = at::empty({M, N}, a.options());
  cpu::each_product(blocks, [&](int64_t block) {
    const int64_t m = block / across * rows, n = block % across * columns;
    const int64_t height = std::min(rows, M - m), width = std::min(columns, N - n);
    product_into(path, a.narrow(0, m, height), b.narrow(0, n, width),
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
    product_into(ProductPath::kMkl, a.narrow(0, m, height), b.narrow(0, n, width),
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

}  // namespace

at::Tensor float_product(ProductPath path, const at::Tensor& a, const at::Tensor& b,
                         const at::Tensor& bias) {
  // With this many tiles to hand out oneDNN splits no sum, and writes straight to its result.
  constexpr int64_t kManyOutputs = int64_t{1} << 20, kManyRows = 512;
  if (path == ProductPath::kMkl && a.size(0) >= kManyRows) {
    return tiled_product(a, b, bias, tiling_of_rows(a.size(0), at::get_num_threads()));
  }
  if (path == ProductPath::kOneDnn && a.size(0) * b.size(0) >= kManyOutputs) {
    return onednn_product(a, b, bias);
  }
  return blocked_product(path, a, b, bias, block_sides(a.size(0), b));
}

at::Tensor cpu_weight_gradient(ProductPath path, const at::Tensor& dy, const at::Tensor& x) {
  // The sums run over all M rows, so the result is cut into tiles: a library would split sums.
  constexpr int64_t kLeast = 16, kMost = 192, kMostAcross = 768, kLeastUnits = 4;
  const int64_t N = dy.size(1), K = x.size(1);
  const auto part = [&](int64_t size) { return std::clamp((size + 1) / 2, kLeast, kMost); };
  // Of fewer units some threads would have nothing to do.
  if (path == ProductPath::kMkl && N / kUnit * (K / kUnit) >= kLeastUnits) {
    return tiled_product(dy.t(), x.t(), {},
                         best_tiling(N / kUnit, K / kUnit, at::get_num_threads()));
  }
  if (path == ProductPath::kBlas) {
    return blocked_product(path, dy.t(), x.t(), {}, {part(N), part(K)});
  }
  // The smaller side is cut most. oneDNN copies its first factor and wants the second one whole. Of
  // few rows the product costs no more than to turn its result would.
  constexpr int64_t kFewRows = 768;
  const bool is_whole = path == ProductPath::kOneDnn;
  const auto across = [&](int64_t size) { return is_whole ? size : std::min(size, kMostAcross); };
  return N <= K || (is_whole && dy.size(0) < kFewRows)
             ? blocked_product(path, dy.t(), x.t(), {}, {part(N), across(K)})
             : blocked_product(path, x.t(), dy.t(), {}, {part(K), across(N)}).t();
}

}  // namespace fovea::kernels
