#include "fovea/onnx/example.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <vector>

namespace fovea::onnx {
namespace {

class Draws {
 public:
  explicit Draws(uint64_t seed) : generator_(at::detail::createCPUGenerator(seed)) {}

  at::Tensor normal(const std::vector<int64_t>& shape) {
    return at::randn(shape, generator_, at::kFloat);
  }
  at::Tensor integers_below(int64_t limit, const std::vector<int64_t>& shape) {
    return (normal(shape).abs() * 1000).to(at::kLong).remainder(limit);
  }
  // The numbers of so many of twice as many patches, each once. [count, n]
  at::Tensor some_patches(int64_t count, int64_t n) {
    return normal({count, 2 * n}).argsort(/*dim=*/int64_t{1}).narrow(1, 0, n);
  }

 private:
  at::Generator generator_;
};

// All of `value` in the last numbers, from `first` on, of every sample but the first.
at::Tensor with_an_end(const std::vector<int64_t>& shape, int64_t first, bool value) {
  auto flags = value ? at::zeros(shape, at::kBool) : at::ones(shape, at::kBool);
  flags.slice(0, 1).slice(-1, first).fill_(value);
  return flags;
}

}  // namespace

at::Tensor example_input(const models::Model& model, const TracedInput& input, int64_t count,
                         int64_t num_time_steps, uint64_t seed) {
  Draws draws(seed);
  auto shape = input.sides;
  shape.insert(shape.begin(), count);
  if (input.name == "timesteps") return draws.integers_below(num_time_steps, shape);
  if (input.name == "classes") return draws.integers_below(model.num_classes() + 1, shape);
  if (input.name == "ids_keep") return draws.some_patches(count, shape[1]);
  if (input.name == "padding") return with_an_end(shape, 9, true);
  if (input.name == "seen") return with_an_end(shape, 3, false);
  if (input.name == "sizes") return 2 + 4 * draws.normal(shape).abs();
  if (input.name == "centers") return 16 + 8 * draws.normal(shape);
  if (input.name == "leaf_shares") return draws.normal(shape).softmax(-1);
  return draws.normal(shape);
}

}  // namespace fovea::onnx
