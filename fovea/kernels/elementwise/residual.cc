#include "fovea/kernels/elementwise/residual.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/residual_rows.h"
#include "fovea/kernels/cpu/share_out.h"
#include "fovea/kernels/elementwise/float_rows.h"
#include "fovea/kernels/elementwise/reduce.h"
#include "fovea/kernels/kernel_paths.h"
#include "fovea/kernels/operators.h"
#include "fovea/kernels/row_views.h"
#include "fovea/kernels/saved_activation.h"
#include "fovea/kernels/work_scope.h"

// M rows (B samples of M / B rows each, or T tokens of one sample), D row length.
namespace fovea::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using MaybeTensor = std::optional<at::Tensor>;
using TwoTensors = std::tuple<at::Tensor, at::Tensor>;

// Rows summed into one partial gradient of scale. A constant, so that the order of summation is the
// same for any number of threads.
constexpr int64_t kResidualRowsPerPartial = 64;

// x, branch: [M, D], scale: [D], mask: [B] -> [M, D].
const auto& residual_op() {
  static const auto op =
      find_operator<at::Tensor(const at::Tensor&, const at::Tensor&, const MaybeTensor&,
                               const MaybeTensor&)>("fovea::residual");
  return op;
}

// dy, branch: [M, D] -> dbranch [M, D]; dscale [D], undefined without scale.
const auto& residual_backward_op() {
  static const auto op =
      find_operator<TwoTensors(const at::Tensor&, const MaybeTensor&, const MaybeTensor&,
                               const MaybeTensor&)>("fovea::residual_backward");
  return op;
}

bool has_residual_kernel(const at::Tensor& x) {
  const auto type = x.scalar_type();
  const bool is_host = x.is_cpu() || x.is_meta();
  if (x.is_cpu() && kernel_paths().of(KernelOp::kResidual, type).path == KernelPath::kReference) {
    return false;
  }
  if (x.numel() == 0 || x.numel() / x.size(-1) > std::numeric_limits<int32_t>::max()) return false;
  return (type == at::kFloat || type == at::kBFloat16 || (type == at::kHalf && !is_host)) &&
         has_kernel(residual_op(), x.device());
}

// What each row's branch is multiplied by.
class RowMask {
 public:
  RowMask(const MaybeTensor& mask, int64_t M)
      : values_(mask ? mask->const_data_ptr<float>() : nullptr),
        rows_per_sample_(mask ? M / mask->numel() : M) {}
  float operator[](int64_t row) const { return values_ ? values_[row / rows_per_sample_] : 1.0f; }

 private:
  const float* values_;
  int64_t rows_per_sample_;
};

// fovea::residual on the CPU and on the meta device.
at::Tensor residual_cpu(const at::Tensor& x, const at::Tensor& branch, const MaybeTensor& scale,
                        const MaybeTensor& mask) {
  const int64_t M = x.size(0), D = x.size(1);
  const auto y = at::empty_like(x);
  if (x.is_meta()) return y;
  const FloatRows in_x(x, D), in_branch(branch, D), out(y, D);
  const RowMask masks(mask, M);
  const auto* scales = scale ? scale->const_data_ptr<float>() : nullptr;
  cpu::run_ranges(M, kResidualRowsPerPartial, [=](int64_t begin, int64_t end) {
    std::vector<float> scratch_x(D), scratch_branch(D), scratch_y(D);
    for (int64_t m = begin; m < end; ++m) {
      const float* row_x = in_x.read(m, scratch_x.data());
      const float* row_branch = in_branch.read(m, scratch_branch.data());
      out.write(m, scratch_y.data(),
                [&](float* to) { cpu::residual_row(row_x, row_branch, scales, masks[m], D, to); });
    }
  });
  return y;
}

// fovea::residual_backward on the CPU and on the meta device.
TwoTensors residual_backward_cpu(const at::Tensor& dy, const MaybeTensor& branch,
                                 const MaybeTensor& scale, const MaybeTensor& mask) {
  const int64_t M = dy.size(0), D = dy.size(1);
  const int64_t partials = (M + kResidualRowsPerPartial - 1) / kResidualRowsPerPartial;
  const auto dbranch = at::empty_like(dy);
  const auto dscale =
      scale ? at::zeros({partials, D}, dy.options().dtype(at::kFloat)) : at::Tensor();
  if (!dy.is_meta()) {
    const FloatRows in_dy(dy, D), in_branch(scale ? *branch : dy, D), out(dbranch, D);
    const RowMask masks(mask, M);
    const auto* scales = scale ? scale->const_data_ptr<float>() : nullptr;
    auto* dscales = scale ? dscale.mutable_data_ptr<float>() : nullptr;
    cpu::for_ranges(partials, 1, [&](int64_t begin, int64_t end) {
      std::vector<float> scratch_dy(D), scratch_branch(D), scratch_out(D);
      for (int64_t m = begin * kResidualRowsPerPartial;
           m < std::min(M, end * kResidualRowsPerPartial); ++m) {
        const float* row_dy = in_dy.read(m, scratch_dy.data());
        const float* row = scale ? in_branch.read(m, scratch_branch.data()) : nullptr;
        float* sums = scale ? dscales + m / kResidualRowsPerPartial * D : nullptr;
        out.write(m, scratch_out.data(), [&](float* to) {
          cpu::residual_row_backward(row_dy, row, scales, masks[m], D, to, sums);
        });
      }
    });
  }
  return {dbranch, scale ? sum_rows(dscale) : at::Tensor()};
}

