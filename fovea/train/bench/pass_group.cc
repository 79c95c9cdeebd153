#include "fovea/train/bench/pass_group.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/core/median.h"
#include "fovea/nn/forward_context.h"
#include "fovea/train/step/pass_backward.h"
#include "fovea/train/step/pass_workers.h"
#include "fovea/train/step/passes.h"

namespace fovea::train {
namespace {

// Between its calls, on the calling thread and its stream.
class Stopwatch {
 public:
  explicit Stopwatch(c10::Device device) : device_(device) { lap(); }

  double lap() {
    if (device_.is_cuda()) {
      c10::impl::VirtualGuardImpl(device_.type()).getStream(device_).synchronize();
    }
    const auto now = Clock::now();
    const std::chrono::duration<double> seconds = now - std::exchange(last_, now);
    return seconds.count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  c10::Device device_;
  Clock::time_point last_;
};

PassGroupTime slowest(const std::vector<PassGroupTime>& times) {
  PassGroupTime result;
  for (const auto& time : times) {
    result.data = std::max(result.data, time.data);
    result.forward = std::max(result.forward, time.forward);
    result.backward = std::max(result.backward, time.backward);
  }
  return result;
}

PassGroupTime time_round(const StepParts& parts, const StepInput& input, int64_t step,
                         PassWorkers& workers) {
  const auto& options = parts.options;
  const auto params = trained_params(parts.optimizer);
  const auto count = workers.number();
  std::vector<PassGroupTime> times(static_cast<size_t>(count));
  std::vector<std::vector<at::Tensor>> gradients(times.size());
  parts.optimizer.zero_grad();
  workers.run(
      count, count,
      [&](int64_t i) {
        auto& time = times[static_cast<size_t>(i)];
        Stopwatch watch(options.compute.device);
        auto tensors = input.tensors(0, input.size);
        const nn::StepScope scope(state_of_pass(tensors, step, options));
        time.data = watch.lap();
        const auto loss = parts.task.loss(parts.model, tensors);
        time.forward = watch.lap();
        const auto root = parts.task.has_loss_of_batch() ? loss.statistics.sum() : loss.loss_sum;
        gradients[static_cast<size_t>(i)] = captured_backward({root, {}}, params, options);
        time.backward = watch.lap();
      },
      [&](int64_t i) {
        Stopwatch watch(options.compute.device);
        add_captured(params, std::move(gradients[static_cast<size_t>(i)]));
        times[static_cast<size_t>(i)].backward += watch.lap();
      });
  return slowest(times);
}

}  // namespace

PassGroupTime time_pass_group(const StepParts& parts, data::Batch& batch, int64_t workers,
                              int64_t rounds) {
  FOVEA_CHECK(workers > 0 && rounds > 0 && batch.size() > 0,
              "{} rounds of {} passes of {} samples; expected one of each at least", rounds,
              workers, batch.size());
  FOVEA_CHECK(!meets_in_passes(parts.options) && !parts.options.fp8 && !parts.options.features,
              "passes at once of a model that is shared out, in FP8 or frozen");
  PassWorkers group(workers, parts.options.compute.device);
  const auto input = input_of(batch, parts);
  std::vector<double> data, forward, backward;
  for (int64_t round = 0; round <= rounds; ++round) {
    const auto time = time_round(parts, input, round, group);
    if (round == 0) continue;  // what is made on first use
    data.push_back(time.data);
    forward.push_back(time.forward);
    backward.push_back(time.backward);
  }
  return {.data = fovea::median(data),
          .forward = fovea::median(forward),
          .backward = fovea::median(backward)};
}

}  // namespace fovea::train
