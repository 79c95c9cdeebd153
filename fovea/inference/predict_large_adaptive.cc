// K classes, L patches, S = p^2 values of a patch, H, W sides of the image.
#include "fovea/inference/predict_large_adaptive.h"

#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <deque>

#include "fovea/core/error.h"
#include "fovea/core/log.h"
#include "fovea/data/adaptive/leaf_sweep.h"
#include "fovea/data/batch/adaptive_patch_filler.h"
#include "fovea/data/large_image/with_channels.h"
#include "fovea/data/transforms/image/pipeline.h"
#include "fovea/inference/pass.h"
#include "fovea/models/segmenter.h"

namespace fovea::inference {
namespace {

void check_model(const train::Inference& inference, const std::string& name) {
  const auto* segmenter = inference.model->as_segmenter();
  if (segmenter == nullptr || !segmenter->gives_patches()) {
    fail<ConfigError>(
        "{}: a mask by adaptive patches, of a model that gives none for patches; expected sap",
        name);
  }
  if (inference.config && inference.config->data.adaptive_patching) return;
  fail<ConfigError>(
      "{}: the model takes adaptive patches, but its run has no data.adaptive_patching that would "
      "say how the image is cut; expected a run whose recipe has it",
      name);
}

// What the images of a run are before they are cut: their own pixels.
const data::TransformPipeline& pipeline_of(const train::Inference& inference,
                                           const std::string& name) {
  using Images = std::shared_ptr<const data::TransformPipeline>;
  const auto* images = std::get_if<Images>(&inference.transforms);
  const auto keeps_pixels = [](const data::AnyTransformConfig& transform) {
    return transform.get_if<data::NormalizeConfig>() != nullptr;
  };
  const auto& list = inference.transform_list;
  if (images != nullptr && std::all_of(list.begin(), list.end(), keeps_pixels)) return **images;
  std::vector<std::string> others;
  for (const auto& transform : list) {
    if (!keeps_pixels(transform)) others.emplace_back(transform.name());
  }
  fail<ConfigError>(
      "{}: the transforms of data.val make another image of it ({}), but one that does not fit "
      "into memory is cut as it is; expected `normalize` alone: leave the others out, or predict "
      "a smaller copy of the image",
      name, fmt::join(others, ", "));
}

// Rows of all walks down an image, the way back among them.
class WalkedRows {
 public:
  WalkedRows(int64_t walks, int64_t height, const LargeProgress& on_progress)
      : total_(walks * height), height_(height), on_progress_(on_progress) {}

  // One that begins at the first row again is the next walk.
  void read(int64_t first, int64_t end) {
    if (first == 0 && last_ > 0) done_ += height_;
    last_ = end;
    tell(done_ + end);
  }
  void wrote(int64_t end) { tell(total_ - height_ + end); }

 private:
  void tell(int64_t rows) const {
    if (on_progress_) on_progress_(std::min(rows, total_), total_);
  }

  int64_t total_, height_;
  const LargeProgress& on_progress_;
  int64_t done_ = 0, last_ = 0;
};

// The image, which says which of its rows are read.
class WalkedImage : public data::RegionSource {
 public:
  WalkedImage(const data::RegionSource& image, WalkedRows& rows)
      : RegionSource(image.name(), image.format()), image_(image), rows_(rows) {}

 protected:
  void read_inside(const data::PixelBox& region, uint8_t* out) const override {
    const auto bytes = region.size.height * region.size.width * format().pixel_bytes();
    image_.read(region, {out, static_cast<size_t>(bytes)});
    rows_.read(region.top, region.top + region.size.height);
  }

