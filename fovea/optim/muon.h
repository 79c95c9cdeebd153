// Muon (K. Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024) with the
// formula and the order of operations of torch.optim.Muon: the update of a weight matrix is its
// momentum, orthogonalised. Every other parameter is updated by AdamW.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/optim/adamw.h"
#include "fovea/optim/group_config.h"
#include "fovea/optim/optimizer.h"

namespace fovea::optim {

struct MuonConfig : GroupConfig {
  static constexpr std::string_view kName = "muon";
  double lr = 1e-3;
  double momentum = 0.95;
  bool nesterov = true;
  int64_t ns_steps = 5;
  std::string adjust_lr = "match_rms_adamw";
  std::vector<std::string> matrices = {"*blocks.*.weight"};
  bool split_qkv = false;
  double adamw_lr_scale = 1.0;
  std::vector<double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.1;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("lr", self.lr, "peak learning rate", {.min = 0});
    v.field("momentum", self.momentum, "decay rate of the matrices' momentum",
            {.min = 0, .max = 1, .exclusive_max = true});
    v.field("nesterov", self.nesterov, "Nesterov's momentum");
    v.field("ns_steps", self.ns_steps, "rounds of the Newton-Schulz iteration",
            {.min = 1, .max = 99});
    v.field("adjust_lr", self.adjust_lr,
            "factor on the learning rate of an M x N matrix; original: sqrt(max(1, M / N)); "
            "match_rms_adamw: 0.2 sqrt(max(M, N)), the size of AdamW's updates",
            {.choices = {"original", "match_rms_adamw"}});
    v.field("matrices", self.matrices,
            "names or patterns of the parameters that are orthogonalised where they have two dims; "
            "all others are AdamW's");
    v.field("split_qkv", self.split_qkv,
            "orthogonalise the query's, the key's and the value's part of qkv.weight each by "
            "itself, not the three as one matrix");
    v.field("adamw_lr_scale", self.adamw_lr_scale, "AdamW's learning rate over lr", {.min = 0});
    v.field("betas", self.betas, "decay rates of AdamW's two moments, each in [0, 1)");
    v.field("eps", self.eps, "added to the root of AdamW's second moment", {.min = 0});
    v.field("weight_decay", self.weight_decay,
            "decoupled decay, times the learning rate; none for biases, norms and embeddings the "
            "model names",
            {.min = 0});
    GroupConfig::visit(v, self);
  }
  void validate(ConfigIssues& issues) const;
};

// Implementation chooses AdamW's loops. Throws ConfigError where `matrices` matches no matrix.
std::unique_ptr<Optimizer> make_muon(const MuonConfig& config, std::vector<ParamSpec> params,
                                     Implementation implementation = Implementation::kAuto);

}  // namespace fovea::optim
