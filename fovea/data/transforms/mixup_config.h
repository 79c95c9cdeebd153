// The keys of mixup and cutmix.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/config/fields.h"

namespace fovea::data {

// timm's Mixup: mixup (Zhang et al. 2017) and cutmix (Yun et al. 2019) of a batch.
struct MixupConfig {
  double mixup_alpha = 0;
  double cutmix_alpha = 0;
  std::vector<double> cutmix_minmax = {};
  double prob = 1.0;
  double switch_prob = 0.5;
  std::string mode = "batch";
  bool correct_lam = true;
  bool timm_local = false;

  bool is_on() const { return mixup_alpha > 0 || cutmix_alpha > 0 || !cutmix_minmax.empty(); }

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("mixup_alpha", self.mixup_alpha, "shape of mixup's Beta distribution; 0: no mixup",
            {.min = 0, .max = 1000});
    v.field("cutmix_alpha", self.cutmix_alpha, "shape of cutmix's Beta distribution; 0: no cutmix",
            {.min = 0, .max = 1000});
    v.field("cutmix_minmax", self.cutmix_minmax,
            "least and largest share of a side that cutmix takes, in place of cutmix_alpha");
    v.field("prob", self.prob, "probability of mixing, for a batch or an element",
            {.min = 0, .max = 1});
    v.field("switch_prob", self.switch_prob, "probability of cutmix where both are on",
            {.min = 0, .max = 1});
    v.field("mode", self.mode, "what shares one draw", {.choices = {"batch", "pair", "elem"}});
    v.field("correct_lam", self.correct_lam,
            "targets follow the area that cutmix really took, where its box met the edge");
    v.field(
        "timm_local", self.timm_local,
        "partners from this process's part of the batch, as in timm; results then depend on the "
        "number of processes");
  }
  void validate(ConfigIssues& issues) const;
};

}  // namespace fovea::data
