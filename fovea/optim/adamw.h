// AdamW (Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019) with the
// formula and the order of operations of torch.optim.AdamW.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/optim/group_config.h"
#include "fovea/optim/optimizer.h"

namespace fovea::optim {

struct AdamWConfig : GroupConfig {
  static constexpr std::string_view kName = "adamw";
  double lr = 1e-3;
  std::vector<double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.05;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("lr", self.lr, "peak learning rate", {.min = 0});
    v.field("betas", self.betas, "decay rates of the two moments, each in [0, 1)");
    v.field("eps", self.eps, "added to the root of the second moment", {.min = 0});
    v.field("weight_decay", self.weight_decay,
            "decoupled decay, times the learning rate; none for biases, norms and embeddings the "
            "model names",
            {.min = 0});
    GroupConfig::visit(v, self);
  }
  void validate(ConfigIssues& issues) const;
};

// kFused: one pass over memory, on the CPU and, for AdamW, on a GPU whose kernels are loaded.
// kPlain: ATen's operators, on any device; the reference.
enum class Implementation { kAuto, kFused, kPlain };

// Throws Error for parameters that are not distinct float32 leaves on one device.
std::unique_ptr<Optimizer> make_adamw(const AdamWConfig& config, std::vector<ParamSpec> params,
                                      Implementation implementation = Implementation::kAuto);

}  // namespace fovea::optim
