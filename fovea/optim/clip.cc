#include "fovea/optim/clip.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/optim/flat_params.h"
#include "fovea/optim/update_loops.h"

namespace fovea::optim {
namespace {

constexpr int64_t kChunk = 1 << 16;  // elements of one partial sum: part of what a norm's bits are

bool is_plain_cpu(const at::Tensor& flat) {
  return flat.is_cpu() && flat.scalar_type() == at::kFloat && flat.is_contiguous();
}

}  // namespace

double global_norm(const at::Tensor& flat) {
  if (!is_plain_cpu(flat)) {
    return at::linalg_vector_norm(flat, 2, std::nullopt, false, at::kDouble).item<double>();
  }
  const float* values = flat.const_data_ptr<float>();
  const int64_t count = flat.numel(), chunks = (count + kChunk - 1) / kChunk;
  std::vector<double> partial(chunks);
  at::parallel_for(0, chunks, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      partial[i] = sum_of_squares(values + i * kChunk, std::min(kChunk, count - i * kChunk));
    }
  });
  double sum = 0;
  for (const double part : partial) sum += part;
  return std::sqrt(sum);
}

double clip_gradients(const at::Tensor& flat_grad, double max_norm, double max_value) {
  FOVEA_CHECK(max_norm >= 0 && max_value >= 0,
              "clip_gradients: max_norm={}, max_value={}; expected 0 (off) or more", max_norm,
              max_value);
  const at::NoGradGuard no_grad;
  const double norm = global_norm(flat_grad);
  if (!std::isfinite(norm)) return norm;
  const bool is_plain = is_plain_cpu(flat_grad);
  const std::vector<Segment> whole = {{0, flat_grad.numel()}};
  if (max_value > 0 && is_plain) {
    for_each_tile(whole, [&](size_t, int64_t begin, int64_t end) {
      clamp(flat_grad.data_ptr<float>() + begin, end - begin, static_cast<float>(max_value));
    });
  } else if (max_value > 0) {
    flat_grad.clamp_(-max_value, max_value);
  }
  if (max_norm == 0) return norm;
  const double factor = max_norm / ((max_value > 0 ? global_norm(flat_grad) : norm) + 1e-6);
  if (factor >= 1) return norm;
  if (is_plain) {
    for_each_tile(whole, [&](size_t, int64_t begin, int64_t end) {
      scale(flat_grad.data_ptr<float>() + begin, end - begin, static_cast<float>(factor));
    });
  } else {
    flat_grad.mul_(factor);
  }
  return norm;
}

}  // namespace fovea::optim
