// Exponential moving average of the weights; timm's ModelEmaV3.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "fovea/optim/optimizer.h"

namespace fovea::optim {

struct EmaOptions {
  double decay = 0.9999;  // share of the old average kept at each step
  bool warmup = false;    // decay grows to that, as 1 - (1 + step)^(-2 / 3)
};

// The decay of an update after `num_updates` optimizer steps (timm's `step` argument).
double ema_decay(const EmaOptions& options, double num_updates);

// average, laid out like param, becomes lerp(average, param, weight).
void move_average(const at::Tensor& average, const at::Tensor& param, double weight);

class Ema {
 public:
  // Starts from the parameters as they stand. `optimizer` must outlive the average. Parameters that
  // are not trained are their own average.
  Ema(Optimizer& optimizer, const EmaOptions& options);

  // Takes in the weights as step `step` left them; steps count from 0.
  void update(int64_t step);
  // What the warm-up counts the steps before `step` as; without it, as their number.
  void count_warmup(std::function<double(int64_t step)> steps) { warmup_steps_ = std::move(steps); }
  // Has the optimizer do that: in what step `step` of it is given.
  void join(int64_t step, StepExtras& extras);

  // Exchanges weights and average: the model computes with the average until the next call.
  void swap();
  bool is_swapped() const { return is_swapped_; }

  // The averaged weights by parameter name: views, for saving. Not while swapped in (Error).
  std::map<std::string, at::Tensor> state();
  // Copies saved averages in. Throws CheckpointError unless names and shapes are the same set.
  void load_state(const std::map<std::string, at::Tensor>& state);

 private:
  Optimizer& optimizer_;
  EmaOptions options_;
  std::function<double(int64_t)> warmup_steps_;
  at::Tensor average_;  // laid out like the optimizer's flat_param()
  bool is_swapped_ = false;
};

// While alive the model computes with the averaged weights. Does nothing for nullptr.
class EmaScope {
 public:
  explicit EmaScope(Ema* ema) : ema_(ema) {
    if (ema_) ema_->swap();
  }
  // Of parameters that are shared out the exchange back may throw.
  ~EmaScope() noexcept(false) {
    if (ema_) ema_->swap();
  }
  EmaScope(const EmaScope&) = delete;
  EmaScope& operator=(const EmaScope&) = delete;

 private:
  Ema* ema_;
};

}  // namespace fovea::optim
