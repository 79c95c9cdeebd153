// Dynamic loss scaling, for gradients in float16: losses are multiplied by a scale before backward,
// so that small gradients are not rounded to zero, and gradients divided by it again. A step in
// which one overflows is left out and the scale falls; after a number of good ones it grows. The
// rule and its numbers are those of torch.amp.GradScaler.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "fovea/config/config.h"

namespace fovea::optim {

struct GradScalerConfig {
  std::optional<bool> enabled = {};
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;
  double min_scale = 1;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("enabled", self.enabled,
            "scale losses, and leave out steps whose gradient is not finite; auto: with "
            "device.dtype float16",
            {.null_word = "auto"});
    v.field("init_scale", self.init_scale, "what losses are multiplied by at first",
            {.min = 0, .exclusive_min = true});
    v.field("growth_factor", self.growth_factor, "the scale grows by it", {.min = 1});
    v.field("backoff_factor", self.backoff_factor,
            "the scale is multiplied by it after a step that was left out",
            {.min = 0, .max = 1, .exclusive_min = true, .exclusive_max = true});
    v.field("growth_interval", self.growth_interval, "good steps in a row before the scale grows",
            {.min = 1, .unit = "steps"});
    v.field("min_scale", self.min_scale,
            "a scale that falls below it ends the run: the loss or its gradient is not finite, "
            "however it is scaled",
            {.min = 0});
  }
  void validate(ConfigIssues& issues) const;
};

class GradScaler {
 public:
  explicit GradScaler(const GradScalerConfig& config);

  double scale() const { return scale_; }
  int64_t num_skipped() const { return num_skipped_; }
  bool is_below_limit() const { return scale_ < config_.min_scale; }

  // Losses here are sums over a batch, and divided by its weight after backward; a scale is one of
  // means. So what a sum is multiplied by is the scale over the power of two next to the weight of
  // the last batch, which all processes know before they start on this one.
  double factor_of_sums() const { return scale_ / divisor_; }
  bool knows_weight() const { return divisor_ > 0; }
  // weight: what the losses of a batch are divided by, about.
  void expect_weight(double weight);

  // Call once a step, with whether all gradients of it were finite.
  void update(bool is_finite);

  // To be saved with a checkpoint; a run that goes on has the same scales.
  nlohmann::json state() const;
  // Throws CheckpointError where it is no state of a scaler.
  void load_state(const nlohmann::json& state);

 private:
  GradScalerConfig config_;
  float scale_;
  int64_t num_good_ = 0;  // in a row, since the scale changed
  int64_t num_skipped_ = 0;
  double divisor_ = 0;  // 0: no weight is known
};

}  // namespace fovea::optim
