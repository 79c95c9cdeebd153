#include "fovea/train/state/sharding.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <exception>
#include <map>
#include <optional>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/models/partitionings.h"
#include "fovea/models/registry.h"
#include "fovea/nn/give_data.h"
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

// What of a copy's tensors this rank saves, and as which parts.
class PartsToSave {
 public:
  PartsToSave(const std::vector<optim::ParamSpec>& params, const Sharing& sharing, HaveAlike alike)
      : specs_(by_name(params)), sharing_(sharing), each_(alike == HaveAlike::kEach) {}

  void add(const TensorMap& tensors, TensorMap& to,
           std::map<std::string, kernels::TensorPart>& parts) const {
    for (const auto& [key, tensor] : tensors) {
      const auto spec = specs_.find(param_of(key));
      if (spec != specs_.end() && is_part(tensor, *spec->second)) {
        if (!spec->second->is_counted && !each_) continue;  // another rank has the same part
        parts[key] = *spec->second->part;
        to[key] = tensor;
        continue;
      }
      const auto cut = spec == specs_.end() && sharing_.layers ? sharing_.layers->cut_of(key)
                                                               : std::nullopt;  // of a frozen one
      if (cut && (each_ || sharing_.owners().rank() == 0)) {
        parts[key] = kernels::all_of_cut(tensor.sizes(), *cut);
      }
      if (each_ || sharing_.is_first() || parts.contains(key)) to[key] = tensor;
    }
  }

 private:
  std::map<std::string, const optim::ParamSpec*> specs_;
  const Sharing& sharing_;
  bool each_;
};

// In the order of the shards, which is the same on all ranks.
std::vector<optim::ParamSpec> specs_of_shards(const parallel::ShardedParams& shards,
                                              const std::vector<optim::ParamSpec>& of_leaves) {
  const auto leaves = by_name(of_leaves);
  std::vector<optim::ParamSpec> specs;
  for (const auto& param : shards.params()) {
    auto& spec = specs.emplace_back(*leaves.at(param.name));
    if (!spec.part) spec.part = kernels::TensorPart{.shape = param.shape};
    spec.part->first = param.first;
    spec.param = param.part;
    spec.place = optim::FlatPlace{.buffers = shards.buffers(), .begin = param.begin};
  }
  return specs;
}

// What the ranks of tp have of whole weights, by name.
TensorMap cut_weights(const models::Model& model, const Sharing& sharing, const TensorMap& saved) {
  if (sharing.tp_size() == 1) return saved;
  auto result = saved;
  for (const auto& item : model.named_parameters()) {
    const auto cut = sharing.layers->cut_of(item.key());
    const auto found = result.find(item.key());
    if (!cut || found == result.end()) continue;
    // Others are no weights of this model; who compares shapes will say so.
    if (found->second.sizes() == kernels::all_of_cut(item.value().sizes(), *cut).shape) {
      found->second = kernels::take_cut(*cut, found->second);
    }
  }
  return result;
}

// Throws CheckpointError unless the saved weights, or what they are parts of, are the model's.
void check_whole_shapes(const models::Model& model, const Sharing& sharing,
                        const checkpoint::State& saved) {
  checkpoint::Shapes expected, found;
  for (const auto& item : model.named_parameters()) {
    const auto sizes = item.value().sizes();
    const auto cut = sharing.layers ? sharing.layers->cut_of(item.key()) : std::nullopt;
    expected[item.key()] = cut ? kernels::all_of_cut(sizes, *cut).shape : sizes.vec();
  }
  const auto parts = saved.parts.find("model");
  for (const auto& [name, tensor] : saved.model) {
    const bool is_part = parts != saved.parts.end() && parts->second.contains(name);
    found[name] = is_part ? parts->second.at(name).shape : tensor.sizes().vec();
  }
  checkpoint::check_same_shapes(expected, found);
}

// What is shared out to nobody, or over tp alone.
void give_rest(models::Model& model, const parallel::ParamValues& values) {
  for (const auto& item : model.named_parameters()) {
    if (item.value().is_meta()) nn::give_data(item.value(), values(item.key()));
  }
}

}  // namespace

