// Adafactor (Shazeer and Stern, "Adafactor: adaptive learning rates with sublinear memory cost",
// ICML 2018) with the formula and the order of operations of torch.optim.Adafactor: the second
// moment of a matrix is kept as one number a row and one a column, steps follow the size of the
// parameter, and there is no first moment.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "fovea/optim/group_config.h"
#include "fovea/optim/optimizer.h"

namespace fovea::optim {

struct AdafactorConfig : GroupConfig {
  static constexpr std::string_view kName = "adafactor";
  double lr = 1e-2;
  double beta2_decay = -0.8;
  std::optional<double> eps1;
  double eps2 = 1e-3;
  double clip_threshold = 1.0;
  double weight_decay = 0.0;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("lr", self.lr,
            "peak learning rate relative to the size of a parameter; at step t at most "
            "1 / sqrt(t)",
            {.min = 0});
    v.field("beta2_decay", self.beta2_decay,
            "the second moment takes in t^beta2_decay of the gradient's square at step t",
            {.max = 0});
    v.field("eps1", self.eps1,
            "smallest root of the second moment; none: the epsilon of float32, 1.2e-7", {.min = 0});
    v.field("eps2", self.eps2, "smallest size of a parameter, root mean square", {.min = 0});
    v.field("clip_threshold", self.clip_threshold,
            "root mean square above which a step is scaled down (torch's d)", {.min = 1});
    v.field("weight_decay", self.weight_decay,
            "decoupled decay, times the learning rate; none for biases, norms and embeddings the "
            "model names",
            {.min = 0});
    GroupConfig::visit(v, self);
  }
};

// One implementation on every device, of ATen's operators.
std::unique_ptr<Optimizer> make_adafactor(const AdafactorConfig& config,
                                          std::vector<ParamSpec> params);

}  // namespace fovea::optim
