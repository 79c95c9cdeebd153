#include "fovea/train/evaluate/evaluator.h"

#include <ATen/core/grad_mode.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "fovea/models/model.h"
#include "fovea/train/evaluate/eval_mode.h"
#include "fovea/train/evaluate/evaluation_parts.h"

namespace fovea::train {
namespace {

// In the order of the ranks on each of them, so that all find the same sums to the last bit.
void join_over_ranks(Evaluation& evaluation, parallel::Communicator& ranks) {
  std::vector<nlohmann::json> parts;
  for (const auto& text :
       parallel::all_gather_text(ranks, to_bytes(evaluation.part()), "parts of an evaluation")) {
    parts.push_back(json_from_bytes(text));
  }
  evaluation.join(parts);
}

}  // namespace

std::unique_ptr<Evaluation> evaluate(models::Model& model, const Task& task, data::Loader& loader,
                                     const ComputeOptions& compute,
                                     const EvaluateOptions& options) {
  const at::NoGradGuard no_grad;
  const EvalModeScope eval_mode(model);
  // With features the head runs alone, which is no forward of the model.
  auto* const features = options.features;
  const parallel::ShardedParams::WholeScope whole(features ? options.shards : nullptr);
  parallel::ShardedParams::InferenceScope inference(features ? nullptr : options.shards, model);
  auto evaluation = task.start_evaluation();
  const auto images = images_for(model, task);
  const int64_t total = loader.samples_per_epoch();
  loader.seek(0);
  for (int64_t done = 0; done < total;) {
    auto batch = loader.next();
    auto tensors = to_tensors(batch, 0, batch.size(), compute, images);
    if (features) features->fill(tensors);
    evaluation->add(tensors, task.loss(model, tensors));
    done += batch.global_size;
    loader.recycle(std::move(batch));
    if (options.on_progress) options.on_progress(done, total);
    if (!options.should_stop || done >= total) continue;
    inference.finish();  // ranks may differ in forwards
    if (options.should_stop()) return nullptr;
  }
  inference.finish();
  join_over_ranks(*evaluation, options.ranks ? *options.ranks : parallel::one_rank());
  evaluation->finish(model);
  inference.finish();
  return evaluation;
}

}  // namespace fovea::train
