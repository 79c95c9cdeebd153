#include "fovea/nn/tensor_part.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <c10/util/accumulate.h>

namespace fovea::nn {
namespace {

// [..., blocks, own entries, ...]: a view.
at::Tensor view_of_cut(const TensorCut& cut, const at::Tensor& whole) {
  return whole.unflatten(cut.dim, {cut.blocks, cut.count, -1}).select(cut.dim + 1, cut.index);
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
  return view_of_cut(cut, whole).flatten(cut.dim, cut.dim + 1).clone(at::MemoryFormat::Contiguous);
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
  if (part.cut) {
    const auto target = view_of_cut(*part.cut, whole);
    target.copy_(own.view(target.sizes()));
  }
  return whole;
}

}  // namespace fovea::nn
