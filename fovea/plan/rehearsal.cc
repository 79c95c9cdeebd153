#include "fovea/plan/rehearsal.h"

#include <c10/core/StorageImpl.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "fovea/core/error.h"
#include "fovea/kernels/meta_kernels.h"
#include "fovea/models/registry.h"
#include "fovea/optim/ema.h"
#include "fovea/parallel/mesh.h"
#include "fovea/plan/live_memory.h"
#include "fovea/train/example_batch.h"
#include "fovea/train/fp8_start.h"
#include "fovea/train/ranks.h"
#include "fovea/train/session.h"
#include "fovea/train/sharding.h"
#include "fovea/train/step_input.h"

namespace fovea::plan {
namespace {

using parallel::MeshAxis;

constexpr int64_t kRehearsedMicroBatches = 3;

int64_t bytes_of(const std::vector<at::Tensor>& tensors) {
  std::set<const c10::StorageImpl*> seen;
  int64_t bytes = 0;
  for (const auto& tensor : tensors) {
    const auto* storage = tensor.storage().unsafeGetStorageImpl();
    if (seen.insert(storage).second) bytes += static_cast<int64_t>(storage->nbytes());
  }
  return bytes;
}

// A task whose losses are told of, when backward is about to begin.
class ObservedTask : public train::Task {
 public:
  ObservedTask(std::unique_ptr<train::Task> task, std::function<void()> on_loss)
      : task_(std::move(task)), on_loss_(std::move(on_loss)) {}

  std::vector<std::string> metric_names() const override { return task_->metric_names(); }
  bool has_loss_of_batch() const override { return task_->has_loss_of_batch(); }
  at::Tensor loss_of_statistics(const at::Tensor& statistics) const override {
    return task_->loss_of_statistics(statistics);
  }
  train::LossParts loss(models::Model& model, const train::TensorBatch& batch) const override {
    auto parts = task_->loss(model, batch);
    on_loss_();
    return parts;
  }
  std::unique_ptr<train::Evaluation> start_evaluation() const override {
    return task_->start_evaluation();
  }

 private:
  std::unique_ptr<train::Task> task_;
  std::function<void()> on_loss_;
};

// The pieces of a run, as Trainer has them.
struct Pieces {
  Pieces(const train::TrainConfig& run_config, const parallel::DeviceMesh& mesh,
         parallel::World& world)
      : config(run_config),
        model(train::make_model_without_values(config)),
        model_parallel(train::share_out_model(config, *model, mesh)),
        shards(train::make_shards(config, *model, mesh)),
        optimizer(train::make_optimizer(config, *model,
                                        {.shards = shards.get(), .layers = model_parallel.get()})) {
    model->train();
    if (!shards) {
      reducer = train::make_reducer(config.parallel, *optimizer, mesh.data_parallel());
    }
    if (config.trainer.ema.enabled) {
      ema = std::make_unique<optim::Ema>(*optimizer,
                                         optim::EmaOptions{.decay = config.trainer.ema.decay,
                                                           .warmup = config.trainer.ema.warmup});
    }
    if (config.device.fp8 == "off") return;
    auto layers = train::fp8_candidates(*model);
    if (config.device.fp8 != "auto") train::check_fp8_layers(config.device.fp8, layers);
    const bool is_delayed = config.device.fp8 == "delayed";
    fp8 = std::make_unique<train::Fp8Layers>(
        std::move(layers), is_delayed ? train::Fp8Scale::kDelayed : train::Fp8Scale::kCurrent,
        at::kMeta, world.all(), /*keeps_codes=*/shards == nullptr);
  }

  // Shares are in the memory of the host, but not where that is what computes.
  bool is_offloaded() const {
    return shards && config.parallel.cpu_offload && config.device.type != "cpu";
  }

  RankMemory memory() const {
    std::vector<at::Tensor> parameters = model->parameters(), moments;
    for (const auto& [name, tensor] : optimizer->state()) moments.push_back(tensor);
    const StateMemory shares{.parameters = bytes_of({optimizer->flat_param()}),
                             .gradients = bytes_of({optimizer->flat_grad()}),
                             .optimizer = bytes_of(moments),
                             .average = ema ? bytes_of({optimizer->flat_param()}) : 0};
    RankMemory result;
    if (is_offloaded()) {
      result.host = shares;
    } else {
      static_cast<StateMemory&>(result) = shares;
      parameters.push_back(optimizer->flat_param());
    }
    result.parameters = bytes_of(parameters);
    return result;
  }

