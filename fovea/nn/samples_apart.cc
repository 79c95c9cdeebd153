#include "fovea/nn/samples_apart.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>

#include <algorithm>
#include <utility>

#include "fovea/kernels/cpu/each_alone.h"
#include "fovea/kernels/cpu/product_sizes.h"
#include "fovea/kernels/linear/linear.h"
#include "fovea/kernels/linear/product_path.h"

namespace fovea::nn {
namespace {

using Tensors = std::vector<at::Tensor>;

ForwardContext with_samples_apart() {
  auto context = forward_context();
  context.samples_apart = true;
  return context;
}

// Tokens of a part, about: several samples read a layer's weights together, and what they make of
// it stays in a cache.
constexpr int64_t kTokensOfPart = 800;

// Where the parts begin that a batch is cut into, and its end. Of a large batch they are smaller
// towards its end, so that nobody waits long for a thread whose processor is shared.
std::vector<int64_t> bounds_of_parts(const at::Tensor& x) {
  const int64_t B = x.size(0), N = x.size(1), threads = at::get_num_threads();
  const std::vector<int64_t> whole = {0, B};
  // Of few samples the last ones would leave threads without work.
  if (N == 0 || B < threads || (B < 2 * threads && B % threads != 0)) return whole;
  const int64_t wanted = std::max<int64_t>(1, kTokensOfPart / N);
  const int64_t rounds = kernels::cpu::parts_of(B, wanted * threads);
  const int64_t most = B / std::min(B, threads * rounds);
  const int64_t least = kernels::cpu::parts_of(kernels::kLeastRowsApart, N);
  if (most < least) return whole;
  const int64_t smallest = rounds > 1 ? least : most;
  std::vector<int64_t> bounds = {0};
  for (int64_t left = B; left > 0; left = B - bounds.back()) {
    const auto size = std::clamp(left / threads, smallest, most);
    bounds.push_back(left - size < smallest ? B : bounds.back() + size);
  }
  return bounds;
}

bool may_be_apart(const std::vector<UnitImpl*>& units, const Tensors& inputs) {
  const auto& context = forward_context();
  const auto& x = inputs[0];
  if (!context.samples_apart || context.recorder || context.step || context.sequence_length != 0 ||
      at::GradMode::is_enabled() || !x.is_cpu() || x.dim() != 3 ||
      !kernels::multiplies_rows_apart(x.scalar_type())) {
    return false;
  }
  // Masks are narrowed with their samples; numbers of another kind may be what a layer of few rows
  // multiplies, or belong to no sample.
  const auto is_of_samples = [&](const at::Tensor& input) {
    return !input.defined() || (input.scalar_type() == at::kBool && input.size(0) == x.size(0));
  };
  return std::all_of(inputs.begin() + 1, inputs.end(), is_of_samples) &&
         std::none_of(units.begin(), units.end(),
                      [](const UnitImpl* unit) { return unit->is_watched(); });
}

Tensors narrowed(const Tensors& inputs, int64_t begin, int64_t count) {
  Tensors part = inputs;
  for (auto& input : part) {
    if (input.defined()) input = input.narrow(0, begin, count);
  }
  return part;
}

// What the parts have made, one behind another.
Tensors joined(const std::vector<Tensors>& parts) {
  Tensors whole;
  for (size_t i = 0; i < parts[0].size(); ++i) {
    Tensors pieces;
    for (const auto& part : parts) pieces.push_back(part[i]);
    whole.push_back(at::cat(pieces));
  }
  return whole;
}

}  // namespace

SamplesApartScope::SamplesApartScope() : scope_(with_samples_apart()) {}

Tensors forward_apart(const std::vector<UnitImpl*>& units, const Tensors& inputs,
                      c10::function_ref<Tensors(const Tensors&)> forward) {
  if (!may_be_apart(units, inputs)) return forward(inputs);
  const auto bounds = bounds_of_parts(inputs[0]);
  const auto count = static_cast<int64_t>(bounds.size()) - 1;
  if (count == 1) return forward(inputs);
  auto context = forward_context();
  context.samples_apart = false;
  std::vector<Tensors> parts(static_cast<size_t>(count));
  kernels::cpu::each_alone(count, [&](int64_t i) {
    const ContextScope scope(context);
    const auto part = static_cast<size_t>(i);
    const int64_t begin = bounds[part], size = bounds[part + 1] - begin;
    parts[part] = forward(narrowed(inputs, begin, size));
  });
  return joined(parts);
}

}  // namespace fovea::nn
