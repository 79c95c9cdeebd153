#include "fovea/kernels/elementwise/images.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

#include <optional>

#include "fovea/core/error.h"
#include "fovea/kernels/operators.h"

namespace fovea::kernels {
namespace {

const auto& normalize_images_op() {
  static const auto op = find_operator<at::Tensor(
      const at::Tensor&, const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
      const std::optional<at::Tensor>&, at::ScalarType)>("fovea::normalize_images");
  return op;
}

// [B, 1, 1, 1]
at::Tensor column_of(const at::Tensor& table, int64_t i) {
  return table.select(1, i).view({-1, 1, 1, 1});
}

// Where a pixel lies in the box of its sample. -> [B, 1, H, W] bool
at::Tensor is_in_box(const at::Tensor& table, int64_t H, int64_t W) {
  const auto y = at::arange(H).view({H, 1}), x = at::arange(W);
  const auto top = column_of(table, 2), left = column_of(table, 3);
  return (y >= top)
      .logical_and(y < top + column_of(table, 4))
      .logical_and(x >= left)
      .logical_and(x < left + column_of(table, 5));
}

// fovea::normalize_images with libtorch's operators.
at::Tensor normalize_images_cpu(const at::Tensor& bytes, const at::Tensor& mean,
                                const at::Tensor& std, const std::optional<at::Tensor>& table,
                                const std::optional<at::Tensor>& lam, at::ScalarType dtype) {
  const auto by_channel = [](const at::Tensor& x) { return x.view({-1, 1, 1}); };
  auto own = (bytes.to(at::kFloat) / 255.0 - by_channel(mean)) / by_channel(std);
  if (!table) return own.to(dtype);
  own = at::where(column_of(*table, 0) != 0, own.flip(3), own);
  const auto partner = own.index_select(0, table->select(1, 1));
  const auto share = lam->view({-1, 1, 1, 1});
  const auto box = is_in_box(*table, bytes.size(2), bytes.size(3));
  const auto has_box = column_of(*table, 4) * column_of(*table, 5) > 0;
  const auto mixed = own * share + partner * (1 - share);
  return at::where(box, partner, at::where(has_box, own, mixed)).to(dtype);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(fovea, m) {
  m.def(
      "normalize_images(Tensor bytes, Tensor mean, Tensor std, Tensor? table, Tensor? lam, "
      "ScalarType dtype) -> Tensor");
}
TORCH_LIBRARY_IMPL(fovea, CPU, m) { m.impl("normalize_images", normalize_images_cpu); }

at::Tensor normalize_images(const at::Tensor& bytes, const at::Tensor& mean, const at::Tensor& std,
                            const ImageMixes& mixes, at::ScalarType dtype) {
  FOVEA_CHECK(bytes.dim() == 4 && bytes.scalar_type() == at::kByte,
              "normalize_images: {} of {} dims; expected uint8 [B, C, H, W]", bytes.toString(),
              bytes.dim());
  const int64_t B = bytes.size(0), C = bytes.size(1);
  for (const auto* values : {&mean, &std}) {
    FOVEA_CHECK(values->scalar_type() == at::kFloat && values->dim() == 1 && values->size(0) == C,
                "normalize_images: mean or std is {} of {} values; expected float32, one for each "
                "of {} channels",
                values->toString(), values->numel(), C);
  }
  FOVEA_CHECK(dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf,
              "normalize_images: images of {}; expected float32, bfloat16 or float16",
              c10::toString(dtype));
  if (!mixes.table.defined()) {
    return normalize_images_op().call(bytes.contiguous(), mean.contiguous(), std.contiguous(), {},
                                      {}, dtype);
  }
  const auto& table = mixes.table;
  FOVEA_CHECK(table.scalar_type() == at::kLong && table.dim() == 2 && table.size(0) == B &&
                  table.size(1) == kImageMixColumns && mixes.lam.defined() &&
                  mixes.lam.scalar_type() == at::kFloat && mixes.lam.numel() == B,
              "normalize_images: a table of {} and {} shares; expected int64 [{}, {}] and [{}]",
              c10::str(table.sizes()), mixes.lam.defined() ? mixes.lam.numel() : 0, B,
              kImageMixColumns, B);
  return normalize_images_op().call(bytes.contiguous(), mean.contiguous(), std.contiguous(),
                                    table.contiguous(), mixes.lam.contiguous(), dtype);
}

}  // namespace fovea::kernels