// Tensors are optional where they may be missing: Function does not take undefined ones.
class ResidualFunction : public SavingFunction<ResidualFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& branch,
                            const MaybeTensor& scale, const MaybeTensor& mask) {
    const auto rows_x = as_dense_rows(x), rows_branch = as_dense_rows(branch);  // [M, D]
    const WorkScope work("fovea::residual", 0, 3 * bytes_of({rows_x}));
    // The branch is for the gradient of scale alone.
    if (ctx != nullptr) {
      ctx->save_for_backward({scale ? save_activation(rows_branch) : at::Tensor(),
                              scale.value_or(at::Tensor()), mask.value_or(at::Tensor())});
    }
    return residual_op().call(rows_x, rows_branch, scale, mask).view(x.sizes());
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const auto given = [&](size_t i) { return where_defined(saved[i]); };
    const auto& gradient = gradients[0];
    const auto dy = as_dense_rows(gradient);  // [M, D]
    const WorkScope work("fovea::residual_backward", 0, (given(0) ? 3 : 2) * bytes_of({dy}));
    const auto [dbranch, dscale] = residual_backward_op().call(dy, given(0), given(1), given(2));
    return {gradient, dbranch.view(gradient.sizes()), dscale, at::Tensor()};
  }
};

// The dim of x that has a value of mask [n] for each index: 0, or 1 of a single row; -1: none.
int64_t dim_of_mask(const at::Tensor& mask, const at::Tensor& x) {
  if (mask.dim() != 1) return -1;
  if (mask.size(0) == x.size(0)) return 0;
  return x.dim() > 2 && x.size(0) == 1 && mask.size(0) == x.size(1) ? 1 : -1;
}

// mask for tensors as x.
at::Tensor spread(const at::Tensor& mask, const at::Tensor& x) {
  std::vector<int64_t> shape(static_cast<size_t>(x.dim()), 1);
  shape[dim_of_mask(mask, x)] = mask.size(0);
  return mask.to(x.scalar_type()).view(shape);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(fovea, m) {
  m.def("residual(Tensor x, Tensor branch, Tensor? scale, Tensor? mask) -> Tensor");
  m.def(
      "residual_backward(Tensor dy, Tensor? branch, Tensor? scale, Tensor? mask) -> (Tensor, "
      "Tensor)");
}
TORCH_LIBRARY_IMPL(fovea, CPU, m) {
  m.impl("residual", residual_cpu);
  m.impl("residual_backward", residual_backward_cpu);
}
TORCH_LIBRARY_IMPL(fovea, Meta, m) {
  m.impl("residual", residual_cpu);
  m.impl("residual_backward", residual_backward_cpu);
}

at::Tensor add_residual(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& scale,
                        const at::Tensor& mask) {
  const bool fits = x.dim() >= 2 && branch.sizes() == x.sizes() &&
                    branch.scalar_type() == x.scalar_type() &&
                    (!scale.defined() || (scale.dim() == 1 && scale.size(0) == x.size(-1))) &&
                    (!mask.defined() || dim_of_mask(mask, x) >= 0);
  FOVEA_CHECK(fits,
              "add_residual: x of {}, a branch of {}, scale of {}, mask of {}; expected "
              "[B, ..., D] twice in one dtype, [D] and [B], or [T] of [1, T, ..., D]",
              c10::str(x.sizes()), c10::str(branch.sizes()),
              scale.defined() ? c10::str(scale.sizes()) : "nothing",
              mask.defined() ? c10::str(mask.sizes()) : "nothing");
  if (!scale.defined() && !mask.defined()) return x + branch;
  if (has_residual_kernel(x)) {
    return ResidualFunction::apply(x, branch, float_or_none(scale), float_or_none(mask));
  }
  auto y = branch;
  if (scale.defined()) y = y * scale.to(x.scalar_type());
  if (mask.defined()) y = y * spread(mask, x);
  return x + y;
}

}  // namespace fovea::kernels
