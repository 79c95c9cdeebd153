// Channels of a ViT that are variables: which ones a batch holds, and what that means for what
// stands around it. B batch, C variables of the model, C' of a batch.
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/ranges.h>

#include "fovea/core/error.h"
#include "fovea/models/variables.h"
#include "fovea/models/vit.h"

namespace fovea::models {

// x: [B, channels, ...]
void Vit::check_num_channels(const at::Tensor& x) const {
  if (!variable_embed_ || x.size(1) == static_cast<int64_t>(channel_ids_.size())) return;
  fail<ConfigError>(
      "a batch of {} channels, {}, for a model of the variables [{}]; expected a name for each "
      "channel: give `variables` of a data set of format: mix, or predict's --variables",
      x.size(1),
      channels_.empty() ? std::string("without names")
                        : fmt::format("named [{}]", fmt::join(channels_, ", ")),
      fmt::join(config_.variables, ", "));
}

void Vit::set_channels(const std::vector<std::string>& names) {
  if (!config_.has_variables()) return;
  channel_ids_ = variable_ids(config_, names);
  channels_ = names;
}

at::Tensor Vit::to_all_channels(const at::Tensor& x) const {
  if (!config_.has_variables() || config_.single_channel) return x;
  std::vector<at::Tensor> channels(config_.variables.size(), at::zeros_like(x.narrow(1, 0, 1)));
  for (size_t i = 0; i < channel_ids_.size(); ++i) {
    channels[static_cast<size_t>(channel_ids_[i])] = x.narrow(1, static_cast<int64_t>(i), 1);
  }
  return at::cat(channels, 1);
}

at::Tensor Vit::to_batch_channels(const at::Tensor& x) const {
  if (!config_.has_variables() || config_.single_channel) return x;
  return nn::take(x.unflatten(-1, {-1, config_.in_chans}), -1, channel_ids_).flatten(-2);
}

}  // namespace fovea::models
