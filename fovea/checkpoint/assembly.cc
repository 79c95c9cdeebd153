#include "fovea/checkpoint/assembly.h"

#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <utility>

#include "fovea/nn/tensor_file.h"

namespace fovea::checkpoint {

Assembly::Assembly(const TensorEntry& entry, const WantedPart* wanted)
    : boxes_(wanted != nullptr ? boxes_of_part(wanted->part, c10::multiply_integers(wanted->sizes))
                               : std::vector{whole_box(entry.shape)}),
      sizes_(wanted != nullptr ? wanted->sizes : entry.shape),
      dtype_(nn::dtype_of_safetensors(entry.dtype)),
      is_whole_(wanted == nullptr) {}

bool Assembly::touches(const Box& slice) const {
  return std::any_of(boxes_.begin(), boxes_.end(),
                     [&](const Box& box) { return common_box(box, slice).has_value(); });
}

void Assembly::make() {
  if (!tensor_.defined()) tensor_ = at::empty(sizes_, dtype_);
}

void Assembly::place(const Box& slice, const at::Tensor& values) {
  if (is_whole_ && slice.size == sizes_) {
    tensor_ = values;
    return;
  }
  make();
  const auto flat = tensor_.view({-1});
  int64_t begin = 0;
  for (const auto& box : boxes_) {
    const auto count = box.numel();
    if (const auto both = common_box(box, slice)) {
      part_of_box(flat.narrow(0, begin, count).view(box.size), box, *both)
          .copy_(part_of_box(values, slice, *both));
    }
    begin += count;
  }
}

at::Tensor Assembly::take() {
  make();
  return std::move(tensor_);
}

}  // namespace fovea::checkpoint
