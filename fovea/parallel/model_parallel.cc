// T ranks of tp.
#include "fovea/parallel/model_parallel.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/nn/linear.h"
#include "fovea/nn/norm.h"
#include "fovea/parallel/drop_parts.h"

namespace fovea::parallel {
namespace {

using nn::UnitForward;
using Tensors = std::vector<at::Tensor>;
using NamedParams = std::vector<std::pair<std::string, at::Tensor>>;

std::string owner_of(const std::string& name) {
  const auto dot = name.rfind('.');
  return dot == name.npos ? "" : name.substr(0, dot);
}

bool is_below(const std::string& name, const std::vector<std::string>& paths) {
  return std::any_of(paths.begin(), paths.end(),
                     [&](const auto& path) { return name.starts_with(path + "."); });
}

// The innermost one that has the module at a path.
const nn::UnitImpl* unit_around(const nn::UnitsByPath& units, std::string path) {
  while (!path.empty()) {
    path = owner_of(path);
    if (const auto* found = units.find(path)) return *found;
  }
  return nullptr;
}

std::vector<std::string> paths_for_all_tokens(torch::nn::Module& model) {
  std::vector<std::string> paths;
  for (const auto& unit : nn::units_of(model)) {
    if (unit.value()->is_one_for_all_tokens()) paths.push_back(unit.key());
  }
  return paths;
}

// Gradients of those of these names become their sums over the ranks, in one exchange.
void sum_over(Communicator& ranks, const NamedParams& leaves, const std::set<std::string>& names,
              const char* what) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> grads, flat;
  for (const auto& [name, leaf] : leaves) {
    if (!names.contains(name)) continue;
    auto& grad = leaf.mutable_grad();
    if (!grad.defined()) grad = at::zeros_like(leaf);
    grads.push_back(grad);
    flat.push_back(grad.flatten());
  }
  if (grads.empty()) return;
  const auto sum = at::cat(flat);
  if (sum.numel() == 0) return;  // this rank has parts of other parameters alone
  ranks.all_reduce(sum, what);
  int64_t begin = 0;
  for (const auto& grad : grads) {
    grad.copy_(sum.narrow(0, begin, grad.numel()).view(grad.sizes()));
    begin += grad.numel();
  }
}

}  // namespace

ModelParallel::ModelParallel(torch::nn::Module& model, const Partitioning& partitioning,
                             const DeviceMesh& mesh, bool sequence_parallel, CpMethod cp_method)
    : tp_(mesh.axis(MeshAxis::kTp)),
      cp_(mesh.axis(MeshAxis::kCp)),
      sequence_{.cp = cp_, .sp = sequence_parallel ? tp_ : one_rank(), .cp_method = cp_method} {
  if (!is_on()) return;
  share_out_layers(model, partitioning);
  std::vector<std::string> regions;
  if (sequence_.is_on()) regions = share_out_tokens(model, partitioning, sequence_);
  share_out_drops(model, regions);
  if (!sequence_.is_on()) return;
  const auto for_all_tokens = paths_for_all_tokens(model);
  std::vector<std::string> names;
  for (const auto& item : model.named_parameters()) names.push_back(item.key());
  const auto rule_of = match_rules(partitioning, names);
  for (size_t i = 0; i < names.size(); ++i) {
    const auto& name = names[i];
    if (!is_below(name, regions) || is_below(name, for_all_tokens)) continue;
    if (cp_.size() > 1) partial_over_cp_.insert(name);
    // Heads and joined features are of all tokens of sp's ranks.
    const auto split = partitioning.rules[rule_of[i]].split;
    const bool sees_all = split == Split::kByHead || split == Split::kNormOfSplit;
    if (sequence_.sp.size() > 1 && !sees_all && !is_split(name)) {
      partial_over_tp_.insert(name);
    }
  }
}

