// What an evaluation of a diffusion model finds: its loss, samples, and how far those are from the
// data.
#pragma once

#include <memory>
#include <optional>

#include "fovea/train/diffusion/feature_backbone.h"
#include "fovea/train/diffusion/frechet.h"
#include "fovea/train/tasks/diffusion.h"

namespace fovea::train {

class DiffusionEvaluation : public Evaluation {
 public:
  // input: of the model. Throws ConfigError where fid_backbone does not fit it.
  DiffusionEvaluation(const DiffusionConfig& config, const models::InputSpec& input);

  void add(const TensorBatch& batch, const LossParts& parts) override;
  nlohmann::json part() const override;
  void join(const std::vector<nlohmann::json>& parts) override;
  // Draws the samples.
  void finish(models::Model& model) override;
  std::map<std::string, double> metrics() const override;
  int64_t num_samples() const override { return num_samples_; }
  void describe(EvaluationFile& file, const data::Dataset& dataset) const override;

  // [num_samples, C, ...], undefined before finish or where there are none. With classes, sample i
  // is of class i mod num_classes.
  const at::Tensor& samples() const { return samples_; }

 private:
  at::Tensor draw(const models::DiffusionVit& model, int64_t first, int64_t count,
                  uint64_t seed) const;
  at::Tensor features(const at::Tensor& images);

  DiffusionConfig config_;
  std::unique_ptr<FeatureBackbone> backbone_;
  FeatureMoments real_;
  at::TensorOptions compute_;  // of the batches
  double loss_sum_ = 0;
  int64_t num_samples_ = 0, num_classes_ = 0;
  at::Tensor samples_;
  std::optional<double> fid_;
};

}  // namespace fovea::train
