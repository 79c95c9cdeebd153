// Options of drawing samples from a diffusion model.
#pragma once

#include <cstdint>
#include <string>

#include "fovea/config/fields.h"

namespace fovea::train {

struct SamplerConfig {
  std::string kind = "ddim";
  int64_t steps = 50;
  double eta = 0.0;
  std::string variance = "small";
  std::string spacing = "trailing";
  double guidance = 1.0;
  bool clip = true;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("kind", self.kind,
            "ddim (few steps, no noise on the way unless eta is above 0) or ddpm (ancestral)",
            {.choices = {"ddim", "ddpm"}});
    v.field("steps", self.steps, "passes of the model, at most num_time_steps",
            {.min = 1, .unit = "steps"});
    v.field("eta", self.eta, "noise of ddim: 0 none, 1 as much as ddpm", {.min = 0, .max = 1});
    v.field("variance", self.variance,
            "of ddpm's steps: the posterior's for images of one value (small), or beta (large, as "
            "UCF-VIT)",
            {.choices = {"small", "large"}});
    v.field("spacing", self.spacing,
            "time steps used: from the last one down (trailing) or from 0 up (leading)",
            {.choices = {"trailing", "leading"}});
    v.field("guidance", self.guidance,
            "classifier-free guidance: without class + guidance (with - without); 1: off",
            {.min = 0});
    v.field("clip", self.clip, "keep the image that each step predicts within the data's range");
  }
};

}  // namespace fovea::train
