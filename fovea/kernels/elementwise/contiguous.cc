#include "fovea/kernels/elementwise/contiguous.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <cstring>
#include <vector>

#include "fovea/kernels/cpu/loop_clones.h"
#include "fovea/kernels/cpu/share_out.h"
#include "fovea/kernels/kernel_paths.h"
#include "fovea/kernels/work_scope.h"

namespace fovea::kernels {
namespace {

bool copies_rows(const at::Tensor& x) {
  const auto dtype = x.scalar_type();
  return x.is_cpu() && (dtype == at::kFloat || dtype == at::kBFloat16) && x.numel() > 0 &&
         x.dim() > 2 && x.stride(-1) == 1 && !torch::autograd::compute_requires_grad(x) &&
         kernel_paths().of(KernelOp::kLoops, dtype).path != KernelPath::kReference;
}

// Where the blocks of a tensor lie, one after the other in the order of its dims.
class BlockPlace {
 public:
  // Of the dims that a block is within.
  BlockPlace(at::IntArrayRef sizes, at::IntArrayRef strides, int64_t block)
      : sizes_(sizes), strides_(strides), index_(sizes.size()) {
    for (size_t dim = sizes.size(); dim-- > 0; block /= sizes[dim]) {
      index_[dim] = block % sizes[dim];
      offset_ += index_[dim] * strides[dim];
    }
  }
  int64_t offset() const { return offset_; }
  void advance() {
    for (size_t dim = sizes_.size(); dim-- > 0;) {
      offset_ += strides_[dim];
      if (++index_[dim] < sizes_[dim]) return;
      offset_ -= sizes_[dim] * strides_[dim];
      index_[dim] = 0;
    }
  }

 private:
  at::IntArrayRef sizes_, strides_;
  std::vector<int64_t> index_;
  int64_t offset_ = 0;
};

// Rows of `bytes` bytes, `stride` bytes apart, to rows without gaps. A row of a patch is too short
// for a call of memcpy.
void copy_rows(const char* from, int64_t stride, int64_t rows, int64_t bytes, char* to) {
  constexpr int64_t kChunk = 32;
  cpu::run_loop<KernelOp::kLoops>([=]() FOVEA_LOOP {
    const int64_t last = bytes - kChunk;
    for (int64_t row = 0; row < rows; ++row) {
      const char* in = from + row * stride;
      char* out = to + row * bytes;
      __builtin_prefetch(in + bytes);  // which is the next patch's
      if (last < 0) {
        std::memcpy(out, in, static_cast<size_t>(bytes));
        continue;
      }
      for (int64_t i = 0; i < last; i += kChunk) std::memcpy(out + i, in + i, kChunk);
      std::memcpy(out + last, in + last, kChunk);
    }
  });
}

}  // namespace

at::Tensor contiguous(const at::Tensor& x) {
  if (x.is_contiguous() || !copies_rows(x)) return x.contiguous();
  constexpr int64_t kLeastValues = 1 << 13;  // of a thread
  const auto y = at::empty(x.sizes(), x.options());
  const WorkScope work("fovea::contiguous", 0, 2 * bytes_of({y}));
  const at::DimVector sizes(x.sizes().slice(0, x.dim() - 2));
  const at::DimVector strides(x.strides().slice(0, x.dim() - 2));
  const int64_t rows = x.size(-2), values = rows * x.size(-1);  // of a block
  const auto* from = static_cast<const char*>(x.const_data_ptr());
  auto* to = static_cast<char*>(y.mutable_data_ptr());
  const auto item = static_cast<int64_t>(x.itemsize());
  const int64_t stride = x.stride(-2) * item, bytes = x.size(-1) * item;
  cpu::run_ranges(x.numel() / values, 1 + kLeastValues / values, [=](int64_t begin, int64_t end) {
    BlockPlace place(sizes, strides, begin);
    for (int64_t block = begin; block < end; ++block, place.advance()) {
      copy_rows(from + place.offset() * item, stride, rows, bytes, to + block * values * item);
    }
  });
  return y;
}

}  // namespace fovea::kernels
