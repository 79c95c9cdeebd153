// Stochastic gradient descent with momentum, as torch.optim.SGD: weight decay is added to the
// gradient.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "fovea/optim/adamw.h"
#include "fovea/optim/group_config.h"
#include "fovea/optim/optimizer.h"

namespace fovea::optim {

struct SgdConfig : GroupConfig {
  static constexpr std::string_view kName = "sgd";
  double lr = 0.1;
  double momentum = 0.9;
  double dampening = 0.0;
  bool nesterov = false;
  double weight_decay = 0.0;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("lr", self.lr, "peak learning rate", {.min = 0});
    v.field("momentum", self.momentum, "share of the last update kept; 0: none",
            {.min = 0, .max = 1, .exclusive_max = true});
    v.field("dampening", self.dampening, "share of the gradient kept out of the momentum",
            {.min = 0, .max = 1});
    v.field("nesterov", self.nesterov, "Nesterov's momentum");
    v.field("weight_decay", self.weight_decay,
            "added to the gradient, times the weight; none for biases, norms and embeddings the "
            "model names",
            {.min = 0});
    GroupConfig::visit(v, self);
  }
  void validate(ConfigIssues& issues) const;
};

std::unique_ptr<Optimizer> make_sgd(const SgdConfig& config, std::vector<ParamSpec> params,
                                    Implementation implementation = Implementation::kAuto);

}  // namespace fovea::optim
