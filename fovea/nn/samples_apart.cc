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

// Into how many parts a batch is cut; 1: not at all.
int64_t num_parts(const at::Tensor& x) {
  const int64_t B = x.size(0), N = x.size(1), threads = at::get_num_threads();
  // Of few samples the last ones would leave threads without work.
  if (N == 0 || B < threads || (B < 2 * threads && B % threads != 0)) return 1;
  const int64_t wanted = std::max<int64_t>(1, kTokensOfPart / N);
  const int64_t rounds = kernels::cpu::parts_of(B, wanted * threads);
  const int64_t parts = std::min(B, threads * rounds);
  return B / parts * N >= kernels::kLeastRowsApart ? parts : 1;
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
  const int64_t count = may_be_apart(units, inputs) ? num_parts(inputs[0]) : 1;
  if (count == 1) return forward(inputs);
  auto context = forward_context();
  context.samples_apart = false;
  std::vector<Tensors> parts(static_cast<size_t>(count));
  const int64_t B = inputs[0].size(0);
  kernels::cpu::each_alone(count, [&](int64_t i) {
    const ContextScope scope(context);
    const int64_t begin = B * i / count, end = B * (i + 1) / count;
    parts[static_cast<size_t>(i)] = forward(narrowed(inputs, begin, end - begin));
  });
  return joined(parts);
}

}  // namespace fovea::nn
