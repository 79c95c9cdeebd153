#include "fovea/optim/ema.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/flat_loops.h"
#include "fovea/optim/flat_params.h"
#include "fovea/optim/update_loops.h"

namespace fovea::optim {
namespace {

std::map<std::string, at::Tensor> views_by_name(const Optimizer& optimizer,
                                                const at::Tensor& buffer) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  std::map<std::string, at::Tensor> result;
  for (const auto& spec : optimizer.params()) {
    result[spec.name] =
        buffer.narrow(0, spec.param.storage_offset(), spec.param.numel()).view(spec.param.sizes());
  }
  return result;
}

bool is_fused(const at::Tensor& average) {
  return average.is_cpu() && average.scalar_type() == at::kFloat;
}

}  // namespace

double ema_decay(const EmaOptions& options, double num_updates) {
  const double updates = std::max(0.0, num_updates - 1);
  if (updates == 0) return 0;
  if (!options.warmup) return options.decay;
  const double grown = 1 - std::pow(1 + updates, -2.0 / 3);
  return std::min(grown, options.decay);
}

void move_average(const at::Tensor& average, const at::Tensor& param, double weight) {
  const at::NoGradGuard no_grad;
  if (!is_fused(average)) {
    average.lerp_(param, weight);
    return;
  }
  for_each_tile({{0, average.numel()}}, [&](size_t, int64_t begin, int64_t end) {
    kernels::cpu::lerp(average.data_ptr<float>() + begin, param.const_data_ptr<float>() + begin,
                       end - begin, static_cast<float>(weight));
  });
}

Ema::Ema(Optimizer& optimizer, const EmaOptions& options)
    : optimizer_(optimizer), options_(options), average_(optimizer.flat_param().clone()) {}

void Ema::update(int64_t step) {
  StepExtras extras;
  join(step, extras);
  move_average(extras.average, optimizer_.flat_param(), extras.average_weight);
}

void Ema::join(int64_t step, StepExtras& extras) {
  FOVEA_CHECK(!is_swapped_, "ema: update while the average is swapped in; swap it out first");
  extras.average = average_;
  const double before = warmup_steps_ ? warmup_steps_(step) : static_cast<double>(step);
  extras.average_weight = 1 - ema_decay(options_, before + 1);
}

void Ema::swap() {
  const at::NoGradGuard no_grad;
  const auto param = optimizer_.flat_param();
  if (is_fused(average_)) {
    for_each_tile({{0, average_.numel()}}, [&](size_t, int64_t begin, int64_t end) {
      optim::swap(average_.data_ptr<float>() + begin, param.data_ptr<float>() + begin, end - begin);
    });
  } else {
    const auto kept = param.clone();
    param.copy_(average_);
    average_.copy_(kept);
  }
  optimizer_.mark_changed();
  is_swapped_ = !is_swapped_;
}

std::map<std::string, at::Tensor> Ema::state() {
  FOVEA_CHECK(!is_swapped_, "ema: state while the average is swapped in; swap it out first");
  return views_by_name(optimizer_, average_);
}

void Ema::load_state(const std::map<std::string, at::Tensor>& saved) {
  copy_by_name(saved, state(), "moving average of the weights");
}

}  // namespace fovea::optim
