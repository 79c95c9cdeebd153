#include "fovea/kernels/host_waits.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <string_view>

#include "fovea/core/error.h"

namespace fovea::kernels {
namespace {

using Inputs = c10::ArrayRef<const c10::IValue>;

// Others (item, is_nonzero, equal, masked_select ...) ask by these.
constexpr std::array<std::string_view, 5> kAsking = {"aten::_local_scalar_dense", "aten::nonzero",
                                                     "aten::_unique2", "aten::unique_dim",
                                                     "aten::unique_consecutive"};

struct Counts {
  std::mutex mutex;  // backward passes have threads of their own
  bool is_counting = false;
  std::map<std::string, int64_t> by_operator;
};

Counts& counts() {
  static auto* const all = new Counts;  // outlives every thread
  return *all;
}

bool is_of_device(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() && !value.toTensor().is_cpu() &&
         !value.toTensor().is_meta();
}

// copy_(self, src, non_blocking)
bool is_waited_for(const Inputs& copy) {
  if (copy.size() < 3 || is_of_device(copy[0]) == is_of_device(copy[1])) return false;
  const auto& host = copy[is_of_device(copy[0]) ? 1 : 0].toTensor();
  return !copy[2].toBool() || !host.is_pinned();
}

std::unique_ptr<at::ObserverContext> count_wait(const at::RecordFunction& function) {
  const std::string_view name = function.name();
  const auto inputs = function.inputs();
  const bool waits = name == "aten::copy_"
                         ? is_waited_for(inputs)
                         : std::find(kAsking.begin(), kAsking.end(), name) != kAsking.end() &&
                               std::any_of(inputs.begin(), inputs.end(), is_of_device);
  if (waits) {
    const std::lock_guard lock(counts().mutex);
    counts().by_operator[std::string(name)] += 1;
  }
  return nullptr;
}

}  // namespace

HostWaits::HostWaits() {
  const std::lock_guard lock(counts().mutex);
  FOVEA_CHECK(!counts().is_counting, "the host's waits are counted already; expected once");
  counts().is_counting = true;
  counts().by_operator.clear();
  callback_ = at::addGlobalCallback(at::RecordFunctionCallback(&count_wait)
                                        .needsInputs(true)
                                        .scopes({at::RecordScope::FUNCTION}));
}

HostWaits::~HostWaits() {
  at::removeCallback(callback_);
  const std::lock_guard lock(counts().mutex);
  counts().is_counting = false;
}

int64_t HostWaits::count() const {
  int64_t sum = 0;
  for (const auto& [name, count] : by_operator()) sum += count;
  return sum;
}

std::map<std::string, int64_t> HostWaits::by_operator() const {
  const std::lock_guard lock(counts().mutex);
  return counts().by_operator;
}

}  // namespace fovea::kernels
