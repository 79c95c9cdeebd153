#include "fovea/train/run/feature_cache.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/core/log.h"
#include "fovea/core/number_text.h"
#include "fovea/data/dataset_views.h"
#include "fovea/data/transforms/image/center_crop.h"

namespace fovea::train {
namespace {

// Samples as one black pixel and their label, once the features are there.
class LabelDataset : public data::DatasetView {
 public:
  LabelDataset(std::shared_ptr<const data::Dataset> source,
               std::shared_ptr<const SampleFeatures> features)
      : DatasetView(std::move(source)), features_(std::move(features)) {}

  data::SampleForm form() const override { return data::SampleForm::kImage; }

  void read(int64_t index, data::Sample& sample) const override {
    FOVEA_CHECK(!features_->labels.empty(), "sample {} is asked for before the features are there",
                index);
    const auto row = static_cast<size_t>(index);
    if (!features_->missing[row].empty()) throw DataError(features_->missing[row]);
    data::Image& image = sample.become<data::Image>();
    image.height = image.width = image.channels = 1;
    image.pixels.assign(1, 0);
    sample.label = features_->labels[row];
  }

 private:
  std::shared_ptr<const SampleFeatures> features_;
};

}  // namespace

FeatureCache::FeatureCache(data::LoaderSetup setup)
    : setup_(std::move(setup)), features_(std::make_shared<SampleFeatures>()) {}

DatasetWithLoader FeatureCache::source() const {
  auto options = setup_.options;
  options.threads = 0;  // there is nothing to read
  options.spatial_dims = 2;
  options.patching.reset();
  options.packed_patch_size.reset();
  // The crop says the size of a sample, so that no loader looks at the first one.
  data::CenterCropConfig one_pixel;
  one_pixel.size = {1};
  const std::vector<data::SampleTransforms> transforms(
      setup_.transforms.size(), data::make_transforms({{one_pixel}}, data::SampleForm::kImage, 1));
  const auto labels = std::make_shared<LabelDataset>(setup_.dataset, features_);
  return {setup_.dataset, std::make_unique<data::Loader>(labels, transforms, options)};
}

void FeatureCache::compute(models::Model& model, const FeaturePassOptions& options) {
  *features_ = collect_features(model, setup_, options);
  const auto& features = features_->features;
  log_info(fmt::format("features of {} samples are kept: {} of each, {} in all", features.size(0),
                       features.size(1), format_bytes(static_cast<double>(features.nbytes()))));
}

void FeatureCache::fill(TensorBatch& batch) {
  FOVEA_CHECK(features_->features.defined(), "features are asked for before they are computed");
  // Rows that stand for no sample have index -1 and count for nothing.
  const auto rows = batch.indices.clamp_min(0);
  batch.features = features_->features.index_select(0, rows).to(batch.images.device());  // [B, F]
}

void check_cacheable(const TrainerConfig& config, const models::Model& model) {
  if (config.cache_features == "none" || model.has_classifier()) return;
  fail<ConfigError>(
      "trainer.cache_features: found {}, but the model's head does not stand on features of a "
      "whole "
      "sample; expected a classifier with one head and a pooling, or cache_features: none",
      config.cache_features);
}

}  // namespace fovea::train
