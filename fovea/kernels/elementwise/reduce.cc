#include "fovea/kernels/elementwise/reduce.h"

#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/row_sums.h"
#include "fovea/kernels/cpu/share_out.h"
#include "fovea/kernels/elementwise/bfloat16.h"
#include "fovea/kernels/operators.h"

namespace fovea::kernels {
namespace {

constexpr int64_t kRowsPerPartial = 128;  // a constant: see reduce.h

// Sums of kRowsPerPartial rows each. x: [M, N] -> [ceil(M / kRowsPerPartial), N] float32.
at::Tensor partial_sums(const at::Tensor& x) {
  const int64_t M = x.size(0), N = x.size(1);
  const int64_t count = (M + kRowsPerPartial - 1) / kRowsPerPartial;
  const auto partials = at::zeros({count, N}, x.options().dtype(at::kFloat));
  auto* out = partials.mutable_data_ptr<float>();
  cpu::for_ranges(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t first = p * kRowsPerPartial, rows = std::min(kRowsPerPartial, M - first);
      if (x.scalar_type() == at::kFloat) {
        cpu::add_rows(x.const_data_ptr<float>() + first * N, rows, N, out + p * N);
      } else {
        cpu::add_rows_bfloat16(bits_of(x) + first * N, rows, N, out + p * N);
      }
    }
  });
  return partials;
}

// fovea::sum_rows on the CPU. x: [M, N], M above 0, contiguous -> [N] float32.
at::Tensor sum_rows_cpu(const at::Tensor& x) {
  auto sums = x;
  do {
    sums = partial_sums(sums);
  } while (sums.size(0) > 1);
  return sums.squeeze(0);
}

const auto& sum_rows_op() {
  static const auto op = find_operator<at::Tensor(const at::Tensor&)>("fovea::sum_rows");
  return op;
}

bool has_sum_kernel(const at::Tensor& x) {
  const auto type = x.scalar_type();
  return (type == at::kFloat || type == at::kBFloat16 || (type == at::kHalf && !x.is_cpu())) &&
         has_kernel(sum_rows_op(), x.device());
}

}  // namespace

namespace {

struct RowSums final : c10::BackendMeta {
  RowSums(const at::Tensor& x, at::Tensor of_rows)
      : sums(std::move(of_rows)), version(x._version()) {}

  c10::intrusive_ptr<c10::BackendMeta> clone(
      const c10::intrusive_ptr<c10::BackendMeta>&) const override {
    return {};
  }

  at::Tensor sums;
  int64_t version;  // of x
};

}  // namespace

void hang_row_sums(const at::Tensor& x, const at::Tensor& sums) {
  x.unsafeGetTensorImpl()->set_backend_meta(c10::make_intrusive<RowSums>(x, sums));
}

at::Tensor hanging_row_sums(const at::Tensor& x) {
  const auto* found = dynamic_cast<RowSums*>(x.unsafeGetTensorImpl()->get_backend_meta());
  return found && found->version == x._version() ? found->sums : at::Tensor();
}

TORCH_LIBRARY_FRAGMENT(fovea, m) { m.def("sum_rows(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(fovea, CPU, m) { m.impl("sum_rows", sum_rows_cpu); }

at::Tensor sum_rows(const at::Tensor& x) {
  FOVEA_CHECK(x.dim() == 2, "sum_rows: {} dims; expected [M, N]", x.dim());
  if (has_sum_kernel(x) && x.numel() > 0) return sum_rows_op().call(x.contiguous());
  return at::sum(x, {0}, /*keepdim=*/false,
                 x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

}  // namespace fovea::kernels
