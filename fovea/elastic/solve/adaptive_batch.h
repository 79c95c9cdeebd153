// How large the batches of a run are, where that follows from its gradients.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "fovea/elastic/solve/solve_config.h"

namespace fovea::elastic {

// Sums over the gradients of the two halves of a batch, A and B, whose samples weigh so much.
struct GradientHalves {
  double first_square = 0;   // <A, A>
  double second_square = 0;  // <B, B>
  double product = 0;        // <A, B>
  double first_weight = 0, second_weight = 0;

  // Nothing where a half is empty or zero, or a sum is not finite.
  std::optional<double> cosine() const;
};

// What a batch's gradient is made of (McCandlish et al. 2018, An Empirical Model of Large-Batch
// Training, appendix A.1): the square of the true gradient and the trace of the covariance of one
// sample's, each without bias. Either may be below zero in a single batch.
struct GradientNoise {
  double signal = 0;  // |G|^2
  double noise = 0;   // tr(Sigma)
};
std::optional<GradientNoise> noise_of(const GradientHalves& halves);

// What the rule goes by.
struct AdaptiveBatchOptions {
  bool follows_noise = false;      // else similarity
  double similarity_target = 0.1;  // in (0, 1)
  double rate = 0.1;               // by which a batch grows or shrinks
  int64_t interval = 100;          // steps between two looks
  int64_t lower = 1, upper = 1;    // bounds of what it chooses
  double original_batch = 1;       // that the learning rate is meant for
  std::string lr_modifier = "sqrt";
};

// Note [Adaptive batch]
// The rule of SimiGrad (Qin et al. 2021), as JABAS has it: where the halves of a batch agree less
// than the target says, the batch grows by the rate, where they agree more, it shrinks. Three
// things are other than there. What is looked at is a mean over the steps since the batch last
// changed, of up to `interval` of them, and no single step. The batch stays while it is as near to
// where it should be as the rate can bring it: with ratio q of the batch that would just meet the
// target to the one there is, it grows from q = 1 + rate on and shrinks from 1 - rate down, so that
// no change calls for its reverse. And a step whose gradients say nothing (zero, not finite) counts
// for nothing.
//
// A gradient that is |G|^2 of signal and tr/n of noise in a half of n samples has the cosine
// 1 / (1 + r) with r = tr / (n |G|^2), and r falls as the batch grows: q = r / r_target.
// With metric noise it is the noise scale, tr / |G|^2, over the batch.
//
// All of it follows from the numbers of steps in their order and from the state: any number of
// workers, and a run that goes on, come to the same batches at the same steps.
class AdaptiveBatch {
 public:
  // batch: of the first step.
  AdaptiveBatch(const AdaptiveBatchOptions& options, int64_t batch);

  struct State {
    int64_t batch = 1;
    int64_t count = 0;      // measured steps since the batch last changed
    double similarity = 0;  // means over those, of up to `interval`
    double signal = 0, noise = 0;
  };
  const State& state() const { return state_; }
  void restore(const State& state) { state_ = state; }

  // What a step came to.
  void add(const GradientHalves& halves);
  // Whether the batch is looked at after so many steps of the run.
  bool is_look_due(int64_t steps) const { return steps > 0 && steps % options_.interval == 0; }
  // The batch of the next step, by what was measured; change_to makes it so.
  int64_t next_batch() const;
  // Batches have this size now, whoever asked for it: what is measured begins anew.
  void change_to(int64_t batch);

  int64_t batch() const { return state_.batch; }
  // As far as anything was measured.
  std::optional<double> similarity() const;
  std::optional<double> noise_scale() const;  // in samples; where it is finite
  // What the learning rate is multiplied by with batches of this size.
  double lr_factor(int64_t batch) const;

 private:
  std::optional<double> wanted_ratio() const;

  AdaptiveBatchOptions options_;
  State state_;
};

// Whether a run's batch is to change by itself: it has a target, or metric noise.
bool is_adaptive(const SolveConfig& config);
// global_batch: of the recipe, which is the lower bound where none is given.
AdaptiveBatchOptions adaptive_options(const SolveConfig& config, int64_t global_batch);

}  // namespace fovea::elastic
