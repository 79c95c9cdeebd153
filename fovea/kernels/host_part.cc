#include "fovea/kernels/host_part.h"

#include <ATen/TracerMode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <atomic>

#include "fovea/core/error.h"

namespace fovea::kernels {
namespace {

struct Recording {
  HostPart* part = nullptr;
  DeviceGraph* graph = nullptr;
};

Recording recording;
std::atomic<bool> is_recording{false};

at::Tensor made_by(const FillValues& fill, at::IntArrayRef sizes, at::ScalarType dtype,
                   c10::Device device) {
  const auto host =
      at::empty(sizes, at::TensorOptions().dtype(dtype).pinned_memory(device.is_cuda()));
  fill(host);
  return host;
}

}  // namespace

void HostPart::Values::send() const {
  const at::NoGradGuard no_grad;
  // Memory of its own each time: the device may not have read the last one yet.
  there.copy_(made_by(fill, there.sizes(), there.scalar_type(), there.device()),
              /*non_blocking=*/true);
}

void HostPart::check() const {
  for (const auto& check : checks_) check();
}

void HostPart::fill() const {
  for (const auto& values : values_) values.send();
}

RecordingScope::RecordingScope(HostPart& part, DeviceGraph& graph) {
  FOVEA_CHECK(!is_recording, "a step is recorded within another one; expected one at a time");
  recording = {&part, &graph};
  is_recording = true;
}

RecordingScope::~RecordingScope() { is_recording = false; }

bool is_step_recorded() { return is_recording; }

void refuse_recording(const char* what) {
  if (is_recording) fail("it has {}", what);
}

at::Tensor host_values(at::IntArrayRef sizes, at::ScalarType dtype, c10::Device device,
                       FillValues fill) {
  if (!is_recording) {
    const at::tracer::impl::NoTracerDispatchMode is_a_constant;  // to whoever traces a forward
    return made_by(fill, sizes, dtype, device).to(device, /*non_blocking=*/true);
  }
  at::Tensor there;
  recording.graph->apart(
      [&] { there = at::empty(sizes, at::TensorOptions().dtype(dtype).device(device)); });
  recording.part->values_.push_back({there, std::move(fill)});
  recording.graph->aside([] { recording.part->values_.back().send(); });
  return there;
}

at::Tensor host_values(std::vector<double> values, c10::Device device) {
  const auto size = static_cast<int64_t>(values.size());
  return host_values({size}, at::kDouble, device, [values = std::move(values)](const auto& host) {
    std::copy(values.begin(), values.end(), host.template mutable_data_ptr<double>());
  });
}

void host_check(std::function<void()> check) {
  if (!is_recording) return check();
  recording.part->checks_.push_back(std::move(check));
  recording.graph->aside([] { recording.part->checks_.back()(); });
}

}  // namespace fovea::kernels
