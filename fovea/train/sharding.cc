#include "fovea/train/sharding.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <c10/util/accumulate.h>

#include <exception>
#include <map>
#include <utility>

#include "fovea/models/registry.h"
#include "fovea/optim/param_groups.h"
#include "fovea/train/session.h"

namespace fovea::train {
namespace {

using checkpoint::TensorMap;

// "exp_avg/blocks.0.norm1.weight" -> "blocks.0.norm1.weight"
std::string param_of(const std::string& key) { return key.substr(key.find('/') + 1); }

std::map<std::string, const optim::ParamSpec*> by_name(
    const std::vector<optim::ParamSpec>& params) {
  std::map<std::string, const optim::ParamSpec*> result;
  for (const auto& spec : params) result[spec.name] = &spec;
  return result;
}

bool is_part(const at::Tensor& tensor, const optim::ParamSpec& spec) {
  return spec.part && tensor.sizes() == spec.param.sizes();
}

// Adds `tensors` to `to`, with a note of those that are parts; `is_first`: this rank saves what all
// have alike.
void add_state(const TensorMap& tensors, const std::vector<optim::ParamSpec>& params, bool is_first,
               TensorMap& to, std::map<std::string, checkpoint::FlatPart>& parts) {
  const auto specs = by_name(params);
  for (const auto& [key, tensor] : tensors) {
    const auto spec = specs.find(param_of(key));
    if (spec != specs.end() && is_part(tensor, *spec->second)) {
      parts[key] = {spec->second->part->shape, spec->second->part->first};
      to[key] = tensor;
    } else if (is_first) {
      to[key] = tensor;
    }
  }
}

}  // namespace

std::unique_ptr<parallel::ShardedParams> make_shards(const parallel::ParallelConfig& config,
                                                     models::Model& model,
                                                     const parallel::DeviceMesh& mesh) {
  auto& ranks = mesh.axis(parallel::MeshAxis::kDpShard);
  if (ranks.size() == 1) return nullptr;
  auto pieces = config.zero == 3 ? parallel::pieces_by_unit(model, config.min_num_params)
                                 : parallel::pieces_by_size(model);
  if (config.param_dtype == "bfloat16") {
    pieces = parallel::gathered_in(std::move(pieces), at::kBFloat16);
  }
  return std::make_unique<parallel::ShardedParams>(
      std::move(pieces), ranks, mesh.axis(parallel::MeshAxis::kDpReplicate),
      parallel::ShardOptions{
          .reduce_every_backward = config.zero >= 2,
          .reshard_after_forward = config.reshard_after_forward,
          .wire_dtype = config.reduce_dtype == "bfloat16" ? at::kBFloat16 : at::kFloat});
}

std::unique_ptr<optim::Optimizer> make_optimizer(const TrainConfig& config, models::Model& model,
                                                 parallel::ShardedParams* shards) {
  if (shards == nullptr) return make_optimizer(config, model);
  std::map<std::string, optim::ParamSpec> groups;
  for (auto& spec : optim::param_groups(model, config.optim)) groups.emplace(spec.name, spec);
  std::vector<optim::ParamSpec> specs;
  for (const auto& param : shards->params()) {
    auto& spec = specs.emplace_back(groups.at(param.name));
    spec.param = param.part;
    spec.part = optim::ParamPart{.shape = param.shape, .first = param.first};
  }
  auto optimizer = optim::make_optimizer(config.optim, std::move(specs));
  optimizer->connect(
      {.sum = [shards](const at::Tensor& x) { shards->shards().all_reduce(x, "sums over parts"); },
       .changed =
           [shards] {
             // An error on this rank alone: the others will hear of it, not join in.
             if (std::uncaught_exceptions() == 0) shards->values_changed();
           }});
  return optimizer;
}

TensorMap parts_of(const TensorMap& saved, const TensorMap& target,
                   const std::vector<optim::ParamSpec>& params) {
  const auto specs = by_name(params);
  TensorMap result;
  for (const auto& [key, tensor] : saved) {
    const auto spec = specs.find(param_of(key));
    const auto own = target.find(key);
    const bool has_part = spec != specs.end() && own != target.end() &&
                          is_part(own->second, *spec->second) &&
                          tensor.sizes() == spec->second->shape();
    result[key] = has_part
                      ? tensor.reshape({-1}).narrow(0, spec->second->first(), own->second.numel())
                      : tensor;
  }
  return result;
}

checkpoint::State state_of(const models::Model& model, optim::Optimizer& optimizer, optim::Ema* ema,
                           const parallel::ShardedParams* shards) {
  checkpoint::State state;
  const bool is_first = shards == nullptr || shards->shards().rank() == 0;
  TensorMap weights;
  for (const auto& item : model.named_parameters()) weights[item.key()] = item.value().detach();
  if (shards != nullptr) {
    for (const auto& spec : optimizer.params()) weights[spec.name] = spec.param.detach();
  }
  const auto& params = optimizer.params();
  add_state(weights, params, is_first, state.model, state.parts["model"]);
  add_state(optimizer.state(), params, is_first, state.optimizer, state.parts["optimizer"]);
  if (ema != nullptr) add_state(ema->state(), params, is_first, state.ema, state.parts["ema"]);
  return state;
}

models::ModelPtr whole_model(const TrainConfig& config, const models::Model& model,
                             const optim::Optimizer& optimizer,
                             const parallel::ShardedParams& shards, bool is_wanted) {
  const at::NoGradGuard no_grad;
  const auto copy = is_wanted ? models::build_model(config.model) : nullptr;
  std::map<std::string, at::Tensor> targets;
  if (copy) {
    for (const auto& item : copy->named_parameters()) targets[item.key()] = item.value();
    for (const auto& item : model.named_parameters()) {
      if (!item.value().requires_grad()) targets.at(item.key()).copy_(item.value());
    }
  }
  for (const auto& spec : optimizer.params()) {
    const auto whole = at::zeros({c10::multiply_integers(spec.shape())}, spec.param.options());
    whole.narrow(0, spec.first(), spec.param.numel()).copy_(spec.param.detach());
    shards.shards().all_reduce(whole, "weights to write");
    if (copy) targets.at(spec.name).copy_(whole.view(spec.shape()));
  }
  return copy;
}

void load_into(models::Model& model, optim::Optimizer& optimizer, optim::Ema* ema,
               const parallel::ShardedParams* shards, const checkpoint::State& saved) {
  checkpoint::check_same_names_and_shapes(model, saved.model);
  const auto moments = optimizer.state();
  optimizer.load_state(parts_of(saved.optimizer, moments, optimizer.params()),
                       saved.scalars.at("optimizer_steps"));
  if (ema != nullptr) ema->load_state(parts_of(saved.ema, ema->state(), optimizer.params()));
  if (shards == nullptr) return checkpoint::copy_into(model, saved.model);
  const at::NoGradGuard no_grad;
  for (const auto& spec : optimizer.params()) {
    const auto whole = saved.model.at(spec.name).reshape({-1});
    spec.param.detach().copy_(whole.narrow(0, spec.first(), spec.param.numel()));
  }
  for (const auto& item : model.named_parameters()) {
    if (!item.value().requires_grad()) item.value().copy_(saved.model.at(item.key()));
  }
  optimizer.mark_changed();
}

}  // namespace fovea::train
