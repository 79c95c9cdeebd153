#include "fovea/optim/part_rows.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <cmath>

namespace fovea::optim {

PartRows whole_rows(const at::Tensor& part, int64_t first, int64_t row_size) {
  const auto flat = part.reshape({-1});
  const int64_t begin = first / row_size, end = (first + flat.numel() + row_size - 1) / row_size;
  const int64_t inside = first - begin * row_size, size = (end - begin) * row_size;
  auto values = flat;
  if (size != flat.numel()) {
    values = at::zeros({size}, flat.options());
    values.narrow(0, inside, flat.numel()).copy_(flat);
  }
  return {.begin = begin, .inside = inside, .values = values.view({end - begin, row_size})};
}

at::Tensor part_of_rows(const PartRows& rows, const at::Tensor& values, int64_t size) {
  return values.reshape({-1}).narrow(0, rows.inside, size);
}

void join_norms(std::span<double> norms, const SumOverParts& sum) {
  if (!sum) return;
  for (double& norm : norms) norm *= norm;
  sum(at::from_blob(norms.data(), {static_cast<int64_t>(norms.size())},
                    at::TensorOptions().dtype(at::kDouble)));
  for (double& norm : norms) norm = std::sqrt(norm);
}

}  // namespace fovea::optim
