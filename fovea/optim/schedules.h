// Learning rate over optimizer steps: pure functions of the step, with timm's formulas
// (t_in_epochs=False). Step t is the number of updates already made, so the first update uses
// lr(0). Where batches change their size, t counts steps of the first size
// (SampleOrder::first_size_steps), and lies between two of them too.
//
// T: total_steps, by default those of the whole run. All schedules begin with warmup_steps steps
// that rise linearly from warmup_lr towards the peak. Where they stand:
//   by default        within T: the decay has begun at step 0, behind the warm-up, so that the peak
//                     is not reached (timm);
//   warmup_prefix     before T: the decay begins at the peak, after the warm-up, and lasts T
//   (timm); warmup_prefix and total_includes_warmup
//                     the decay begins at the peak and lasts T - warmup_steps (optax, big_vision,
//                     Hugging Face).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "fovea/config/binding.h"
#include "fovea/config/fields.h"

namespace fovea::optim {

struct Warmup {
  int64_t warmup_steps = 0;
  double warmup_lr = 0;
  bool warmup_prefix = false;
  bool total_includes_warmup = false;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("warmup_steps", self.warmup_steps, "steps of the linear rise to the peak",
            {.min = 0, .unit = "steps"});
    v.field("warmup_lr", self.warmup_lr, "learning rate of step 0, where there is a warm-up",
            {.min = 0});
    v.field("warmup_prefix", self.warmup_prefix,
            "count the schedule's steps from the end of the warm-up, not from its start");
    v.field("total_includes_warmup", self.total_includes_warmup,
            "with warmup_prefix: the length of the schedule counts the warm-up too, as optax does; "
            "the decay lasts that much less");
  }
  void validate(ConfigIssues& issues) const;
};

// Repeats of a decaying schedule, and how each decays.
struct Cycles {
  std::optional<int64_t> total_steps;
  double min_lr = 0;
  double cycle_mul = 1;
  double cycle_decay = 1;
  int64_t cycle_limit = 1;
  double k_decay = 1;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("total_steps", self.total_steps,
            "length of the first cycle; by default that of the run", {.min = 1, .unit = "steps"});
    v.field("min_lr", self.min_lr, "learning rate at the end, and from then on", {.min = 0});
    v.field("cycle_mul", self.cycle_mul, "length of a cycle over that of the one before",
            {.min = 1});
    v.field("cycle_decay", self.cycle_decay, "peak of a cycle over that of the one before",
            {.min = 0});
    v.field("cycle_limit", self.cycle_limit, "number of cycles", {.min = 1});
    v.field("k_decay", self.k_decay,
            "exponent of the time within a cycle: above 1 stays high longer",
            {.min = 0, .exclusive_min = true});
  }
};

struct CosineScheduleConfig : Warmup, Cycles {
  static constexpr std::string_view kName = "cosine";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    Warmup::visit(v, self);
    Cycles::visit(v, self);
  }
};

struct ConstantScheduleConfig : Warmup {
  static constexpr std::string_view kName = "constant";
};

// A straight line from the peak at step 0 (of the schedule) to min_lr at T.
struct LinearScheduleConfig : Warmup {
  static constexpr std::string_view kName = "linear";
  std::optional<int64_t> total_steps;
  double min_lr = 0;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    Warmup::visit(v, self);
    v.field("total_steps", self.total_steps, "length; by default that of the run",
            {.min = 1, .unit = "steps"});
    v.field("min_lr", self.min_lr, "learning rate at the end, and from then on", {.min = 0});
  }
};

struct PolynomialScheduleConfig : Warmup, Cycles {
  static constexpr std::string_view kName = "polynomial";
  double power = 0.5;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    Warmup::visit(v, self);
    Cycles::visit(v, self);
    v.field("power", self.power, "exponent of what is left of a cycle",
            {.min = 0, .exclusive_min = true});
  }
};

struct StepScheduleConfig : Warmup {
  static constexpr std::string_view kName = "step";
  int64_t decay_steps = 0;
  double decay_rate = 0.1;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    Warmup::visit(v, self);
    v.field("decay_steps", self.decay_steps, "steps from one drop to the next",
            {.min = 1, .unit = "steps", .required = true});
    v.field("decay_rate", self.decay_rate, "factor of a drop", {.min = 0});
  }
};

// Unlike timm, and like torch, a milestone m takes effect at step m.
struct MultiStepScheduleConfig : Warmup {
  static constexpr std::string_view kName = "multistep";
  std::vector<int64_t> milestones;
  double decay_rate = 0.1;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    Warmup::visit(v, self);
    v.field("milestones", self.milestones, "steps at which the learning rate drops, rising",
            {.unit = "steps", .required = true});
    v.field("decay_rate", self.decay_rate, "factor of a drop", {.min = 0});
  }
  void validate(ConfigIssues& issues) const;
};

using ScheduleConfig = OneOf<CosineScheduleConfig, ConstantScheduleConfig, LinearScheduleConfig,
                             PolynomialScheduleConfig, StepScheduleConfig, MultiStepScheduleConfig>;

class Schedule {
 public:
  // base_lr: the peak. run_steps: T where the config gives none. Throws ConfigError for a warm-up
  // that the run would not get to the end of.
  Schedule(const ScheduleConfig& config, double base_lr, int64_t run_steps);

  // The learning rate of the update after `step` updates; step >= 0, also beyond the end.
  double lr(double step) const;

 private:
  ScheduleConfig config_;
  double base_lr_;
  int64_t run_steps_;
};

}  // namespace fovea::optim

namespace fovea {

// See Note [Configs compiled once] in config/binding.h.
extern template struct detail::OneOfValue<decltype(optim::ScheduleConfig::value)>;
extern template struct detail::BoundOneOf<optim::ScheduleConfig>;

}  // namespace fovea
