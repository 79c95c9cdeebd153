#include "fovea/train/evaluator.h"

#include <ATen/core/grad_mode.h>

#include "fovea/models/model.h"
#include "fovea/models/variables.h"
#include "fovea/train/eval_mode.h"

namespace fovea::train {

std::unique_ptr<Evaluation> evaluate(models::Model& model, const Task& task, data::Loader& loader,
                                     const ComputeOptions& compute, const OnProgress& on_progress,
                                     FeatureSource* features) {
  const at::NoGradGuard no_grad;
  const EvalModeScope eval_mode(model);
  auto evaluation = task.start_evaluation();
  const int64_t total = loader.samples_per_epoch();
  loader.seek(0);
  for (int64_t done = 0; done < total;) {
    auto batch = loader.next();
    auto tensors = to_tensors(batch, 0, batch.size(), compute);
    if (features) features->fill(tensors);
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
