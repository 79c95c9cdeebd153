// Masked autoencoding: the pixels of masked patches from the patches that are seen.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/models/mae.h"
#include "fovea/train/tasks/task.h"

namespace fovea::train {

struct MaskedAutoencodingConfig {
  static constexpr std::string_view kName = "masked_autoencoding";
  bool norm_pix_loss = false;
  std::string loss_on = "masked";
  std::string loss_space = "tokens";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("norm_pix_loss", self.norm_pix_loss,
            "targets are the pixels of each patch less their mean, over their standard deviation");
    v.field("loss_on", self.loss_on,
            "patches that count: the masked ones, all (what UCF-VIT does by default), or of "
            "adaptive patches the padding too (what it does there)",
            {.choices = {"masked", "all", "all_and_padding"}});
    v.field("loss_space", self.loss_space,
            "adaptive patches: errors of the values of each token, or of the token resized to its "
            "part of the image (UCF-VIT's adaptive_patching_mse)",
            {.choices = {"tokens", "image"}});
  }
};

// B batch, C channels, N patches, P side of a patch, L = P * P * C values of a patch.

// The mean of a patch's values and the root of their variance (unbiased) plus 1e-6: [B, N, 1] each.
// He et al. 2022 normalise targets with them.
struct PatchMoments {
  at::Tensor mean, deviation;
};
PatchMoments patch_moments(const at::Tensor& patches);

// images: [B, C, H, W] or [B, C, D, H, W] -> [B, N, L], in float32 (float64 stays).
at::Tensor autoencoding_targets(const at::Tensor& images, at::IntArrayRef patch_size,
                                bool norm_pix_loss);

// 1 where a patch is masked: [B, N]; count: how many are, where the host knows it.
struct PatchesMasked {
  at::Tensor mask;
  std::optional<int64_t> count = {};
};

// The loss of predictions [B, N, L] for images where masked.mask [B, N] is 1: the mean squared
// error of each patch that counts, summed; the weight is the number of such patches. weights: [B],
// or undefined where every image counts once. outputs: the predictions.
LossParts autoencoding_loss(const at::Tensor& images, const at::Tensor& predictions,
                            const PatchesMasked& masked, at::IntArrayRef patch_size,
                            const MaskedAutoencodingConfig& config, const at::Tensor& weights = {});

// The image as the model puts it together: patches that it saw as they are, masked ones as
// predicted; under norm_pix_loss a prediction gets the mean and deviation of the true patch, as in
// the published pictures. images: [B, C, ...], predictions: [B, N, L], mask: [B, N], 1 where masked
// -> [B, C, ...] in the dtype of autoencoding_targets.
at::Tensor reconstruct(const at::Tensor& images, const at::Tensor& predictions,
                       const at::Tensor& mask, at::IntArrayRef patch_size, bool norm_pix_loss);

// The image with NaN in every masked patch, for pictures. Shapes as for reconstruct.
at::Tensor hide_patches(const at::Tensor& images, const at::Tensor& mask,
                        at::IntArrayRef patch_size);

// What is masked of a sample outside of training: a function of its index alone, so that every
// evaluation masks alike, whatever its batches. indices: [B] int64 -> [B, n] int64.
at::Tensor keep_patches_of_samples(const models::MaeConfig& model, const at::Tensor& indices,
                                   int64_t num_patches);

class MaskedAutoencodingTask : public Task {
 public:
  // Throws ConfigError: the model is no MAE, a linear decoder would learn nothing, or a key is for
  // adaptive patches and the model's lie on a grid.
  MaskedAutoencodingTask(const MaskedAutoencodingConfig& config, const models::Model& model);

  std::vector<std::string> metric_names() const override { return {"loss", "psnr"}; }
  // The weight counts patches. outputs: predictions [B, N, L].
  LossParts loss(models::Model& model, const TensorBatch& batch) const override;
  kernels::Recordable can_be_recorded() const override { return {}; }
  bool wants_images_of_patches() const override { return config_.loss_space == "image"; }
  std::unique_ptr<Evaluation> start_evaluation() const override;

 private:
  LossParts loss_of_patches(const models::Mae& mae, const TensorBatch& batch) const;

  MaskedAutoencodingConfig config_;
  models::MaeConfig model_;
};

// Metrics over the patches that count:
//   loss             as in training
//   psnr             of masked patches, in decibels: 10 log10(range^2 / mean squared error) with
//                    the range of all values evaluated, of what `reconstruct` gives
//   loss_mean_image  the loss of whoever predicts the mean target of each place over the samples
//                    evaluated: what a model has to be better than. Left out where images differ
//                    in size, and with loss_space: image.
// Places are those of the grid, or of the sequence of adaptive patches; of channels that are
// variables each choice of them has means of its own. psnr of adaptive patches is in the image.
class MaskedAutoencodingEvaluation : public Evaluation {
 public:
  MaskedAutoencodingEvaluation(const MaskedAutoencodingConfig& config,
                               const models::MaeConfig& model);
  void add(const TensorBatch& batch, const LossParts& parts) override;
  nlohmann::json part() const override;
  void join(const std::vector<nlohmann::json>& parts) override;
  std::map<std::string, double> metrics() const override;
  int64_t num_samples() const override { return num_samples_; }
  // Input, masked input and reconstruction of some samples, evenly spread.
  void describe(EvaluationFile& file, const data::Dataset& dataset) const override;

 private:
  struct Shown {
    int64_t index = 0;
    double loss = 0;
    data::Image picture;
  };
  // Sums for loss_mean_image over the samples in which a patch counts.
  struct PlaceSums {
    at::Tensor count;         // [N, 1] float64
    at::Tensor sum, squares;  // [N, L] float64
  };
  // Pictures of a batch, on the CPU. hide(b): sample b [C, ...] with NaN where it was masked.
  struct Pictures {
    at::Tensor images, restored;  // [B, C, ...]
    std::function<at::Tensor(int64_t)> hide;
    at::Tensor losses;             // [B], of the masked patches
    at::Tensor num_masked_values;  // [B]
  };
  void add_grid(const TensorBatch& batch, const at::Tensor& predictions, const at::Tensor& weights);
  void add_adaptive(const TensorBatch& batch, const at::Tensor& predictions,
                    const at::Tensor& weights);
  void add_losses(const at::Tensor& losses, const at::Tensor& counted);
  void add_places(const at::Tensor& targets, const at::Tensor& counted,
                  const std::vector<std::string>& variables);
  void add_places(const std::vector<std::string>& variables, const PlaceSums& added);
  void add_pictures(const Pictures& pictures, const at::Tensor& indices, const at::Tensor& weights);
  bool is_shown_next();

  MaskedAutoencodingConfig config_;
  models::MaeConfig model_;
  double loss_sum_ = 0, weight_ = 0;
  double squared_error_ = 0, num_masked_values_ = 0;
  double lowest_, highest_;
  std::map<std::vector<std::string>, PlaceSums> places_;  // by the names of the channels
  bool has_equal_sizes_ = true;
  int64_t num_samples_ = 0;
  int64_t stride_ = 1;  // every stride-th sample is kept for a picture
  std::vector<Shown> shown_;
};

}  // namespace fovea::train
