// A linear probe that costs one pass over the data: the features of every sample, kept.
#pragma once

#include <memory>

#include "fovea/data/loader_setup.h"
#include "fovea/train/evaluate/features.h"
#include "fovea/train/session.h"

namespace fovea::train {

class FeatureCache : public FeatureSource {
 public:
  // setup: the data whose features are kept, opened and checked.
  explicit FeatureCache(data::LoaderSetup setup);

  // The data set with a loader that reads no pixels: its batches have indices and labels, in the
  // order and with the bad samples that the setup's own would have. Nothing may be taken from it
  // before compute.
  DatasetWithLoader source() const;

  // The one pass.
  void compute(models::Model& model, const FeaturePassOptions& options);

  // batch: of source(). Throws Error before compute.
  void fill(TensorBatch& batch) override;

 private:
  data::LoaderSetup setup_;
  std::shared_ptr<SampleFeatures> features_;
};

// trainer.cache_features of a model whose head does not stand on features: throws ConfigError.
void check_cacheable(const TrainerConfig& config, const models::Model& model);

}  // namespace fovea::train
