#include "fovea/train/evaluator.h"

#include <ATen/core/grad_mode.h>

#include "fovea/models/variables.h"

namespace fovea::train {
namespace {

// Evaluation mode for a while.
class EvalModeScope {
 public:
  explicit EvalModeScope(models::Model& model) : model_(model), was_training_(model.is_training()) {
    model_.eval();
  }
  ~EvalModeScope() { model_.train(was_training_); }
  EvalModeScope(const EvalModeScope&) = delete;
  EvalModeScope& operator=(const EvalModeScope&) = delete;

 private:
  models::Model& model_;
  bool was_training_;
};

}  // namespace

std::unique_ptr<Evaluation> evaluate(models::Model& model, const Task& task, data::Loader& loader,
                                     const ComputeOptions& compute,
                                     const std::function<void(int64_t, int64_t)>& on_progress) {
  const at::NoGradGuard no_grad;
  const EvalModeScope eval_mode(model);
  auto evaluation = task.start_evaluation();
  const int64_t total = loader.samples_per_epoch();
  loader.seek(0);
  for (int64_t done = 0; done < total;) {
    auto batch = loader.next();
    const auto tensors = to_tensors(batch, 0, batch.size(), compute);
    const models::ChannelScope channels(model, tensors.variables);
    evaluation->add(tensors, task.loss(model, tensors));
    done += batch.size();
    loader.recycle(std::move(batch));
    if (on_progress) on_progress(done, total);
  }
  evaluation->finish(model);
  return evaluation;
}

}  // namespace fovea::train
