// Channels of a ViT that are variables: which ones a batch holds, and what that means for what
// stands around it. B batch, C variables of the model, C' of a batch.
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/ranges.h>

#include "fovea/core/error.h"
#include "fovea/models/variables.h"
#include "fovea/models/vit.h"

namespace fovea::models {

// x: [B, channels, ...] -> the indices of its channels in config_.variables.
std::vector<int64_t> Vit::ids_of(const at::Tensor& x,
                                 const std::vector<std::string>& channels) const {
  auto ids = variable_ids(config_, channels);
  if (x.size(1) == static_cast<int64_t>(ids.size())) return ids;
  fail<ConfigError>(
      "a batch of {} channels, {}, for a model of the variables [{}]; expected a name for each "
      "channel: give `variables` of a data set of format: mix, or predict's --variables",
      x.size(1),
      channels.empty() ? std::string("without names")
                       : fmt::format("named [{}]", fmt::join(channels, ", ")),
      fmt::join(config_.variables, ", "));
}

at::Tensor Vit::to_all_channels(const at::Tensor& x,
                                const std::vector<std::string>& channels) const {
  if (!config_.has_variables() || config_.single_channel) return x;
  const auto ids = variable_ids(config_, channels);
  std::vector<at::Tensor> all(config_.variables.size(), at::zeros_like(x.narrow(1, 0, 1)));
  for (size_t i = 0; i < ids.size(); ++i) {
    all[static_cast<size_t>(ids[i])] = x.narrow(1, static_cast<int64_t>(i), 1);
  }
  return at::cat(all, 1);
}

at::Tensor Vit::to_batch_channels(const at::Tensor& x,
                                  const std::vector<std::string>& channels) const {
  if (!config_.has_variables() || config_.single_channel) return x;
  return nn::take(x.unflatten(-1, {-1, config_.in_chans}), -1, variable_ids(config_, channels))
      .flatten(-2);
}

}  // namespace fovea::models
