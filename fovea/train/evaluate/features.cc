#include "fovea/train/evaluate/features.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/train/evaluate/eval_mode.h"
#include "fovea/train/evaluate/evaluation_parts.h"

namespace fovea::train {
namespace {

// Rows [begin, end) of a batch into the features of their samples.
void keep_features(models::Model& model, data::Batch& batch, int64_t begin, int64_t end,
                   const ComputeOptions& compute, SampleFeatures& out) {
  const auto tensors = to_tensors(batch, begin, end, compute);
  const auto features = features_of(model, tensors).to(at::kCPU);  // [b, F]
  if (!out.features.defined()) {
    const auto size = static_cast<int64_t>(out.labels.size());
    out.features = at::zeros({size, features.size(1)}, features.options());
  }
  for (int64_t row = begin; row < end; ++row) {
    const int64_t index = batch.indices[static_cast<size_t>(row)];
    if (index < 0) continue;  // it could not be read
    out.features[index].copy_(features[row - begin]);
    if (!batch.labels.empty()) {
      out.labels[static_cast<size_t>(index)] = batch.labels[static_cast<size_t>(row)];
    }
  }
}

// Each sample was read by one rank; on the others its features are zeros and its label is -1.
void join_features(SampleFeatures& part, parallel::Communicator& ranks) {
  ranks.all_reduce(part.features, "features");
  const auto size = static_cast<int64_t>(part.labels.size());
  ranks.all_reduce(at::from_blob(part.labels.data(), {size}, at::kLong), "labels",
                   parallel::ReduceOp::kMax);
  auto reasons = nlohmann::json::array();
  for (size_t i = 0; i < part.missing.size(); ++i) {
    if (!part.missing[i].empty())
      reasons.push_back(nlohmann::json::array({i, json_of_bytes(part.missing[i])}));
  }
  for (const auto& text : parallel::all_gather_text(ranks, to_bytes(reasons), "bad samples")) {
    for (const auto& one : json_from_bytes(text)) {
      part.missing[one.at(0).get<size_t>()] = bytes_of(one.at(1));
    }
  }
}

}  // namespace

at::Tensor features_of(models::Model& model, const TensorBatch& batch) {
  const at::NoGradGuard no_grad;
  const EvalModeScope eval_mode(model);
  return model.pooled_features(input_of(model, batch));
}

bool has_frozen_backbone(const TrainerConfig& config, const models::Model& model) {
  const auto& freeze = config.freeze;
  return model.has_classifier() &&
         std::find(freeze.begin(), freeze.end(), "backbone") != freeze.end();
}

std::vector<int64_t> SampleFeatures::labelled_rows() const {
  std::vector<int64_t> rows;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (missing[i].empty() && labels[i] >= 0) rows.push_back(static_cast<int64_t>(i));
  }
  return rows;
}

data::Loader loader_in_order(const data::LoaderSetup& setup) {
  auto options = setup.options;
  options.shuffle = false;
  options.drop_last = false;
  options.mixup.reset();
  options.num_repeats = 1;
  options.batch_schedule.clear();
  options.mix.mode = data::MixMode::kExact;
  if (options.bad_samples.policy == data::BadSamplePolicy::kSubstitute) {
    options.bad_samples.policy = data::BadSamplePolicy::kSkip;
  }
  return {setup.dataset, setup.transforms, options};
}

SampleFeatures collect_features(models::Model& model, const data::LoaderSetup& setup,
                                const FeaturePassOptions& options) {
  const auto size = static_cast<size_t>(setup.dataset->size());
  SampleFeatures out{.features = {},
                     .labels = std::vector<int64_t>(size, -1),
                     .missing = std::vector<std::string>(size)};
  auto loader = loader_in_order(setup);
  const int64_t total = loader.samples_per_epoch();
  for (int64_t done = 0; done < total;) {
    auto batch = loader.next();
    const int64_t micro = options.micro_batch_size > 0 ? options.micro_batch_size : batch.size();
    for (int64_t begin = 0; begin < batch.size(); begin += micro) {
      keep_features(model, batch, begin, std::min(batch.size(), begin + micro), options.compute,
                    out);
    }
    done += batch.global_size;
    loader.recycle(std::move(batch));
    if (options.on_progress) options.on_progress(done, total);
  }
  for (const auto& bad : loader.bad_samples()) {
    out.missing[static_cast<size_t>(bad.index)] = bad.reason;
  }
  if (options.ranks) join_features(out, *options.ranks);
  return out;
}

}  // namespace fovea::train
