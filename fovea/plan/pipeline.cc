#include "fovea/plan/pipeline.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "fovea/kernels/meta_kernels.h"
#include "fovea/models/partitionings.h"
#include "fovea/models/registry.h"
#include "fovea/nn/forward_context.h"
#include "fovea/train/bench/example_batch.h"
#include "fovea/train/tasks/task.h"
#include "fovea/train/tasks/tensor_batch.h"

namespace fovea::plan {
namespace {

constexpr int64_t kMostStages = 16;
constexpr int64_t kMicroBatchesPerStage = 8;

struct Stem {
  int64_t num_blocks = 0;
  int64_t token_bytes = 0;  // of a sample between two blocks
};

Stem stem_of(const train::TrainConfig& config) {
  Stem stem;
  const auto partitioning = models::partitioning_of(config.model);
  if (partitioning.regions.empty()) return stem;
  const auto& units = partitioning.regions.front().units;
  stem.num_blocks = static_cast<int64_t>(units.size());
  kernels::MetaKernels meta_kernels;
  const auto model = models::build_model(config.model, at::kMeta);
  model->eval();
  train::ExampleBatches examples(
      config, *model, train::dtype_from_name(config.device.dtype, c10::DeviceType::Meta));
  meta_kernels.set_conditions(examples.has_all_patches());
  const auto sample = examples.rows(0, 1);
  const at::NoGradGuard no_grad;
  const nn::RecordScope recorder({units.front()});
  train::forward(*model, sample);
  for (const auto& [path, tokens] : recorder.intermediates()) {
    if (path == units.front()) stem.token_bytes = static_cast<int64_t>(tokens.nbytes());
  }
  return stem;
}

double waits_for_data_parallel(const StepTime& time) {
  double sum = 0;
  for (const auto& [axis, seconds] : time.exposed_by_axis) {
    if (axis.starts_with("dp_")) sum += seconds;
  }
  return sum;
}

PipelinePoint best_pipeline(const MeshPlan& plan, const Stem& stem, const MachineProfile& machine) {
  PipelinePoint best{.num_ranks = plan.mesh.num_ranks(), .step = plan.time.step};
  best.exposed = waits_for_data_parallel(plan.time);
  const int64_t data_ranks = plan.mesh.size(parallel::MeshAxis::kDpReplicate) *
                             plan.mesh.size(parallel::MeshAxis::kDpShard);
  for (int64_t stages = 2; stages <= std::min(kMostStages, stem.num_blocks); stages *= 2) {
    if (data_ranks % stages != 0) continue;
    const int64_t samples = plan.local_batch_size * stages;
    const int64_t micro_batches = std::min(samples, kMicroBatchesPerStage * stages);
    const double bubble = static_cast<double>(stages - 1) / static_cast<double>(micro_batches);
    const double passed = static_cast<double>(2 * (stages - 1) * stem.token_bytes) *
                          static_cast<double>(samples) / static_cast<double>(micro_batches);
    const double with = (plan.time.step - best.exposed) * (1 + bubble) +
                        best.exposed / static_cast<double>(stages) +
                        passed / (1e9 * machine.inter_node_bandwidth) +
                        2e-6 * static_cast<double>(stages - 1) * machine.inter_node_latency;
    if (best.stages > 0 && with >= best.step_with) continue;
    best.stages = stages;
    best.micro_batches = micro_batches;
    best.bubble = bubble;
    best.step_with = with;
  }
  if (best.stages == 0) best.step_with = best.step;
  return best;
}

}  // namespace

std::vector<PipelinePoint> pipeline_points(const train::TrainConfig& config, const MeshPlan& plan,
                                           const MachineProfile& machine) {
  const auto stem = stem_of(config);
  std::vector<PipelinePoint> points = {best_pipeline(plan, stem, machine)};
  auto parallel = plan.parallel;
  parallel.dp_replicate = plan.mesh.size(parallel::MeshAxis::kDpReplicate);
  for (auto ranks = 2 * plan.mesh.num_ranks(); !points.back().pays(); ranks *= 2) {
    *parallel.dp_replicate *= 2;
    if (*parallel.dp_replicate * parallel.dp_shard > config.data.global_batch_size) break;
    points.push_back(best_pipeline(plan_mesh(with_mesh(config, parallel, ranks), ranks, machine),
                                   stem, machine));
  }
  return points;
}

}  // namespace fovea::plan
