// B batch, P tokens of the prefix, N patches, D row length.
#include "fovea/kernels/elementwise/tokens.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <c10/util/StringUtil.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <optional>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/residual_rows.h"
#include "fovea/kernels/cpu/share_out.h"
#include "fovea/kernels/elementwise/float_rows.h"
#include "fovea/kernels/kernel_paths.h"
#include "fovea/kernels/work_scope.h"

namespace fovea::kernels {
namespace {

bool is_on_cpu(const at::Tensor& x) { return !x.defined() || x.is_cpu(); }

bool joins_in_one_pass(const at::Tensor& prefix, const at::Tensor& patches,
                       const at::Tensor& position) {
  const auto dtype = patches.scalar_type();
  return (dtype == at::kFloat || dtype == at::kBFloat16) && is_on_cpu(prefix) &&
         is_on_cpu(patches) && is_on_cpu(position) && patches.numel() > 0 &&
         kernel_paths().of(KernelOp::kResidual, at::kFloat).path != KernelPath::kReference &&
         !torch::autograd::compute_requires_grad(prefix, patches, position);
}

// The operations one by one.
at::Tensor join_plainly(const at::Tensor& prefix, const at::Tensor& patches,
                        const at::Tensor& position) {
  const auto dtype = patches.scalar_type();
  const auto placed = position.defined() ? patches + position.to(dtype) : patches;
  if (!prefix.defined()) return placed;
  // Whole rows of each sample: of expanded ones libtorch has a slower kernel on a GPU.
  const auto rows = prefix.to(dtype).expand({patches.size(0), -1, -1}).contiguous();
  return at::cat({rows, placed}, 1);
}

// Rows of the same width, in `dtype`, which any other is rounded to first.
std::optional<FloatRows> rows_of(const at::Tensor& x, int64_t width, at::ScalarType dtype,
                                 std::vector<at::Tensor>& held) {
  if (!x.defined()) return std::nullopt;
  held.push_back(x.to(dtype).contiguous());
  return FloatRows(held.back(), width);
}

void check_rows(const char* name, const at::Tensor& rows, const at::Tensor& patches,
                int64_t count) {
  FOVEA_CHECK(!rows.defined() || rows.sizes() == at::IntArrayRef({1, count, patches.size(2)}),
              "join_tokens: a {} of {} for patches of {}; expected [1, {}, {}]", name,
              c10::str(rows.sizes()), c10::str(patches.sizes()), count, patches.size(2));
}

}  // namespace

at::Tensor join_tokens(const at::Tensor& prefix, const at::Tensor& patches,
                       const at::Tensor& position) {
  FOVEA_CHECK(patches.dim() == 3, "join_tokens: patches of {}; expected [B, N, D]",
              c10::str(patches.sizes()));
  const int64_t B = patches.size(0), N = patches.size(1), D = patches.size(2);
  const int64_t P = prefix.defined() && prefix.dim() == 3 ? prefix.size(1) : 0;
  check_rows("prefix", prefix, patches, P);
  check_rows("position", position, patches, N);
  if (!prefix.defined() && !position.defined()) return patches;
  if (!joins_in_one_pass(prefix, patches, position)) {
    return join_plainly(prefix, patches, position);
  }
  const auto y = at::empty({B, P + N, D}, patches.options());
  const WorkScope work("fovea::join_tokens", 0, bytes_of({prefix, patches, position, y}));
  std::vector<at::Tensor> held;
  const auto front = rows_of(prefix, D, y.scalar_type(), held);
  const auto rows = rows_of(patches, D, y.scalar_type(), held);
  const auto places = rows_of(position, D, y.scalar_type(), held);
  const FloatRows out(y, D);
  constexpr int64_t kLeastRows = 32;  // of a thread
  cpu::run_ranges(B * (P + N), kLeastRows, [=](int64_t begin, int64_t end) {
    std::vector<float> scratch(D), scratch_place(D), scratch_out(D);
    for (int64_t row = begin; row < end; ++row) {
      const int64_t sample = row / (P + N), token = row % (P + N);
      if (token < P) {
        out.copy(row, *front, token);
      } else if (!places) {
        out.copy(row, *rows, sample * N + token - P);
      } else {
        const auto* from = rows->read(sample * N + token - P, scratch.data());
        const auto* place = places->read(token - P, scratch_place.data());
        out.write(row, scratch_out.data(),
                  [&](float* to) { cpu::residual_row(from, place, nullptr, /*mask=*/1, D, to); });
      }
    }
  });
  return y;
}

}  // namespace fovea::kernels
