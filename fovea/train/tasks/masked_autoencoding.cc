// B batch, N patches, L values of a patch.
#include "fovea/train/tasks/masked_autoencoding.h"

#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <c10/util/accumulate.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/core/philox.h"
#include "fovea/data/image/png.h"
#include "fovea/nn/patchify.h"
#include "fovea/train/evaluate/evaluation_parts.h"
#include "fovea/train/evaluate/reconstruction_picture.h"
#include "fovea/train/tasks/adaptive_autoencoding.h"
#include "fovea/train/tasks/tensor_batch.h"

namespace fovea::train {
namespace {

constexpr size_t kShownReconstructions = 8;

const models::Mae& require_mae(const models::Model& model) {
  const auto* mae = model.as_autoencoder();
  if (!mae) {
    fail<ConfigError>(
        "task: masked_autoencoding needs a model that masks patches and predicts them; expected "
        "model.name: mae");
  }
  return *mae;
}

at::ScalarType sum_dtype(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// The mean squared error of each patch: [B, N].
at::Tensor patch_losses(const at::Tensor& predictions, const at::Tensor& targets) {
  return (predictions.to(targets.scalar_type()) - targets).square().mean(-1);
}

// 1 where a patch counts: [B, N]. weights: [B], or undefined.
at::Tensor counted_patches(const at::Tensor& mask, bool counts_all, const at::Tensor& weights) {
  const auto counted = counts_all ? at::ones_like(mask) : mask;
  return weights.defined() ? counted * weights.unsqueeze(1).to(mask.device(), mask.scalar_type())
                           : counted;
}

}  // namespace

PatchMoments patch_moments(const at::Tensor& patches) {
  constexpr double kEps = 1e-6;
  return {.mean = patches.mean(-1, /*keepdim=*/true),
          .deviation = (patches.var(-1, /*unbiased=*/true, /*keepdim=*/true) + kEps).sqrt()};
}

at::Tensor autoencoding_targets(const at::Tensor& images, at::IntArrayRef patch_size,
                                bool norm_pix_loss) {
  const auto patches = nn::patchify(images.to(sum_dtype(images)), patch_size);  // [B, N, L]
  if (!norm_pix_loss) return patches;
  const auto moments = patch_moments(patches);
  return (patches - moments.mean) / moments.deviation;
}

LossParts autoencoding_loss(const at::Tensor& images, const at::Tensor& predictions,
                            const PatchesMasked& masked, at::IntArrayRef patch_size,
                            const MaskedAutoencodingConfig& config, const at::Tensor& weights) {
  const auto targets = autoencoding_targets(images, patch_size, config.norm_pix_loss);  // [B, N, L]
  const bool counts_all = config.loss_on != "masked";
  const auto counted =
      counted_patches(masked.mask.to(predictions.device()), counts_all, weights);  // [B, N]
  LossParts parts;
  parts.loss_sum = (patch_losses(predictions, targets) * counted).sum();
  parts.outputs = predictions.detach();
  if (!weights.defined() && (counts_all || masked.count)) {  // nobody waits for the device
    parts.weight = static_cast<double>(counts_all ? counted.numel() : *masked.count);
  } else {
    parts.weight = counted.sum(at::kDouble).item<double>();
  }
  return parts;
}

at::Tensor reconstruct(const at::Tensor& images, const at::Tensor& predictions,
                       const at::Tensor& mask, at::IntArrayRef patch_size, bool norm_pix_loss) {
  const auto patches =
      autoencoding_targets(images, patch_size, /*norm_pix_loss=*/false);  // [B, N, L]
  auto predicted = predictions.to(patches.scalar_type());
  if (norm_pix_loss) {
    const auto moments = patch_moments(patches);
    predicted = predicted * moments.deviation + moments.mean;
  }
  return nn::unpatchify(at::where(mask.unsqueeze(-1) > 0, predicted, patches), patch_size,
                        images.sizes().slice(2));
}

at::Tensor hide_patches(const at::Tensor& images, const at::Tensor& mask,
                        at::IntArrayRef patch_size) {
  const auto patches =
      autoencoding_targets(images, patch_size, /*norm_pix_loss=*/false)
          .masked_fill(mask.unsqueeze(-1) > 0, std::numeric_limits<double>::quiet_NaN());
  return nn::unpatchify(patches, patch_size, images.sizes().slice(2));
}

at::Tensor keep_patches_of_samples(const models::MaeConfig& model, const at::Tensor& indices,
                                   int64_t num_patches) {
  const kernels::DropKey key{philox_key(0, "masked_autoencoding.evaluation"), 0, indices};
  return models::keep_patches(model, key, num_patches);
}

MaskedAutoencodingTask::MaskedAutoencodingTask(const MaskedAutoencodingConfig& config,
                                               const models::Model& model)
    : config_(config), model_(require_mae(model).config()) {
  const auto& vit = model_.encoder.vit;
  if (config.norm_pix_loss && vit.in_chans * c10::multiply_integers(vit.patch_sides()) < 2) {
    fail<ConfigError>(
        "task.norm_pix_loss: found true with patches of one value, which have no deviation; use a "
        "larger patch_size, or false");
  }
  if (!vit.is_adaptive() && (config.loss_on == "all_and_padding" || config.loss_space == "image")) {
    fail<ConfigError>(
        "task.{}: found {}, which is for adaptive patches, but model.encoder.patching is grid; use "
        "{}",
        config.loss_space == "image" ? "loss_space" : "loss_on",
        config.loss_space == "image" ? config.loss_space : config.loss_on,
        config.loss_space == "image" ? "tokens" : "masked or all");
  }
  if (config.loss_space == "image" && config.norm_pix_loss) {
    fail<ConfigError>(
        "task.loss_space: found image with norm_pix_loss, whose targets are no pixels; use "
        "loss_space: tokens, or norm_pix_loss: false");
  }
  // The mask token passes a linear map alone: what it predicts is the same for every image.
  if (model_.linear_decoder && config.loss_on == "masked") {
    fail<ConfigError>(
        "task.loss_on: found masked with model.linear_decoder, which predicts one constant patch "
        "wherever the image is masked, so that the encoder would learn nothing; use loss_on: all, "
        "or linear_decoder: false");
  }
}

LossParts MaskedAutoencodingTask::loss(models::Model& model, const TensorBatch& batch) const {
  const auto& mae = *model.as_autoencoder();
  if (mae.takes_patches()) return loss_of_patches(mae, batch);
  const auto num_patches = mae.num_patches(batch.images);
  const auto ids_keep = mae.is_training()
                            ? mae.keep_patches(num_patches, batch.images.device())
                            : keep_patches_of_samples(model_, batch.indices, num_patches);
  const auto predictions = mae.predict(input_of(model, batch), {ids_keep});  // [B, N, L]
  const PatchesMasked masked{.mask = models::patch_mask(ids_keep, num_patches),
                             .count = ids_keep.size(0) * (num_patches - ids_keep.size(1))};
  return autoencoding_loss(batch.images, predictions, masked, model_.encoder.vit.patch_sides(),
                           config_, batch.weights);
}

LossParts MaskedAutoencodingTask::loss_of_patches(const models::Mae& mae,
                                                  const TensorBatch& batch) const {
  const auto& patches = batch.patches;
  const auto input = input_of(mae, batch);
  const auto seen = mae.is_training() ? models::see_patches(model_, mae.drop_key("mask"),
                                                            models::real_patches(patches))
                                      : see_patches_of_samples(model_, batch.indices, patches);
  return adaptive_autoencoding_loss(batch, mae.predict(input, seen), seen, config_);
}

std::unique_ptr<Evaluation> MaskedAutoencodingTask::start_evaluation() const {
  return std::make_unique<MaskedAutoencodingEvaluation>(config_, model_);
}

MaskedAutoencodingEvaluation::MaskedAutoencodingEvaluation(const MaskedAutoencodingConfig& config,
                                                           const models::MaeConfig& model)
    : config_(config),
      model_(model),
      lowest_(std::numeric_limits<double>::infinity()),
      highest_(-std::numeric_limits<double>::infinity()) {}

void MaskedAutoencodingEvaluation::add(const TensorBatch& batch, const LossParts& parts) {
  const auto predictions = parts.outputs.to(at::kCPU);  // [B, N, L]
  const auto weights = batch.weights.defined()
                           ? batch.weights.to(at::kCPU)
                           : at::ones_like(predictions.select(2, 0).select(1, 0), at::kFloat);
  if (model_.encoder.vit.is_adaptive()) {
    add_adaptive(batch, predictions, weights);
  } else {
    add_grid(batch, predictions, weights);
  }
}

void MaskedAutoencodingEvaluation::add_grid(const TensorBatch& batch, const at::Tensor& predictions,
                                            const at::Tensor& weights) {
  const auto patch = model_.encoder.vit.patch_sides();
  auto images = batch.images.to(at::kCPU);
  images = images.to(sum_dtype(images));
  const auto targets = autoencoding_targets(images, patch, config_.norm_pix_loss);  // [B, N, L]
  const auto num_patches = targets.size(1);
  const auto mask = models::patch_mask(keep_patches_of_samples(model_, batch.indices, num_patches),
                                       num_patches);                                 // [B, N]
  const auto counted = counted_patches(mask, config_.loss_on != "masked", weights);  // [B, N]
  const auto losses = patch_losses(predictions, targets);                            // [B, N]
  add_losses(losses, counted);
  add_places(targets, counted, batch.variables);
  const auto hide = [&](int64_t b) {
    return hide_patches(images.narrow(0, b, 1), mask.narrow(0, b, 1), patch)[0];
  };
  add_pictures({.images = images,
                .restored = reconstruct(images, predictions, mask, patch, config_.norm_pix_loss),
                .hide = hide,
                .losses = (losses * mask).sum(1) / mask.sum(1),
                .num_masked_values = mask.sum(1) * static_cast<double>(targets.size(2))},
               batch.indices, weights);
}

void MaskedAutoencodingEvaluation::add_adaptive(const TensorBatch& batch,
                                                const at::Tensor& predictions,
                                                const at::Tensor& weights) {
  auto on_cpu = batch;
  on_cpu.images = images_on_host(batch);
  on_cpu.images = on_cpu.images.to(sum_dtype(on_cpu.images));
  on_cpu.weights = weights;
  on_cpu.patches = {.tokens = batch.patches.tokens.to(at::kCPU),
                    .sizes = batch.patches.sizes.to(at::kCPU),
                    .centers = batch.patches.centers.to(at::kCPU),
                    .padding = batch.patches.padding.to(at::kCPU)};
  const auto& patches = on_cpu.patches;
  const auto seen = see_patches_of_samples(model_, batch.indices, patches);
  const auto losses = adaptive_patch_losses(on_cpu, predictions, config_);    // [B, L]
  const auto counted = counted_adaptive_patches(on_cpu, seen, config_);       // [B, L]
  const auto mask = models::patch_mask(seen, models::real_patches(patches));  // [B, L]
  add_losses(losses, counted);
  if (config_.loss_space == "tokens")
    add_places(adaptive_targets(patches.tokens, config_.norm_pix_loss), counted, batch.variables);
  const auto pictures = restore_adaptive(on_cpu, predictions, seen, config_.norm_pix_loss);
  add_pictures({.images = on_cpu.images,
                .restored = pictures.restored,
                .hide = [&](int64_t b) { return pictures.hidden[b]; },
                .losses = (losses * mask).sum(1) / mask.sum(1).clamp_min(1),
                .num_masked_values = pictures.hidden.isnan().flatten(1).sum(1)},
               batch.indices, weights);
}

void MaskedAutoencodingEvaluation::add_losses(const at::Tensor& losses, const at::Tensor& counted) {
  loss_sum_ += (losses * counted).sum(at::kDouble).item<double>();
  weight_ += counted.sum(at::kDouble).item<double>();
}

void MaskedAutoencodingEvaluation::add_places(const at::Tensor& targets, const at::Tensor& counted,
                                              const std::vector<std::string>& variables) {
  const auto count = counted.to(at::kDouble).unsqueeze(-1);  // [B, N, 1]
  const auto values = targets.to(at::kDouble);               // [B, N, L]
  add_places(variables, {.count = count.sum(0),
                         .sum = (values * count).sum(0),
                         .squares = (values.square() * count).sum(0)});
}

void MaskedAutoencodingEvaluation::add_places(const std::vector<std::string>& variables,
                                              const PlaceSums& added) {
  const auto [found, is_new] = places_.emplace(variables, added);
  if (is_new) return;
  auto& places = found->second;
  has_equal_sizes_ = has_equal_sizes_ && places.sum.sizes() == added.sum.sizes();
  if (!has_equal_sizes_) return;
  places.count += added.count;
  places.sum += added.sum;
  places.squares += added.squares;
}

nlohmann::json MaskedAutoencodingEvaluation::part() const {
  auto places = nlohmann::json::array(), shown = nlohmann::json::array();
  for (const auto& [variables, sums] : places_) {
    places.push_back({{"variables", variables},
                      {"count", json_of(sums.count)},
                      {"sum", json_of(sums.sum)},
                      {"squares", json_of(sums.squares)}});
  }
  for (const auto& one : shown_) {
    const auto& picture = one.picture;
    shown.push_back({{"index", one.index},
                     {"loss", one.loss},
                     {"size", {picture.height, picture.width, picture.channels}},
                     {"pixels", json_of_bytes({picture.pixels.begin(), picture.pixels.end()})}});
  }
  return {{"sums", {loss_sum_, weight_, squared_error_, num_masked_values_}},
          {"range", {lowest_, highest_}},
          {"num_samples", num_samples_},
          {"has_equal_sizes", has_equal_sizes_},
          {"places", places},
          {"shown", shown}};
}

void MaskedAutoencodingEvaluation::join(const std::vector<nlohmann::json>& parts) {
  auto all = MaskedAutoencodingEvaluation(config_, model_);
  for (const auto& part : parts) {
    const auto& sums = part.at("sums");
    all.loss_sum_ += sums.at(0).get<double>();
    all.weight_ += sums.at(1).get<double>();
    all.squared_error_ += sums.at(2).get<double>();
    all.num_masked_values_ += sums.at(3).get<double>();
    all.lowest_ = std::min(all.lowest_, part.at("range").at(0).get<double>());
    all.highest_ = std::max(all.highest_, part.at("range").at(1).get<double>());
    all.num_samples_ += part.at("num_samples").get<int64_t>();
    all.has_equal_sizes_ = all.has_equal_sizes_ && part.at("has_equal_sizes").get<bool>();
    for (const auto& places : part.at("places")) {
      all.add_places(places.at("variables").get<std::vector<std::string>>(),
                     {.count = tensor_of(places.at("count")),
                      .sum = tensor_of(places.at("sum")),
                      .squares = tensor_of(places.at("squares"))});
    }
    for (const auto& one : part.at("shown")) {
      const auto pixels = bytes_of(one.at("pixels"));
      Shown shown{.index = one.at("index"), .loss = one.at("loss"), .picture = {}};
      shown.picture.height = one.at("size").at(0);
      shown.picture.width = one.at("size").at(1);
      shown.picture.channels = one.at("size").at(2);
      shown.picture.pixels.assign(pixels.begin(), pixels.end());
      all.shown_.push_back(std::move(shown));
    }
  }
  all.shown_ = spread_evenly(std::move(all.shown_), 2 * kShownReconstructions);
  *this = std::move(all);
}

std::map<std::string, double> MaskedAutoencodingEvaluation::metrics() const {
  std::map<std::string, double> metrics;
  metrics["loss"] = loss_sum_ / std::max(weight_, 1.0);
  const double error = squared_error_ / std::max(num_masked_values_, 1.0);
  const double range = highest_ - lowest_;
  metrics["psnr"] = 10 * std::log10(range * range / error);
  if (!places_.empty() && has_equal_sizes_) {
    double sum = 0;
    for (const auto& [variables, places] : places_) {
      const auto around_mean =
          places.squares - places.sum.square() / places.count.clamp_min(1);  // [N, L]
      sum += around_mean.sum().item<double>() / static_cast<double>(around_mean.size(1));
    }
    metrics["loss_mean_image"] = sum / std::max(weight_, 1.0);
  }
  return metrics;
}

// Every stride-th sample; the stride doubles, and half of the pictures go, when there are too many.
bool MaskedAutoencodingEvaluation::is_shown_next() {
  const bool is_shown = num_samples_ % stride_ == 0;
  num_samples_ += 1;
  if (!is_shown || shown_.size() < 2 * kShownReconstructions) return is_shown;
  for (size_t i = 1; i < kShownReconstructions; ++i) shown_[i] = std::move(shown_[2 * i]);
  shown_.resize(kShownReconstructions);
  stride_ *= 2;
  return (num_samples_ - 1) % stride_ == 0;
}

void MaskedAutoencodingEvaluation::add_pictures(const Pictures& pictures, const at::Tensor& indices,
                                                const at::Tensor& weights) {
  const auto& images = pictures.images;
  const auto errors =
      (pictures.restored - images).square().flatten(1).sum(1, false, at::kDouble);  // [B]
  squared_error_ += (errors * weights).sum(at::kDouble).item<double>();
  num_masked_values_ += (pictures.num_masked_values * weights).sum(at::kDouble).item<double>();
  lowest_ = std::min(lowest_, images.min().item<double>());
  highest_ = std::max(highest_, images.max().item<double>());
  for (int64_t b = 0; b < images.size(0); ++b) {
    if (weights[b].item<double>() == 0 || !is_shown_next()) continue;
    shown_.push_back(
        {.index = indices[b].item<int64_t>(),
         .loss = pictures.losses[b].item<double>(),
         .picture = side_by_side({images[b], pictures.hide(b), pictures.restored[b]})});
  }
}

void MaskedAutoencodingEvaluation::describe(EvaluationFile& file,
                                            const data::Dataset& dataset) const {
  const auto count = std::min(shown_.size(), kShownReconstructions);
  for (size_t i = 0; i < count; ++i) {
    const auto& one = shown_[i * shown_.size() / count];
    const auto png = data::encode_png(one.picture);
    file.pictures.push_back(
        {.title = dataset.describe(one.index),
         .caption = fmt::format("input, masked, reconstruction; loss {:.3g} of the masked patches",
                                one.loss),
         .image_png = {png.begin(), png.end()}});
  }
}

}  // namespace fovea::train