void Sharing::sum(const at::Tensor& x, const std::string& what) const {
  if (shards != nullptr) owners().all_reduce(x, what);
  if (layers != nullptr) layers->tp().all_reduce(x, what);
}

std::unique_ptr<parallel::ShardedParams> make_shards(const TrainConfig& config,
                                                     models::Model& model,
                                                     const parallel::DeviceMesh& mesh,
                                                     const parallel::ParamValues& values) {
  auto& ranks = mesh.axis(parallel::MeshAxis::kDpShard);
  auto& copies = mesh.axis(parallel::MeshAxis::kDpReplicate);
  const auto& options = config.parallel;
  const bool has_outer_parts = options.shard_outer == "optimizer" && copies.size() > 1;
  std::unique_ptr<parallel::ShardedParams> shards;
  if (ranks.size() > 1 || has_outer_parts) {
    auto pieces = options.zero == 3 && ranks.size() > 1
                      ? parallel::pieces_by_unit(
                            model, {.min_num_params = options.min_num_params,
                                    .units = models::partitioning_of(config.model).units})
                      : parallel::pieces_by_size(model);
    if (options.param_dtype == "bfloat16") {
      pieces = parallel::gathered_in(std::move(pieces), at::kBFloat16);
    }
    shards = std::make_unique<parallel::ShardedParams>(
        std::move(pieces), ranks, copies,
        parallel::ShardOptions{
            .reduce_every_backward = options.zero >= 2 && ranks.size() > 1,
            .reshard_after_forward = options.reshard_after_forward,
            .cpu_offload = options.cpu_offload,
            .wire_dtype = options.reduce_dtype == "bfloat16" ? at::kBFloat16 : at::kFloat,
            .outer = has_outer_parts ? &mesh.data_parallel() : nullptr},
        values);
  }
  if (values) give_rest(model, values);
  return shards;
}

std::unique_ptr<optim::Optimizer> make_optimizer(const TrainConfig& config, models::Model& model,
                                                 const Sharing& sharing) {
  if (!sharing.is_on()) return make_optimizer(config, model);
  auto specs = optim::param_groups(model, config.optim);
  for (auto& spec : specs) {
    const auto cut = sharing.layers ? sharing.layers->cut_of(spec.name) : std::nullopt;
    if (cut) spec.part = kernels::all_of_cut(spec.param.sizes(), *cut);
    spec.is_counted = cut || sharing.tp_rank() == 0;
  }
  auto* const shards = sharing.shards;
  if (shards != nullptr) specs = specs_of_shards(*shards, specs);
  auto optimizer = optim::make_optimizer(config.optim, std::move(specs));
  optim::PartLinks links;
  links.sum = [sharing](const at::Tensor& x) { sharing.sum(x, "sums over parts"); };
  if (shards != nullptr) {
    links.changed = [shards](bool has_copy) {
      // An error on this rank alone: the others will hear of it, not join in.
      if (std::uncaught_exceptions() == 0) shards->values_changed(has_copy);
    };
  }
  optimizer->connect(std::move(links));
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
    result[key] =
        has_part ? kernels::take_part(*spec->second->part, tensor, own->second.sizes()) : tensor;
  }
  return result;
}

checkpoint::State state_of(const models::Model& model, optim::Optimizer& optimizer, optim::Ema* ema,
                           const Sharing& sharing, HaveAlike alike) {
  checkpoint::State state;
  TensorMap weights;
  for (const auto& item : model.named_parameters()) weights[item.key()] = item.value().detach();
  for (const auto& spec : optimizer.params()) weights[spec.name] = spec.param.detach();
  const PartsToSave own(optimizer.params(), sharing, alike);
  own.add(weights, state.model, state.parts["model"]);
  own.add(optimizer.state(), state.optimizer, state.parts["optimizer"]);
  if (ema != nullptr) own.add(ema->state(), state.ema, state.parts["ema"]);
  return state;
}