void ModelParallel::share_out_layers(torch::nn::Module& model, const Partitioning& partitioning) {
  auto params = model.named_parameters();
  std::vector<std::string> names, in_regions;
  for (const auto& item : params) names.push_back(item.key());
  const auto rule_of = match_rules(partitioning, names);
  if (tp_.size() == 1) return;
  for (const auto& region : partitioning.regions) {
    in_regions.insert(in_regions.end(), region.units.begin(), region.units.end());
  }
  const auto modules = model.named_modules("", /*include_self=*/false);
  for (size_t i = 0; i < names.size(); ++i) {
    const auto& name = names[i];
    const auto& rule = partitioning.rules[rule_of[i]];
    if (rule.split == Split::kWhole) continue;
    if (rule.split == Split::kByHead) {
      partial_over_tp_.insert(name);
      continue;
    }
    auto& owner = *modules[owner_of(name)];
    if (name.ends_with(".weight")) {
      if (rule.split == Split::kNormOfSplit) {
        const Exchange exchange{tp_, name};
        dynamic_cast<nn::NormImpl&>(owner).around_forward.push_back(
            [exchange](const UnitForward& forward, const Tensors& inputs) {
              return exchange.split(forward({exchange.join(inputs[0], -1)}), -1);
            });
      } else {
        split_linear(owner, rule, is_below(name, in_regions));
      }
    }
    if (rule.split != Split::kNormOfSplit) split_parameter(name, params[name], rule);
  }
}

void ModelParallel::split_linear(torch::nn::Module& owner, const SplitRule& rule,
                                 bool is_in_region) {
  auto& linear = dynamic_cast<nn::LinearImpl&>(owner);
  const Exchange exchange{tp_, linear.path()};
  const bool shares_tokens = is_in_region && sequence_.sp.size() > 1;
  if (rule.split == Split::kColumn) {
    linear.input_transform = [this, exchange, shares_tokens](const at::Tensor& x) {
      return shares_tokens ? sequence_.before_columns(x) : exchange.sum_gradient(x);
    };
    return;
  }
  if (rule.split == Split::kRowOfWhole) {
    linear.input_transform = [exchange](const at::Tensor& x) { return exchange.split(x, -1); };
    linear.output_transform = [exchange](const at::Tensor& x) { return exchange.sum(x); };
    return;
  }
  linear.output_transform = [this, exchange, shares_tokens](const at::Tensor& x) {
    return shares_tokens ? sequence_.after_rows(x) : exchange.sum(x);
  };
}

void ModelParallel::split_parameter(const std::string& name, at::Tensor& param,
                                    const SplitRule& rule) {
  const bool is_column = rule.split == Split::kColumn;
  if (!is_column && param.dim() < 2) return;  // the bias of a row split is added once, to the sum
  const kernels::TensorCut how{.dim = is_column ? 0 : 1,
                               .blocks = is_column ? rule.blocks : 1,
                               .index = tp_.rank(),
                               .count = tp_.size(),
                               .lead = rule.lead};
  const auto rest = param.size(how.dim) - how.lead;
  const bool is_even = rest % (how.blocks * tp_.size()) == 0 && how.lead % tp_.size() == 0;
  FOVEA_CHECK(is_even && !param.grad().defined(),
              "{} has {} entries along dim {}, {} in front of {} blocks; expected multiples of tp "
              "{}, and no gradient yet",
              name, param.size(how.dim), how.dim, how.lead, how.blocks, tp_.size());
  const at::NoGradGuard no_grad;
  param.set_data(kernels::take_cut(how, param.detach()));
  split_[name] = how;
}

// Of the units that have columns of a Linear, and of those in regions, whose tokens are shared out.
void ModelParallel::share_out_drops(torch::nn::Module& model,
                                    const std::vector<std::string>& regions) {
  const auto units = nn::units_of(model);
  std::set<const nn::UnitImpl*> with_columns;
  for (const auto& [name, how] : split_) {
    const bool is_column = how.dim == 0 && name.ends_with(".weight");
    if (is_column) with_columns.insert(unit_around(units, owner_of(name)));
  }
  for (const auto& item : units) {
    auto* unit = item.value();
    const bool has_columns = with_columns.contains(unit);
    const bool is_in_region = is_below(item.key() + ".", regions);
    if (!has_columns && !is_in_region) continue;
    parallel::share_out_drops(*unit, {.layers = has_columns ? tp_ : one_rank(),
                                      .cp = is_in_region ? cp_ : one_rank(),
                                      .sp = is_in_region ? sequence_.sp : one_rank()});
  }
}

std::optional<kernels::TensorCut> ModelParallel::cut_of(const std::string& name) const {
  const auto found = split_.find(name);
  return found == split_.end() ? std::nullopt : std::optional(found->second);
}

void ModelParallel::sum_gradients(const NamedParams& leaves) const {
  sum_over(tp_, leaves, partial_over_tp_, "gradients of shared parameters over tp");
  sum_over(cp_, leaves, partial_over_cp_, "gradients over cp");
}

double ModelParallel::max_over_ranks(double number) const {
  return parallel::max_over_ranks(cp_, parallel::max_over_ranks(tp_, number, "over tp"), "over cp");
}

}  // namespace fovea::parallel
