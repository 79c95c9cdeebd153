// LAMB (You et al., "Large batch optimization for deep learning: training BERT in 76 minutes", ICLR
// 2020) with the formula and the order of operations of timm's: AdamW's step, scaled for each
// parameter by the ratio of its norm to the norm of the step.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "fovea/optim/adamw.h"
#include "fovea/optim/group_config.h"
#include "fovea/optim/optimizer.h"

namespace fovea::optim {

struct LambConfig : GroupConfig {
  static constexpr std::string_view kName = "lamb";
  double lr = 1e-3;
  std::vector<double> betas = {0.9, 0.999};
  double eps = 1e-6;
  double weight_decay = 0.01;
  bool bias_correction = true;
  bool grad_averaging = true;
  double max_grad_norm = 1.0;
  bool trust_clip = false;
  bool always_adapt = false;
  bool decoupled_decay = false;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("lr", self.lr, "peak learning rate", {.min = 0});
    v.field("betas", self.betas, "decay rates of the two moments, each in [0, 1)");
    v.field("eps", self.eps, "added to the root of the second moment", {.min = 0});
    v.field("weight_decay", self.weight_decay,
            "decay, part of the step before it is scaled; none for biases, norms and embeddings "
            "the model names",
            {.min = 0});
    v.field("bias_correction", self.bias_correction, "correct the moments for their start at zero");
    v.field("grad_averaging", self.grad_averaging,
            "weigh a gradient by 1 - beta1 in the first moment; false: by 1");
    v.field("max_grad_norm", self.max_grad_norm,
            "norm above which the optimizer scales all gradients down, after "
            "trainer.max_grad_norm; 0: off",
            {.min = 0});
    v.field("trust_clip", self.trust_clip, "keep the ratio of the norms at 1 or below");
    v.field("always_adapt", self.always_adapt,
            "scale the steps of parameters without weight decay too");
    v.field("decoupled_decay", self.decoupled_decay,
            "decay the weights by themselves, as AdamW, not as part of the step");
    GroupConfig::visit(v, self);
  }
  void validate(ConfigIssues& issues) const;
};

std::unique_ptr<Optimizer> make_lamb(const LambConfig& config, std::vector<ParamSpec> params,
                                     Implementation implementation = Implementation::kAuto);

}  // namespace fovea::optim
