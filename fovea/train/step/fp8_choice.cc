// M rows, K input width, N output width.
#include "fovea/train/step/fp8_choice.h"

#include <ATen/ops/randn.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <map>

#include "fovea/core/median.h"
#include "fovea/kernels/linear/fp8_linear.h"
#include "fovea/kernels/linear/linear.h"
#include "fovea/train/bench/bench_workload.h"

namespace fovea::train {
namespace {

constexpr int kUncounted = 3, kMeasured = 9;

// What a training step does with one layer.
class LinearWork {
 public:
  LinearWork(const LinearShape& shape, c10::Device device)
      : x_(at::randn({shape.rows, shape.in_features}, options(device, at::kBFloat16))),
        weight_(at::randn({shape.out_features, shape.in_features}, options(device, at::kFloat))),
        bias_(at::randn({shape.out_features}, options(device, at::kFloat))),
        dy_(at::randn({shape.rows, shape.out_features}, options(device, at::kBFloat16))) {
    for (auto* leaf : {&x_, &weight_, &bias_}) leaf->set_requires_grad(true);
  }

  void run(bool in_fp8) const {
    const auto y =
        in_fp8 ? kernels::fp8_linear(x_, {}, weight_, bias_) : kernels::linear(x_, weight_, bias_);
    torch::autograd::grad({y}, {x_, weight_, bias_}, {dy_});
  }

 private:
  static at::TensorOptions options(c10::Device device, at::ScalarType dtype) {
    return at::TensorOptions().device(device).dtype(dtype);
  }

  at::Tensor x_, weight_, bias_, dy_;
};

}  // namespace

LinearSeconds measure_linear(const LinearShape& shape, c10::Device device) {
  const at::AutoGradMode with_gradients(true);
  const LinearWork work(shape, device);
  std::vector<double> bfloat16, fp8;
  for (int i = -kUncounted; i < kMeasured; ++i) {
    for (const bool in_fp8 : {false, true}) {
      const double seconds = seconds_of(device, [&] { work.run(in_fp8); });
      if (i >= 0) (in_fp8 ? fp8 : bfloat16).push_back(seconds);
    }
  }
  return {.bfloat16 = fovea::median(bfloat16), .fp8 = fovea::median(fp8)};
}

Fp8Choice choose_fp8(const std::vector<Fp8Candidate>& candidates, const MeasureLinear& measure) {
  std::map<LinearShape, LinearSeconds> seconds;
  Fp8Choice choice;
  for (const auto& [name, shape] : candidates) {
    if (!seconds.contains(shape)) seconds[shape] = measure(shape);
    if (seconds[shape].fp8 < seconds[shape].bfloat16) choice.layers.push_back(name);
  }
  choice.text = fmt::format("device.fp8: {} of {} linear layers of blocks train in FP8",
                            choice.layers.size(), candidates.size());
  for (const auto& [shape, found] : seconds) {
    choice.text +=
        fmt::format("; {} x {} x {}: {:.2f} ms, {:.2f} ms in bfloat16", shape.rows,
                    shape.in_features, shape.out_features, 1e3 * found.fp8, 1e3 * found.bfloat16);
  }
  return choice;
}

}  // namespace fovea::train
