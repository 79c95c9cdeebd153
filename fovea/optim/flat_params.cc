#include "fovea/optim/flat_params.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "fovea/core/error.h"

namespace fovea::optim {
namespace {

constexpr int64_t kAlignment = 16;      // elements: 64 bytes, a cache line and an AVX-512 register
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
    segments_.push_back({num_elements_, spec.param.numel()});
    num_elements_ += (spec.param.numel() + kAlignment - 1) / kAlignment * kAlignment;
  }
  const at::NoGradGuard no_grad;
  // Of parameters in pinned memory, which travel to a device and whose gradients come from there.
  const bool is_pinned = std::any_of(params_.begin(), params_.end(), [](const ParamSpec& spec) {
    return spec.param.is_cpu() && spec.param.is_pinned();
  });
  param_ = make_buffer(is_pinned);
  grad_ = make_buffer(is_pinned);
  grad_views_ = views(grad_);
  const auto param_views = views(param_);
  for (size_t i = 0; i < params_.size(); ++i) {
    param_views[i].copy_(params_[i].param);
    params_[i].param.set_data(param_views[i]);
  }
  grad();
}

at::Tensor FlatParams::make_buffer(bool is_pinned) const {
  const auto& first = params_[0].param;
  const auto options = first.options().requires_grad(false).pinned_memory(is_pinned);
  return at::zeros({num_elements_}, options);
}

std::vector<at::Tensor> FlatParams::views(const at::Tensor& buffer) const {
  // Below ADInplaceOrView a view has its own version counter, so that an in-place change of one
  // gradient says nothing of the others.
  const at::AutoDispatchBelowADInplaceOrView guard;
  std::vector<at::Tensor> result;
  for (size_t i = 0; i < params_.size(); ++i) {
    result.push_back(
        buffer.narrow(0, segments_[i].begin, segments_[i].size).view(params_[i].param.sizes()));
  }
  return result;
}

const at::Tensor& FlatParams::grad() {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < params_.size(); ++i) {
    auto& grad = params_[i].param.mutable_grad();
    if (grad.defined() && grad.is_same(grad_views_[i])) continue;
    if (grad.defined()) {
      grad_views_[i].copy_(grad);
    } else {
      grad_views_[i].zero_();
    }
    grad = grad_views_[i];
  }
  return grad_;
}

void FlatParams::zero_grad() {
  grad();
  grad_.zero_();
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
  at::parallel_for(0, static_cast<int64_t>(tiles.size()), 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) body(tiles[i].segment, tiles[i].begin, tiles[i].end);
  });
}

}  // namespace fovea::optim