models::ModelPtr whole_model(const TrainConfig& config, const models::ModelPtr& model,
                             const optim::Optimizer& optimizer, const Sharing& sharing,
                             bool is_wanted) {
  if (!sharing.is_on()) return model;
  const at::NoGradGuard no_grad;
  TensorMap weights;
  const auto join = [&](const std::string& name, const kernels::TensorPart& part,
                        const at::Tensor& own, bool is_counted) {
    const auto whole =
        is_counted ? kernels::spread_part(part, own) : at::zeros(part.shape, own.options());
    sharing.sum(whole, "weights to write");
    if (is_wanted) weights[name] = whole;
  };
  for (const auto& item : model->named_parameters()) {
    if (item.value().requires_grad()) continue;
    const auto own = item.value().detach();
    const auto cut = sharing.layers ? sharing.layers->cut_of(item.key()) : std::nullopt;
    if (cut) {
      join(item.key(), kernels::all_of_cut(own.sizes(), *cut), own, sharing.owners().rank() == 0);
    } else {
      weights[item.key()] = own;
    }
  }
  for (const auto& spec : optimizer.params()) {
    if (spec.part) {
      join(spec.name, *spec.part, spec.param.detach(), spec.is_counted);
    } else {
      weights[spec.name] = spec.param.detach();
    }
  }
  if (!is_wanted) return nullptr;
  auto whole = models::build_model(config.model);
  checkpoint::copy_into(*whole, weights);
  return whole;
}

checkpoint::WantedParts wanted_parts(const models::Model& model, optim::Optimizer& optimizer,
                                     optim::Ema* ema, const Sharing& sharing) {
  checkpoint::WantedParts wanted;
  if (!sharing.is_on()) return wanted;
  const auto specs = by_name(optimizer.params());
  const auto add = [&](const TensorMap& own, const std::string& part) {
    for (const auto& [key, tensor] : own) {
      const auto spec = specs.find(param_of(key));
      if (spec == specs.end() || !is_part(tensor, *spec->second)) continue;
      wanted[part][key] = {*spec->second->part, tensor.sizes().vec()};
    }
  };
  TensorMap weights;
  for (const auto& spec : optimizer.params()) weights[spec.name] = spec.param;
  add(weights, "model");
  add(optimizer.state(), "optimizer");
  if (ema != nullptr) add(ema->state(), "ema");
  for (const auto& item : model.named_parameters()) {  // the frozen ones
    const auto cut = sharing.layers ? sharing.layers->cut_of(item.key()) : std::nullopt;
    if (!cut || specs.contains(item.key())) continue;
    const auto sizes = item.value().sizes();
    wanted["model"][item.key()] = {kernels::all_of_cut(sizes, *cut), sizes.vec()};
  }
  return wanted;
}

void load_into(models::Model& model, optim::Optimizer& optimizer, optim::Ema* ema,
               const Sharing& sharing, const checkpoint::State& saved) {
  if (ema == nullptr && !saved.ema.empty()) {
    fail<CheckpointError>(
        "the checkpoint has a moving average of {} weights, and this run has none; expected the "
        "same settings",
        saved.ema.size());
  }
  check_whole_shapes(model, sharing, saved);
  const auto weights = cut_weights(model, sharing, saved.model);
  const auto moments = optimizer.state();
  const auto steps = JsonValue(saved.scalars, saved.source).at("optimizer_steps");
  optimizer.load_state(parts_of(saved.optimizer, moments, optimizer.params()),
                       static_cast<int64_t>(steps.count()));
  if (ema != nullptr) ema->load_state(parts_of(saved.ema, ema->state(), optimizer.params()));
  if (sharing.shards == nullptr) return checkpoint::copy_into(model, weights);
  const at::NoGradGuard no_grad;
  for (const auto& spec : optimizer.params()) {
    const auto& values = saved.model.at(spec.name);
    spec.param.detach().copy_(values.sizes() == spec.shape()
                                  ? kernels::take_part(*spec.part, values, spec.param.sizes())
                                  : values);
  }
  for (const auto& item : model.named_parameters()) {
    if (!item.value().requires_grad()) item.value().copy_(weights.at(item.key()));
  }
  optimizer.mark_changed();
}

}  // namespace fovea::train