  const train::TrainConfig& config;
  models::ModelPtr model;
  std::unique_ptr<parallel::ModelParallel> model_parallel;
  std::unique_ptr<parallel::ShardedParams> shards;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<parallel::GradientReducer> reducer;
  std::unique_ptr<optim::Ema> ema;
  std::unique_ptr<train::Fp8Layers> fp8;
};

train::StepOptions options_of(const train::TrainConfig& config, const Pieces& pieces,
                              const parallel::DeviceMesh& mesh) {
  train::StepOptions options{.seed = static_cast<uint64_t>(config.run.seed),
                             .max_grad_norm = config.trainer.max_grad_norm,
                             .max_grad_value = config.trainer.max_grad_value,
                             .max_grad_ratio = config.trainer.max_grad_ratio};
  options.compute.device = at::kMeta;
  options.compute.dtype = train::dtype_from_name(config.device.dtype, at::kMeta);
  options.ranks = &mesh.data_parallel();
  options.reducer = pieces.reducer.get();
  options.shards = pieces.shards.get();
  options.model_parallel = pieces.model_parallel.get();
  options.fp8 = pieces.fp8.get();
  return options;
}

// Names the groups after the axes that they run along.
void name_groups(std::vector<Group>& groups, const parallel::MeshShape& mesh, int64_t rank) {
  const auto name = [&](const std::vector<MeshAxis>& axes, const std::string& what) {
    const auto ranks = mesh.group_of(rank, axes);
    for (auto& group : groups) {
      if (group.ranks == ranks && group.axis.empty()) group.axis = what;
    }
  };
  for (size_t i = 0; i < parallel::kNumMeshAxes; ++i) {
    const auto axis = static_cast<MeshAxis>(i);
    name({axis}, name_of(axis));
  }
  name({MeshAxis::kDpReplicate, MeshAxis::kDpShard}, "dp_replicate x dp_shard");
  for (auto& group : groups) {
    if (group.axis.empty()) group.axis = "world";
  }
}

// Throws ConfigError where a step looks at values, or the meta device has no shapes for it.
void on_meta(const std::function<void()>& step) {
  try {
    step();
  } catch (const c10::NotImplementedError& error) {
    const std::string text = error.what_without_backtrace();
    fail<ConfigError>(
        "model: its step cannot be rehearsed without values yet ({}); plan a plain ViT of its "
        "encoder's size instead",
        text.substr(0, std::min(text.find(": "), text.find("; "))));
  }
}

}  // namespace

// Of three rehearsed micro-batches the second one is repeated, each time that they are gone over.
void Rehearsal::take(const std::vector<Event>& events, int64_t rehearsed) {
  stretches_ = {{}};
  int64_t begun = 0;
  for (const auto& event : events) {
    if (event.kind == Event::Kind::kMicroBatch && rehearsed == kRehearsedMicroBatches) {
      const int64_t which = begun++ % rehearsed;
      if (which > 0)
        stretches_.push_back({.events = {}, .times = which == 1 ? num_micro_batches - 2 : 1});
    }
    stretches_.back().events.push_back(event);
  }
}

std::map<std::string, parallel::CollectiveCounts> Rehearsal::counts() const {
  std::map<std::string, parallel::CollectiveCounts> result;
  for_each([&](const Event& event) {
    if (event.kind != Event::Kind::kStart) return;
    auto& count = result[groups[event.group].axis][event.collective];
    count.calls += 1;
    count.bytes += event.bytes;
  });
  return result;
}

double Rehearsal::flops() const {
  double sum = 0;
  for_each([&](const Event& event) { sum += event.flops; });
  return sum;
}

Rehearsal rehearse(const train::TrainConfig& config, const parallel::MeshShape& mesh_shape,
                   int64_t rank, Backend backend) {
  kernels::MetaKernels meta_kernels;
  LiveMemory memory(c10::DeviceType::Meta);
  Trace trace([&] { return memory.made(); });
  parallel::Launch launch;
  launch.rank = rank;
  launch.world_size = mesh_shape.num_ranks();
  parallel::World world(launch, [&](const std::vector<int64_t>& ranks) {
    return trace.make_group(ranks, rank, backend);
  });
  const parallel::DeviceMesh mesh(world, mesh_shape);
  Pieces pieces(config, mesh, world);
  const auto shard = train::data_shard(mesh);
  Rehearsal result;
  result.mesh = mesh_shape;
  result.rank = rank;
  // Equal on all ranks, as loaders pad.
  result.local_batch_size = (config.data.global_batch_size + shard.count - 1) / shard.count;
  result.micro_batch_size = std::min(
      config.trainer.micro_batch_size.value_or(result.local_batch_size), result.local_batch_size);
  result.num_micro_batches =
      (result.local_batch_size + result.micro_batch_size - 1) / result.micro_batch_size;
  for (const auto& parameter : models::build_model(config.model, at::kMeta)->parameters()) {
    result.num_parameters += parameter.numel();
  }
  auto options = options_of(config, pieces, mesh);
  options.micro_batch_size = result.micro_batch_size;
  train::ExampleBatches examples(config, *pieces.model, options.compute.dtype);
  meta_kernels.set_conditions(examples.has_all_patches());
  // The last micro-batch may be a smaller one.
  const int64_t rehearsed = std::min(kRehearsedMicroBatches, result.num_micro_batches);
  const int64_t left_out = (result.num_micro_batches - rehearsed) * result.micro_batch_size;
  train::StepInput input{.size = result.local_batch_size - left_out,
                         .position = 0,
                         .tensors = [&](int64_t begin, int64_t end) {
                           trace.add({.kind = Event::Kind::kMicroBatch});
                           return examples.rows(begin, end);
                         }};
  result.memory = pieces.memory();
  int64_t at_rest = 0;
  const ObservedTask task(train::make_task(config.task, *pieces.model), [&] {
    auto& most = result.memory.activations;
    most = std::max(most, memory.bytes() - at_rest);
  });
  const int64_t state = result.memory.state() + result.memory.host.state();
  for (int64_t step = 0; step < 2; ++step) {
    result.memory.activations = 0;
    at_rest = memory.bytes();
    trace.clear();
    memory.reset_peak();
    on_meta([&] {
      train::compute_gradients(*pieces.model, task, *pieces.optimizer, input, step, options);
    });
    trace.add({.kind = Event::Kind::kUpdate});
    result.memory.working = memory.peak() - state;
    if (pieces.is_offloaded()) memory.reset_peak();  // from here on the host works
    pieces.optimizer->step(/*lr=*/1e-3);
    if (pieces.ema) pieces.ema->update(step);
    trace.add({.kind = Event::Kind::kEnd});
    (pieces.is_offloaded() ? result.memory.host_working : result.memory.working) =
        memory.peak() - state;
  }
  result.groups = trace.groups();
  name_groups(result.groups, mesh_shape, rank);
  result.take(trace.events(), rehearsed);
  return result;
}

void check_same_sequence(const Rehearsal& a, const Rehearsal& b) {
  const auto sequences = [](const Rehearsal& rehearsal) {
    std::map<std::string, std::vector<Event>> result;
    rehearsal.for_each([&](const Event& event) {
      if (event.kind != Event::Kind::kStart) return;
      result[rehearsal.groups[event.group].axis].push_back(event);
    });
    return result;
  };
  const auto text = [](const std::vector<Event>& events, size_t i) {
    if (i >= events.size()) return std::string("nothing");
    return fmt::format("{} of {} bytes of {} ({})", name_of(events[i].collective), events[i].bytes,
                       events[i].what, events[i].dtype);
  };
  auto of_a = sequences(a), of_b = sequences(b);
  for (const auto& [axis, unused] : of_b) of_a[axis];
  for (const auto& [axis, events] : of_a) {
    const auto& others = of_b[axis];
    for (size_t i = 0; i < std::max(events.size(), others.size()); ++i) {
      FOVEA_CHECK(i < events.size() && i < others.size() && events[i].matches(others[i]),
                  "collective {} of a step along {}: rank {} has {}, rank {} has {}; expected the "
                  "same, or they wait for each other for ever",
                  i, axis, a.rank, text(events, i), b.rank, text(others, i));
    }
  }
}

}  // namespace fovea::plan
