// A task whose losses are told of: for rehearsals and clocks.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fovea/train/tasks/task.h"

namespace fovea::train {

class ObservedTask final : public Task {
 public:
  struct Hooks {
    std::function<void()> before_loss = {};
    std::function<void()> after_loss = {};  // backward is about to begin
  };
  // task outlives it.
  ObservedTask(const Task& task, Hooks hooks);

  void check_data(const data::Dataset& dataset) const override;
  std::vector<std::string> metric_names() const override;
  bool wants_images_of_patches() const override;
  bool has_loss_of_batch() const override;
  at::Tensor loss_of_statistics(const at::Tensor& statistics) const override;
  LossParts loss(models::Model& model, const TensorBatch& batch) const override;
  std::unique_ptr<Evaluation> start_evaluation() const override;

 private:
  const Task& task_;
  Hooks hooks_;
};

}  // namespace fovea::train