 private:
  const data::RegionSource& image_;
  WalkedRows& rows_;
};

int64_t num_walks(const train::Inference& inference) {
  const auto& config = *inference.config->data.adaptive_patching;
  const int64_t trees = config.separate_channels ? inference.model->input_spec().in_chans : 1;
  return 2 * trees + 1;
}

// The tree of the image, with the patches that are cut along it, as a batch of one.
data::Batch cut(const train::Inference& inference, const data::RegionSource& image,
                const data::OutOfCoreOptions& options) {
  const auto& pipeline = pipeline_of(inference, image.name());
  if (image.format().type != data::ScalarType::kUint8) {
    fail<ConfigError>("{}: pixels of {}; expected bytes, of which the model's patches are cut",
                      image.name(), data::name_of(image.format().type));
  }
  const auto converted = data::with_channels(image, pipeline.in_chans());
  const data::AdaptivePatchFiller cutter(
      {.config = *inference.config->data.adaptive_patching, .is_random = false}, pipeline.mean(),
      pipeline.std());
  data::Batch batch;
  batch.image_shape = {1, pipeline.in_chans(), 0, 0};  // the image itself is not in it
  cutter.open(batch);
  cutter.fill_large(batch, 0, converted ? *converted : image, options);
  batch.indices = batch.rows = {0};
  batch.weights = {1};
  return batch;
}

void warn_of_another_size(const train::Inference& inference, const data::RegionSource& image) {
  const auto sides = inference.model->as_segmenter()->window_size();
  const auto [height, width] = image.format().size;
  if (sides == std::vector<int64_t>{height, width}) return;
  log_warning(fmt::format(
      "{}: {} x {} pixels, but the model's images have {} (img_size): sizes and places of "
      "its patches are others than in training",
      image.name(), height, width, fmt::join(sides, " x ")));
}

// [K, L, S] float32 on the CPU.
at::Tensor logits_of(const train::Inference& inference, data::Batch& batch) {
  auto tensors = train::to_tensors(batch, 0, 1, inference.compute);
  tensors.variables = inference.channels;
  return forward(inference, tensors)[0].to(at::kCPU, at::kFloat).contiguous();
}

// As at::argmax: the first of the largest, NaN above all. planes: [K] of `count` values, best: room
// for as many.
void choose_classes(const std::vector<std::vector<float>>& planes, int64_t count,
                    std::vector<float>& best, int32_t* classes) {
  std::copy_n(planes[0].begin(), count, best.begin());
  std::fill_n(classes, count, 0);
  for (size_t label = 1; label < planes.size(); ++label) {
    const float* values = planes[label].data();
    for (int64_t i = 0; i < count; ++i) {
      const bool is_first_nan = std::isnan(values[i]) && !std::isnan(best[static_cast<size_t>(i)]);
      if (!(values[i] > best[static_cast<size_t>(i)] || is_first_nan)) continue;
      best[static_cast<size_t>(i)] = values[i];
      classes[i] = static_cast<int32_t>(label);
    }
  }
}

// Back through the tree. logits: [K, L, S]
void write_classes(const at::Tensor& logits, const data::PatchTree& tree, int64_t band_bytes,
                   data::MaskWriter& mask, WalkedRows& walked) {
  const auto num_classes = logits.size(0), token_size = logits.size(2);
  const auto side = std::llround(std::sqrt(static_cast<double>(token_size)));
  const auto rules = data::resample_rules(/*is_volume=*/false, /*upstream_compatible=*/false);
  std::deque<data::patching::LeafRows<float>> maps;
  for (int64_t label = 0; label < num_classes; ++label) {
    const auto* tokens = logits[label].const_data_ptr<float>();
    maps.emplace_back(tree, side, rules,
                      [tokens, token_size](int64_t leaf, std::span<float> token) {
                        std::copy_n(tokens + leaf * token_size, token_size, token.begin());
                      });
  }
  const auto height = tree.size.height, width = tree.size.width;
  const auto row_bytes = width * num_classes * static_cast<int64_t>(sizeof(float));
  const auto band = std::clamp<int64_t>(band_bytes / row_bytes, 1, height);
  const auto room = static_cast<size_t>(band * width);
  std::vector<std::vector<float>> planes(static_cast<size_t>(num_classes),
                                         std::vector<float>(room));
  std::vector<float> best(room);
  std::vector<int32_t> classes(room);
  for (int64_t y = 0; y < height; y += band) {
    const auto count = std::min(band, height - y);
    for (size_t label = 0; label < planes.size(); ++label) {
      maps[label].read(y, count, planes[label].data());
    }
    choose_classes(planes, count * width, best, classes.data());
    mask.write_rows(std::span(classes).first(static_cast<size_t>(count * width)), count);
    walked.wrote(y + count);
  }
}

}  // namespace

void predict_large_adaptive(const train::Inference& inference, const data::RegionSource& image,
                            data::MaskWriter& mask, const LargeProgress& on_progress,
                            const data::OutOfCoreOptions& options) {
  const at::NoGradGuard no_grad;
  check_model(inference, image.name());
  warn_of_another_size(inference, image);
  WalkedRows walked(num_walks(inference), image.format().size.height, on_progress);
  auto batch = cut(inference, WalkedImage(image, walked), options);
  const auto logits = logits_of(inference, batch);
  batch.patches.tokens = {};
  write_classes(logits, batch.patches.trees.front(), options.band_bytes, mask, walked);
}

}  // namespace fovea::inference
