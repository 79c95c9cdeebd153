#include "fovea/optim/flat_params.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/share_out.h"

namespace fovea::optim {
namespace {

constexpr int64_t kTileSize = 1 << 14;  // elements: four streams of it fit in a core's second cache

void check_param(const ParamSpec& spec, const at::Tensor& first) {
  const auto& param = spec.param;
  const bool is_float =
      param.defined() && (param.scalar_type() == at::kFloat || param.scalar_type() == at::kDouble);
  FOVEA_CHECK(is_float && param.is_leaf(), "optimizer: {} is {}; expected a float32 leaf",
              spec.name, param.defined() ? c10::toString(param.scalar_type()) : "undefined");
  FOVEA_CHECK(param.scalar_type() == first.scalar_type(),
              "optimizer: {} is {}, the first parameter {}; expected one dtype", spec.name,
              c10::toString(param.scalar_type()), c10::toString(first.scalar_type()));
  FOVEA_CHECK(param.device() == first.device(),
              "optimizer: {} is on {}, the first parameter on {}; expected one device", spec.name,
              param.device().str(), first.device().str());
}

}  // namespace

FlatParams::FlatParams(std::vector<ParamSpec> params) : params_(std::move(params)) {
  FOVEA_CHECK(!params_.empty(), "optimizer: no parameters to train; unfreeze some");
  std::set<const void*> seen;
  for (const auto& spec : params_) {
    check_param(spec, params_[0].param);
    FOVEA_CHECK(seen.insert(spec.param.unsafeGetTensorImpl()).second,
                "optimizer: {} is given twice; expected each parameter once", spec.name);
  }
  const at::NoGradGuard no_grad;
  if (params_[0].place) {
    take_over_buffers();
  } else {
    make_buffers();
  }
  grad_views_ = views(buffers_.gradients);
  grad();
}

void FlatParams::take_over_buffers() {
  buffers_ = params_[0].place->buffers;
  num_elements_ = buffers_.values.numel();
  for (const auto& spec : params_) {
    const auto& param = spec.param;
    FOVEA_CHECK(spec.place && param.is_alias_of(buffers_.values) &&
                    param.storage_offset() == spec.place->begin,
                "optimizer: {} is not where its flat buffer has it; expected all parameters in "
                "views of one buffer, or none",
                spec.name);
    segments_.push_back({spec.place->begin, param.numel()});
  }
}

void FlatParams::make_buffers() {
  for (const auto& spec : params_) {
    segments_.push_back({num_elements_, spec.param.numel()});
    num_elements_ += kernels::flat_size(spec.param.numel());
  }
  // Of parameters in pinned memory, which travel to a device and whose gradients come from there.
  const bool is_pinned = std::any_of(params_.begin(), params_.end(), [](const ParamSpec& spec) {
    return spec.param.is_cpu() && spec.param.is_pinned();
  });
  buffers_ = {.values = make_buffer(is_pinned), .gradients = make_buffer(is_pinned), .copy = {}};
  const auto param_views = views(buffers_.values);
  for (size_t i = 0; i < params_.size(); ++i) {
    param_views[i].copy_(params_[i].param);
    params_[i].param.set_data(param_views[i]);
  }
}

at::Tensor FlatParams::make_buffer(bool is_pinned) const {
  const auto& first = params_[0].param;
  const auto options = first.options().requires_grad(false).pinned_memory(is_pinned);
  return at::zeros({num_elements_}, options);
}

std::vector<at::Tensor> FlatParams::views(const at::Tensor& buffer) const {
  std::vector<at::Tensor> result;
  for (size_t i = 0; i < params_.size(); ++i) {
    result.push_back(kernels::flat_view(buffer, segments_[i].begin, params_[i].param.sizes()));
  }
  return result;
}

const at::Tensor& FlatParams::grad() {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < params_.size(); ++i) {
    kernels::move_gradient(params_[i].param, grad_views_[i]);
  }
  return buffers_.gradients;
}

void FlatParams::zero_grad() {
  if (params_[0].place) {
    for (const auto& spec : params_) spec.param.mutable_grad().reset();
    return;
  }
  grad();
  buffers_.gradients.zero_();
}

void FlatParams::mark_changed() {
  for (const auto& spec : params_) spec.param.unsafeGetTensorImpl()->bump_version();
}

void copy_by_name(const std::map<std::string, at::Tensor>& saved,
                  const std::map<std::string, at::Tensor>& target, const std::string& what) {
  for (const auto& [name, tensor] : saved) {
    if (!target.contains(name)) {
      fail<CheckpointError>(
          "{}: found '{}', which this run does not have; expected the same model and settings",
          what, name);
    }
  }
  for (const auto& [name, tensor] : target) {
    const auto found = saved.find(name);
    if (found == saved.end()) {
      fail<CheckpointError>("{}: '{}' is missing; expected the same model and settings", what,
                            name);
    }
    if (found->second.sizes() != tensor.sizes()) {
      fail<CheckpointError>("{}: '{}' has shape [{}], expected [{}]", what, name,
                            fmt::join(found->second.sizes(), ", "),
                            fmt::join(tensor.sizes(), ", "));
    }
  }
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : target) tensor.copy_(saved.at(name));
}

std::vector<Tile> tiles_of(const std::vector<Segment>& segments) {
  std::vector<Tile> tiles;
  for (size_t i = 0; i < segments.size(); ++i) {
    const int64_t end = segments[i].begin + segments[i].size;
    for (int64_t begin = segments[i].begin; begin < end; begin += kTileSize) {
      tiles.push_back({i, begin, std::min(begin + kTileSize, end)});
    }
  }
  return tiles;
}

void for_each_tile(const std::vector<Segment>& segments,
                   const std::function<void(size_t, int64_t, int64_t)>& body) {
  const auto tiles = tiles_of(segments);
  kernels::cpu::for_ranges(static_cast<int64_t>(tiles.size()), 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) body(tiles[i].segment, tiles[i].begin, tiles[i].end);
  });
}

}  // namespace fovea::optim
