#include "fovea/kernels/attention/attention_table.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <limits>

#include "fovea/core/atomic_file.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
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

constexpr uint64_t kMaxBytes = 1 << 20;  // some thousand shapes

// What keep() wrote.
std::map<std::string, AttentionKernel> read_kernels(const std::string& path) {
  const auto table = parse_json(read_file(path, kMaxBytes), path, /*max_depth=*/1);
  std::map<std::string, AttentionKernel> kernels;
  for (const auto& [shape, name] : JsonValue(table, path).members()) {
    const auto kernel = kernel_of_name(name.text());
    if (!kernel) name.refuse("flash, cudnn, efficient or math");
    kernels[shape] = *kernel;
  }
  return kernels;
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

std::optional<AttentionKernel> AttentionTable::find(const AttentionShape& shape) const {
  const std::lock_guard lock(mutex_);
  const auto known = kernels_.find(shape.name());
  return known == kernels_.end() ? std::nullopt : std::optional(known->second);
}

AttentionKernel AttentionTable::fastest(const AttentionShape& shape,
                                        std::span<const AttentionKernel> candidates,
                                        const Timer& timer) {
  if (const auto known = find(shape)) return *known;
  if (candidates.size() < 2) {
    const auto only = candidates.empty() ? AttentionKernel::kMath : candidates.front();
    const std::lock_guard lock(mutex_);
    return kernels_.try_emplace(shape.name(), only).first->second;
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
  return keep(shape.name(), best);
}

AttentionKernel AttentionTable::keep(const std::string& shape, AttentionKernel kernel) {
  const std::lock_guard lock(mutex_);
  const auto [known, is_new] = kernels_.try_emplace(shape, kernel);
  if (is_new && !path_.empty()) {
    nlohmann::json table = nlohmann::json::object();
    for (const auto& [name, taken] : kernels_) table[name] = attention_kernel_name(taken);
    write_file_atomic(path_, json_text(table, 2) + "\n");
  }
  return known->second;  // another thread's, where that was first
}

void AttentionTable::keep_in(const std::string& path) {
  std::map<std::string, AttentionKernel> kernels;
  try {
    if (is_there(path)) kernels = read_kernels(path);
  } catch (const DataError& error) {
    log_warning(fmt::format(
        "{}; kernels of attention are measured again: where others are the fastest now, a run that "
        "goes on is rounded otherwise from here on, and no longer bit for bit what it would have "
        "been",
        error.what()));
  }
  const std::lock_guard lock(mutex_);
  kernels_ = std::move(kernels);
  path_ = path;
}

void AttentionTable::stop_keeping() {
  const std::lock_guard lock(mutex_);
  path_.clear();
}

AttentionTable& attention_table() { return attention_state().table; }

}  // namespace fovea::kernels
