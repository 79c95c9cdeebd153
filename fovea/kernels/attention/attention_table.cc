#include "fovea/kernels/attention/attention_table.h"

#include <fmt/format.h>

#include <array>
#include <limits>

#include "fovea/core/error.h"
#include "fovea/core/log.h"
#include "fovea/kernels/attention/attention_state.h"

namespace fovea::kernels {
namespace {

constexpr std::array kAttentionKernels = {AttentionKernel::kFlash, AttentionKernel::kCudnn,
                                          AttentionKernel::kEfficient, AttentionKernel::kMath};

std::optional<AttentionKernel> kernel_of_name(const std::string& name) {
  for (const auto kernel : kAttentionKernels) {
    if (name == attention_kernel_name(kernel)) return kernel;
  }
  return {};
}

}  // namespace

const char* attention_kernel_name(AttentionKernel kernel) {
  switch (kernel) {
    case AttentionKernel::kFlash:
      return "flash";
    case AttentionKernel::kCudnn:
      return "cudnn";
    case AttentionKernel::kEfficient:
      return "efficient";
    case AttentionKernel::kMath:
      return "math";
  }
  fail("attention kernel {} is not in the table", static_cast<int>(kernel));
}

std::string AttentionShape::name() const {
  return fmt::format("{} {} x {} x {} x {} x {}{}{}", c10::toString(dtype), batch, heads, queries,
                     keys, head_dim, has_mask ? " masked" : "",
                     has_gradient ? " with gradients" : "");
}

AttentionTable::AttentionTable()
    : choices_(
          "kernels of attention",
          [](const std::string& name) { return kernel_of_name(name).has_value(); },
          "flash, cudnn, efficient or math") {}

std::optional<AttentionKernel> AttentionTable::find(const AttentionShape& shape) const {
  const auto known = choices_.find(shape.name());
  return known ? kernel_of_name(*known) : std::nullopt;
}

AttentionKernel AttentionTable::fastest(const AttentionShape& shape,
                                        std::span<const AttentionKernel> candidates,
                                        const Timer& timer) {
  if (const auto known = find(shape)) return *known;
  if (candidates.size() < 2) {
    const auto only = candidates.empty() ? AttentionKernel::kMath : candidates.front();
    return keep(shape, only);
  }
  // Without the lock: the backward pass of what is measured may run in another thread.
  auto best = AttentionKernel::kMath;
  double least = std::numeric_limits<double>::infinity();
  std::string times;
  for (const auto kernel : candidates) {
    const double seconds = timer(kernel);
    times += fmt::format(", {} {:.3f} ms", attention_kernel_name(kernel), seconds * 1e3);
    if (seconds < least) {
      least = seconds;
      best = kernel;
    }
  }
  log_info(fmt::format("attention of {} takes {}: {}", shape.name(), attention_kernel_name(best),
                       times.substr(2)));
  return keep(shape, best);
}

AttentionKernel AttentionTable::keep(const AttentionShape& shape, AttentionKernel kernel) {
  const auto kept = choices_.keep(shape.name(), attention_kernel_name(kernel));
  return kernel_of_name(kept).value();
}

AttentionTable& attention_table() { return attention_state().table; }

}  // namespace fovea::kernels
