// B batch.
#include "fovea/train/diffusion/evaluation.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/data/image/png.h"
#include "fovea/train/diffusion/sample_grid.h"
#include "fovea/train/diffusion/sampler.h"

namespace fovea::train {
namespace {

constexpr uint64_t kShownSeed = 0;  // the same noise in each evaluation, so that pictures compare
constexpr uint64_t kFidSeed = 1;
constexpr int64_t kFidBatch = 64;

}  // namespace

DiffusionEvaluation::DiffusionEvaluation(const DiffusionConfig& config,
                                         const models::InputSpec& input)
    : config_(config) {
  if (config.fid_backbone.empty()) return;
  backbone_ = std::make_unique<FeatureBackbone>(config.fid_backbone, input.in_chans,
                                                static_cast<int64_t>(input.img_size.size()));
}

// images: [B, C, ...] within the value range -> [B, F].
at::Tensor DiffusionEvaluation::features(const at::Tensor& images) {
  const auto pixels = (images.to(at::kFloat) / config_.value_range + 1) / 2;
  return backbone_->features(pixels.clamp(0, 1));
}

void DiffusionEvaluation::add(const TensorBatch& batch, const LossParts& parts) {
  compute_ = (batch.patches.tokens.defined() ? batch.patches.tokens : batch.images).options();
  auto losses = parts.outputs.to(at::kCPU, at::kDouble);  // [B]
  auto images = batch.images;
  if (batch.weights.defined()) {
    const auto counted = batch.weights.to(at::kCPU).gt(0).nonzero().squeeze(1);
    losses = losses.index_select(0, counted);
    images = images.index_select(0, counted.to(images.device()));
  }
  loss_sum_ += losses.sum().item<double>();
  num_samples_ += losses.size(0);
  if (backbone_) real_.add(features(images));
}

nlohmann::json DiffusionEvaluation::part() const {
  return {{"loss_sum", loss_sum_}, {"num_samples", num_samples_}, {"real", real_.to_json()}};
}

void DiffusionEvaluation::join(const std::vector<nlohmann::json>& parts) {
  loss_sum_ = 0;
  num_samples_ = 0;
  real_ = {};
  for (const auto& part : parts) {
    loss_sum_ += part.at("loss_sum").get<double>();
    num_samples_ += part.at("num_samples").get<int64_t>();
    real_.add(FeatureMoments::from_json(part.at("real")));
  }
}

at::Tensor DiffusionEvaluation::draw(const models::DiffusionVit& model, int64_t first,
                                     int64_t count, uint64_t seed) const {
  SampleRequest request{.first = first,
                        .count = count,
                        .seed = seed,
                        .value_range = config_.value_range,
                        .sampler = config_.sampler};
  if (const auto classes = model.num_classes(); classes > 0) {
    for (int64_t i = 0; i < count; ++i) request.classes.push_back((first + i) % classes);
  }
  return draw_samples(model, NoiseSchedule(config_.schedule_options()),
                      prediction_type_from_name(config_.prediction), request, compute_);
}

void DiffusionEvaluation::finish(models::Model& model) {
  const auto& denoiser = *model.as_denoiser();
  num_classes_ = model.num_classes();
  if (config_.num_samples > 0) samples_ = draw(denoiser, 0, config_.num_samples, kShownSeed);
  if (!backbone_) return;
  FeatureMoments generated;
  for (int64_t first = 0; first < config_.fid_samples; first += kFidBatch) {
    const auto count = std::min(kFidBatch, config_.fid_samples - first);
    generated.add(features(draw(denoiser, first, count, kFidSeed).to(compute_.device())));
  }
  fid_ = frechet_distance(real_, generated);
}

std::map<std::string, double> DiffusionEvaluation::metrics() const {
  std::map<std::string, double> metrics = {
      {"loss", loss_sum_ / static_cast<double>(std::max<int64_t>(1, num_samples_))}};
  if (fid_) metrics["fid"] = *fid_;
  return metrics;
}

void DiffusionEvaluation::describe(EvaluationFile& file, const data::Dataset& dataset) const {
  file.class_names = dataset.class_names();
  if (!samples_.defined()) return;
  const auto columns =
      num_classes_ > 0
          ? std::min<int64_t>(num_classes_, 20)
          : static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(samples_.size(0)))));
  const auto png = data::encode_png(sample_grid(samples_, columns, config_.value_range));
  auto caption =
      fmt::format("{}, {} steps, fixed noise", config_.sampler.kind, config_.sampler.steps);
  if (num_classes_ > 0) {
    caption += fmt::format("; sample i is of class i mod {}, guidance {}", num_classes_,
                           config_.sampler.guidance);
  }
  file.pictures.push_back({.title = fmt::format("{} samples", samples_.size(0)),
                           .caption = caption,
                           .image_png = {png.begin(), png.end()}});
}

}  // namespace fovea::train
