#include "fovea/kernels/tensor_part.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <c10/util/accumulate.h>

namespace fovea::kernels {
namespace {

// Views [..., ranges, own entries, ...], one behind another: of the lead, if any, and of the rest.
std::vector<at::Tensor> views_of_cut(const TensorCut& cut, const at::Tensor& whole) {
  const auto view_of = [&](int64_t first, int64_t length, int64_t ranges) {
    return whole.narrow(cut.dim, first, length)
        .unflatten(cut.dim, {ranges, cut.count, -1})
        .select(cut.dim + 1, cut.index);
  };
  std::vector<at::Tensor> views;
  if (cut.lead > 0) views.push_back(view_of(0, cut.lead, 1));
  views.push_back(view_of(cut.lead, whole.size(cut.dim) - cut.lead, cut.blocks));
  return views;
}

}  // namespace

TensorPart all_of_cut(at::IntArrayRef sizes, const TensorCut& cut) {
  TensorPart part{.shape = sizes.vec(), .cut = cut};
  part.shape[static_cast<size_t>(cut.dim)] *= cut.count;
  return part;
}

std::vector<int64_t> cut_shape(const TensorPart& part) {
  auto shape = part.shape;
  if (part.cut) shape[static_cast<size_t>(part.cut->dim)] /= part.cut->count;
  return shape;
}

at::Tensor indices_in_whole(const TensorPart& part, int64_t dim) {
  const auto all = at::arange(part.shape[static_cast<size_t>(dim)], at::kLong);
  if (!part.cut || part.cut->dim != dim) return all;
  auto along = *part.cut;
  along.dim = 0;
  return take_cut(along, all);
}

at::Tensor take_cut(const TensorCut& cut, const at::Tensor& whole) {
  auto views = views_of_cut(cut, whole);
  for (auto& view : views) view = view.flatten(cut.dim, cut.dim + 1);
  return views.size() == 1 ? views[0].clone(at::MemoryFormat::Contiguous) : at::cat(views, cut.dim);
}

at::Tensor take_part(const TensorPart& part, const at::Tensor& whole, at::IntArrayRef sizes) {
  const auto from = part.cut ? take_cut(*part.cut, whole) : whole;
  return from.reshape({-1}).narrow(0, part.first, c10::multiply_integers(sizes)).view(sizes);
}

at::Tensor spread_part(const TensorPart& part, const at::Tensor& values) {
  const auto options = values.options().requires_grad(false);
  const auto whole = at::zeros(part.shape, options);
  const auto own = part.cut ? at::zeros(cut_shape(part), options) : whole;
  own.view({-1}).narrow(0, part.first, values.numel()).copy_(values.reshape({-1}));
  if (!part.cut) return whole;
  const auto dim = part.cut->dim;
  int64_t first = 0;
  for (const auto& target : views_of_cut(*part.cut, whole)) {
    const auto length = target.size(dim) * target.size(dim + 1);
    target.copy_(own.narrow(dim, first, length).unflatten(dim, {target.size(dim), -1}));
    first += length;
  }
  return whole;
}

}  // namespace fovea::kernels
