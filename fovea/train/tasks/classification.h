// Image classification: one label, or a distribution over classes, for each image.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/train/tasks/task.h"

namespace fovea::train {

struct ClassificationConfig {
  static constexpr std::string_view kName = "classification";
  std::string loss = "cross_entropy";
  std::string own_loss = "";
  double label_smoothing = 0.0;
  std::vector<std::string> own_metrics = {};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("loss", self.loss,
            "softmax cross-entropy, or one binary cross-entropy for each class; own: own_loss",
            {.choices = {"cross_entropy", "bce", "own"}});
    v.field("own_loss", self.own_loss,
            "with loss: own, the name that the program which reads the recipe has given it: "
            "fovea.register_loss in Python, train::register_loss in C++");
    v.field("label_smoothing", self.label_smoothing, "share of the target spread over all classes",
            {.min = 0, .max = 1, .exclusive_max = true});
    v.field("own_metrics", self.own_metrics,
            "evaluated beside top1, top5 and loss: names that the program which reads the recipe "
            "has given them: fovea.register_metric in Python, train::register_metric in C++");
  }
  void validate(ConfigIssues& issues) const;
};

// logits: [B, C] any float dtype, labels: [B] int64 or targets [B, C] float32 -> [B] float32.
//   cross_entropy: (1 - s) (-log p_label) + s mean(-log p), as timm's LabelSmoothingCrossEntropy;
//   soft targets:
//                  -sum(target log p), the targets smoothed to (1 - s) target + s / C
//   bce:           sum over classes of the binary cross-entropy, divided by C (torch's mean
//   reduction)
//   own:           what is registered under config.own_loss; it smooths by itself
at::Tensor classification_losses(const at::Tensor& logits, const at::Tensor& labels,
                                 const ClassificationConfig& config);

// How many samples a report shows of each kind.
constexpr int64_t kShownSamples = 24;
constexpr int64_t kShownMistakes = 24;

// The loss of an evaluation is that of the task without label smoothing, as timm's validation loss.
class ClassificationEvaluation : public Evaluation {
 public:
  ClassificationEvaluation(const ClassificationConfig& config, int64_t num_classes);
  void add(const TensorBatch& batch, const LossParts& parts) override;
  nlohmann::json part() const override;
  void join(const std::vector<nlohmann::json>& parts) override;
  std::map<std::string, double> metrics() const override;
  int64_t num_samples() const override { return num_samples_; }
  // Computes the metrics from outside.
  void finish(models::Model& model) override;
  // Samples spread evenly over the data, and the wrong ones with the highest loss.
  void describe(EvaluationFile& file, const data::Dataset& dataset) const override;

  // How many samples of a label got a prediction, by both; those that there are, as a square of
  // 100,000 classes has no place in memory.
  using Confusion = std::map<std::pair<int64_t, int64_t>, int64_t>;
  const Confusion& confusion() const { return confusion_; }
  // Of each sample, in the order added, or once parts are joined in that of the data set: its
  // index, label, loss and the top five classes with their probabilities.
  struct Prediction {
    int64_t index = 0;
    int64_t label = 0;
    double loss = 0;
    std::vector<int64_t> classes;
    std::vector<double> scores;
    std::vector<float> logits;  // [C]; empty where no metric from outside looks at them
  };
  const std::vector<Prediction>& predictions() const { return predictions_; }

 private:
  void take(Prediction prediction);

  ClassificationConfig config_;
  int64_t num_classes_;
  Confusion confusion_;
  std::vector<Prediction> predictions_;
  double loss_sum_ = 0;
  int64_t num_samples_ = 0, top1_ = 0, top5_ = 0;
  std::map<std::string, double> own_values_;
};

class ClassificationTask : public Task {
 public:
  ClassificationTask(const ClassificationConfig& config, int64_t num_classes)
      : config_(config), num_classes_(num_classes) {}
  void check_data(const data::Dataset& dataset) const override;
  std::vector<std::string> metric_names() const override;
  LossParts loss(models::Model& model, const TensorBatch& batch) const override;
  kernels::Recordable can_be_recorded() const override {
    return {config_.loss == "own" ? "a loss from outside may look at numbers on the host" : ""};
  }
  std::unique_ptr<Evaluation> start_evaluation() const override;

 private:
  ClassificationConfig config_;
  int64_t num_classes_;
};

}  // namespace fovea::train
