#include "fovea/plan/rehearsal.h"

#include <c10/core/StorageImpl.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "fovea/core/error.h"
#include "fovea/kernels/meta_kernels.h"
#include "fovea/kernels/saved_activation.h"
#include "fovea/models/registry.h"
#include "fovea/parallel/mesh.h"
#include "fovea/plan/live_memory.h"
#include "fovea/train/bench/example_batch.h"
#include "fovea/train/ranks.h"
#include "fovea/train/session.h"
#include "fovea/train/state/mesh_state.h"
#include "fovea/train/step/pass_plan.h"
#include "fovea/train/step/step.h"
#include "fovea/train/tasks/observed_task.h"

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

// Shares are in the memory of the host, but not where that is what computes.
bool is_offloaded(const train::MeshState& state) {
  return state.shards && state.config.parallel.cpu_offload && state.config.device.type != "cpu";
}

RankMemory memory_of(const train::MeshState& state) {
  std::vector<at::Tensor> parameters = state.model->parameters(), moments;
  for (const auto& [name, tensor] : state.optimizer->state()) moments.push_back(tensor);
  const auto flat = state.optimizer->flat_param();
  const StateMemory shares{.parameters = bytes_of({flat}),
                           .gradients = bytes_of({state.optimizer->flat_grad()}),
                           .optimizer = bytes_of(moments),
                           .average = state.ema ? bytes_of({flat}) : 0};
  RankMemory result;
  if (is_offloaded(state)) {
    result.host = shares;
  } else {
    static_cast<StateMemory&>(result) = shares;
  }
  result.parameters = bytes_of(parameters);
  parameters.push_back(flat);
  if (state.shards && state.shards->has_outer_parts()) {
    for (const auto& [name, share] : state.shards->shares()) parameters.push_back(share);
  }
  if (state.shards && state.shards->buffers().copy.defined()) {
    parameters.push_back(state.shards->buffers().copy);
  }
  auto& of_parts = is_offloaded(state) ? result.host.parameters : result.parameters;
  of_parts = bytes_of(parameters) - (is_offloaded(state) ? result.parameters : 0);
  return result;
}

train::StepOptions options_of(const train::TrainConfig& config, int64_t micro_batch_size) {
  kernels::choose_saved_activations(config.device.saved_activations);
  auto options = train::step_options(
      config,
      {.device = at::kMeta, .dtype = train::dtype_from_name(config.device.dtype, at::kMeta)});
  options.micro_batch_size = micro_batch_size;
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

// Each worker has a pass of its own, and the gradients that it adds (Note [Passes at once]); what
// is rehearsed is one after another. `auto` counts as one: it takes more only where they fit.
void add_concurrent_passes(Rehearsal& rehearsal, const train::TrainConfig& config) {
  const auto workers =
      std::min(config.trainer.concurrent_passes.value_or(1), rehearsal.num_micro_batches);
  if (workers == 1) return;
  auto& memory = rehearsal.memory;
  memory.working += (workers - 1) * memory.activations + workers * memory.gradients;
  memory.activations *= workers;
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
  const auto share = train::data_share(mesh, config.parallel);
  const int64_t global_batch = config.data.global_batch_size, slots = config.parallel.slots;
  Rehearsal result;
  result.mesh = mesh_shape;
  result.rank = rank;
  // Without slots that of the rank that has most.
  result.local_batch_size = slots > 0 ? share.rows(global_batch) : share.most_rows(global_batch);
  const int64_t largest =
      slots > 0 ? data::BatchShare{0, 1, slots}.most_rows(global_batch) : result.local_batch_size;
  const int64_t micro_batch = config.trainer.micro_batch_size.value_or(largest);
  result.micro_batch_size = micro_batch > 0 ? std::min(micro_batch, largest) : largest;
  result.num_micro_batches =
      (result.local_batch_size + result.micro_batch_size - 1) / result.micro_batch_size;
  for (const auto& parameter : models::build_model(config.model, at::kMeta)->parameters()) {
    result.num_parameters += parameter.numel();
  }
  auto planned = config;
  if (!planned.trainer.concurrent_passes)
    planned.trainer.concurrent_passes = 1;  // nothing is tried
  train::MeshState state(planned, mesh, train::ModelStart::without_values(config),
                         options_of(config, result.micro_batch_size));
  state.model->train();
  state.options.concurrent = nullptr;  // what more it takes is added below
  state.options.scaler = nullptr;      // there are no numbers that a scale could follow from
  state.start_fp8(result.micro_batch_size, /*saved=*/nullptr);
  train::ExampleBatches examples(config, *state.model, state.options.compute.dtype,
                                 train::images_for(*state.model, *state.task));
  meta_kernels.set_conditions(examples.has_all_patches());
  // The last micro-batch may be a smaller one.
  int64_t rehearsed = std::min(kRehearsedMicroBatches, result.num_micro_batches);
  int64_t left_out = (result.num_micro_batches - rehearsed) * result.micro_batch_size;
  if (slots > 0) {  // whole ones, all of them
    left_out = 0;
    const train::StepInput whole{.size = result.local_batch_size,
                                 .share = share,
                                 .global_size = global_batch,
                                 .tensors = {}};
    rehearsed = result.num_micro_batches = std::ssize(train::plan_passes(whole, state.options).own);
  }
  train::StepInput input{.size = result.local_batch_size - left_out,
                         .position = 0,
                         .share = share,
                         .global_size = slots > 0 ? global_batch : 0,
                         .tensors = [&](int64_t begin, int64_t end) {
                           trace.add({.kind = Event::Kind::kMicroBatch});
                           return examples.rows(begin, end);
                         }};
  result.memory = memory_of(state);
  int64_t at_rest = 0;
  const auto note_activations = [&] {
    auto& most = result.memory.activations;
    most = std::max(most, memory.bytes() - at_rest);
  };
  const train::ObservedTask task(*state.task, {.before_loss = {}, .after_loss = note_activations});
  const train::StepParts parts{.model = *state.model,
                               .task = task,
                               .optimizer = *state.optimizer,
                               .options = state.options,
                               .ema = state.ema.get()};
  const int64_t at_start = result.memory.state() + result.memory.host.state();
  for (int64_t step = 0; step < 2; ++step) {
    result.memory.activations = 0;
    at_rest = memory.bytes();
    trace.clear();
    memory.reset_peak();
    train::PreparedStep prepared;
    on_meta([&] { prepared = train::prepare_step(parts, input, step); });
    trace.add({.kind = Event::Kind::kUpdate});
    result.memory.working = memory.peak() - at_start;
    if (is_offloaded(state)) memory.reset_peak();  // from here on the host works
    train::apply_step(parts, prepared, /*lr=*/1e-3);
    trace.add({.kind = Event::Kind::kEnd});
    (is_offloaded(state) ? result.memory.host_working : result.memory.working) =
        memory.peak() - at_start;
  }
  add_concurrent_passes(result, config);
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
