// What a rehearsal predicts is what processes then do: collectives, to the call and byte, and bytes
// of tensors.
#include <gtest/gtest.h>

#include <iostream>

#include "fovea/kernels/kernel_paths.h"
#include "fovea/plan/live_memory.h"
#include "fovea/plan/rehearsal.h"
#include "fovea/train/ranks.h"
#include "fovea/train/session.h"
#include "fovea/train/state/mesh_state.h"
#include "tests/parallel/run_ranks.h"
#include "tests/train/model_cases.h"

namespace fovea::plan {
namespace {

using parallel::DeviceMesh;
using parallel::MeshAxis;
using parallel::ParallelConfig;

struct Mode {
  const char* name;
  std::array<int64_t, parallel::kNumMeshAxes> mesh;
  ParallelConfig parallel = {};   // but for the sizes
  int64_t micro_batch_size = 0;   // 0: the whole part
  const char* dtype = "float32";  // device.dtype
  const char* saved_activations = "full";
};

ParallelConfig with(const std::function<void(ParallelConfig&)>& change) {
  ParallelConfig parallel;
  change(parallel);
  return parallel;
}

// Large enough that tensors outweigh what a step has besides.
train::TrainConfig config_of(const data::testing::TempDir& folder, const Mode& mode) {
  auto config = train::testing::tiny_config(folder);
  auto vit = *config.model.get_if<models::VitConfig>();
  vit.patch_size = {2};
  vit.embed_dim = 64;
  vit.depth = 3;
  vit.num_heads = 4;
  if (mode.parallel.cp_method == "ring") vit.attn_drop_rate = 0;
  config.model = {vit};
  config.data.global_batch_size = 32;
  config.data.drop_last = true;
  config.trainer.ema.enabled = true;
  if (mode.micro_batch_size > 0) config.trainer.micro_batch_size = mode.micro_batch_size;
  config.device.dtype = mode.dtype;
  config.device.saved_activations = mode.saved_activations;
  config.parallel = mode.parallel;
  config.parallel.dp_replicate = mode.mesh[0];
  config.parallel.dp_shard = mode.mesh[1];
  config.parallel.cp = mode.mesh[2];
  config.parallel.tp = mode.mesh[3];
  return config;
}

struct Measured {
  std::map<std::string, parallel::CollectiveCounts> counts;
  int64_t state = 0, peak = 0;  // bytes
};

// Two steps as Trainer takes them; of the second one.
Measured train_two_steps(const train::TrainConfig& config, const DeviceMesh& mesh) {
  auto source = train::open_training_data(config, train::data_share(mesh, config.parallel));
  LiveMemory memory(c10::DeviceType::CPU);
  auto with_average = config;
  with_average.trainer.ema = {.enabled = true, .decay = 0.9};
  train::MeshState state(with_average, mesh, train::step_options(config));
  state.model->train();
  Measured result{.counts = {}, .state = memory.bytes(), .peak = 0};
  std::map<std::string, parallel::Communicator*> groups = {
      {"dp_replicate x dp_shard", &mesh.data_parallel()}};
  for (size_t i = 0; i < parallel::kNumMeshAxes; ++i) {
    const auto axis = static_cast<MeshAxis>(i);
    if (&mesh.axis(axis) == &mesh.data_parallel()) groups.erase("dp_replicate x dp_shard");
    groups[name_of(axis)] = &mesh.axis(axis);
  }
  for (int64_t step = 0; step < 2; ++step) {
    for (auto& [axis, group] : groups) group->reset_counts();
    auto batch = source.loader->next();
    memory.reset_peak();
    const auto prepared = train::prepare_step(state.step_parts(), batch, step);
    train::apply_step(state.step_parts(), prepared, 1e-3);
  }
  result.peak = memory.peak();
  for (const auto& [axis, group] : groups) {
    if (!group->counts().empty()) result.counts[axis] = group->counts();
  }
  return result;
}

void expect_within_5_percent(int64_t predicted, int64_t measured, const char* what) {
  EXPECT_NEAR(static_cast<double>(predicted), static_cast<double>(measured),
              0.05 * static_cast<double>(measured))
      << what;
}

void compare(parallel::World& world, const char* name, const train::TrainConfig& config,
             const parallel::MeshShape& shape) {
  SCOPED_TRACE(name);
  const auto predicted = rehearse(config, shape, world.rank(), Backend::kHost);
  const DeviceMesh mesh(world, shape);
  const auto measured = train_two_steps(config, mesh);
  EXPECT_EQ(predicted.counts(), measured.counts);
  expect_within_5_percent(predicted.memory.state(), measured.state, "state");
  // Where the processor has no products of bfloat16, copies in float32 come on top while it
  // multiplies; a plan is of hardware that has.
  const bool is_as_float =
      config.device.dtype == "bfloat16" && !kernels::kernel_paths().multiplies_bfloat16();
  if (is_as_float) {
    EXPECT_LT(predicted.memory.peak(), measured.peak);
  } else {
    expect_within_5_percent(predicted.memory.peak(), measured.peak, "peak");
  }
  if (!world.is_first()) return;
  std::cout << name << ": state " << predicted.memory.state() << " of " << measured.state
            << ", peak " << predicted.memory.peak() << " of " << measured.peak << "\n";
}

void compare_modes(parallel::World& world, const std::vector<Mode>& modes) {
  const data::testing::TempDir folder;
  for (const auto& mode : modes) {
    compare(world, mode.name, config_of(folder, mode), parallel::MeshShape{mode.mesh});
  }
}

const auto kZero1 = with([](ParallelConfig& p) { p.zero = 1; });
const auto kZero2 = with([](ParallelConfig& p) { p.zero = 2; });
const auto kRecompute = with([](ParallelConfig& p) { p.recompute = "block"; });
const auto kSequence = with([](ParallelConfig& p) { p.sequence_parallel = true; });
const auto kSequenceRecompute = with([](ParallelConfig& p) {
  p.sequence_parallel = true;
  p.recompute = "block";
});
const auto kRing = with([](ParallelConfig& p) { p.cp_method = "ring"; });
const auto kHalfWire = with([](ParallelConfig& p) { p.reduce_dtype = "bfloat16"; });
const auto kHalfGathers = with([](ParallelConfig& p) { p.param_dtype = "bfloat16"; });
const auto kEveryLayer = with([](ParallelConfig& p) { p.min_num_params = 1; });
const auto kOuter = with([](ParallelConfig& p) { p.shard_outer = "optimizer"; });
const auto kOuterHalfWire = with([](ParallelConfig& p) {
  p.shard_outer = "optimizer";
  p.reduce_dtype = "bfloat16";
});
const auto kKept = with([](ParallelConfig& p) { p.reshard_after_forward = false; });

TEST(PlanRanksTest, TwoRanksDoAsPredicted) {
  parallel::testing::run_ranks(2, [](parallel::World& world) {
    compare_modes(world,
                  {{"ddp", {2, 1, 1, 1}},
                   {"ddp, recompute, micro-batches", {2, 1, 1, 1}, kRecompute, 4},
                   {"ddp, bfloat16", {2, 1, 1, 1}, kHalfWire},
                   {"ddp, saved in bfloat16", {2, 1, 1, 1}, {}, 0, "float32", "bfloat16"},
                   {"zero 1", {1, 2, 1, 1}, kZero1, 8},
                   {"zero 2", {1, 2, 1, 1}, kZero2, 8},
                   {"zero 3", {1, 2, 1, 1}},
                   {"zero 3, five micro-batches", {1, 2, 1, 1}, {}, 3},
                   {"zero 3, recompute", {1, 2, 1, 1}, kRecompute},
                   {"zero 3, kept", {1, 2, 1, 1}, kKept},
                   {"zero 3, every layer", {1, 2, 1, 1}, kEveryLayer, 4},
                   {"zero 3, gathered in bfloat16", {1, 2, 1, 1}, kHalfGathers, 0, "bfloat16"},
                   {"tp", {1, 1, 1, 2}},
                   {"tp, recompute", {1, 1, 1, 2}, kRecompute},
                   {"tp and sp", {1, 1, 1, 2}, kSequence, 4},
                   {"tp, sp, recompute", {1, 1, 1, 2}, kSequenceRecompute},
                   {"cp", {1, 1, 2, 1}},
                   {"cp, recompute", {1, 1, 2, 1}, kRecompute},
                   {"cp in a ring", {1, 1, 2, 1}, kRing}});
  });
}

TEST(PlanRanksTest, FourRanksDoAsPredicted) {
  parallel::testing::run_ranks(4, [](parallel::World& world) {
    compare_modes(world, {{"hsdp", {2, 2, 1, 1}},
                          {"hsdp, recompute, micro-batches", {2, 2, 1, 1}, kRecompute, 2},
                          {"hsdp, outer parts, micro-batches", {2, 2, 1, 1}, kOuter, 2},
                          {"copies, outer parts, bfloat16", {4, 1, 1, 1}, kOuterHalfWire},
                          {"copies and tp, outer parts", {2, 1, 1, 2}, kOuter, 4},
                          {"ddp and tp", {2, 1, 1, 2}, kSequence, 4},
                          {"zero 3 and tp", {1, 2, 1, 2}, kSequence, 8},
                          {"zero 2 and cp", {1, 2, 2, 1}, kZero2},
                          {"cp and tp", {1, 1, 2, 2}, kSequenceRecompute}});
  });
}

// Weights, gradients, two moments and averages; of all of them, beside the weights to compute
// with, a rank has a fourth.
TEST(PlanRanksTest, OuterPartsDivideTheStateOfACopy) {
  parallel::testing::run_ranks(4, [](parallel::World& world) {
    const data::testing::TempDir folder;
    std::map<std::string, int64_t> state;
    for (const Mode& mode : {Mode{"none", {4, 1, 1, 1}}, Mode{"outer", {4, 1, 1, 1}, kOuter}}) {
      const DeviceMesh mesh(world, parallel::MeshShape{mode.mesh});
      state[mode.name] = train_two_steps(config_of(folder, mode), mesh).state;
    }
    const auto ratio = static_cast<double>(state["outer"]) / static_cast<double>(state["none"]);
    EXPECT_NEAR(ratio, (1 + 5.0 / 4) / 5, 0.01);
    if (world.is_first()) std::cout << state["outer"] << " of " << state["none"] << " bytes\n";
  });
}

// A model of the test cases, wide enough that tensors outweigh what a step has besides.
template <class Model>
train::TrainConfig widened(train::TrainConfig config, int64_t batch_size,
                           const std::function<void(Model&)>& change = {}) {
  auto model = *config.model.get_if<Model>();
  model.encoder.vit.embed_dim = 64;
  model.encoder.vit.num_heads = 4;
  if (change) change(model);
  config.model = {model};
  config.data.global_batch_size = batch_size;
  config.data.drop_last = true;
  config.trainer.ema.enabled = true;
  return config;
}

// Adaptive patches (a length that trees reach, and one that leaves places empty), tokens on a map,
// and noise with time steps.
TEST(PlanRanksTest, OtherModelsDoAsPredicted) {
  namespace cases = train::testing;
  parallel::testing::run_ranks(2, [](parallel::World& world) {
    const parallel::MeshShape ddp{{2, 1, 1, 1}}, fsdp{{1, 2, 1, 1}};
    const train::TaskConfig rebuilt = {train::MaskedAutoencodingConfig{}};
    const auto wide_decoder = [](models::MaeConfig& mae) { mae.decoder_embed_dim = 32; };
    const auto check = [&](const char* name, const parallel::MeshShape& shape, auto make) {
      const data::testing::TempDir folder;
      auto config = make(folder);
      config.parallel.dp_replicate = shape.sizes[0];
      config.parallel.dp_shard = shape.sizes[1];
      compare(world, name, config, shape);
    };
    const auto mae_2d = [&](const cases::Folder& f) {
      return widened<models::MaeConfig>(
          cases::adaptive_mae(cases::images_of(f, {cases::mae_of({8}, 2)}, rebuilt), {-2.2, 2.7}),
          32, wide_decoder);
    };
    check("mae on adaptive patches", ddp, mae_2d);
    check("mae on adaptive patches, zero 3", fsdp, mae_2d);
    check("mae on adaptive patches of volumes", ddp, [&](const cases::Folder& f) {
      return widened<models::MaeConfig>(
          cases::adaptive_mae(cases::volumes_of(f, {cases::mae_of({8, 8, 8}, 2)}, rebuilt),
                              {-1, 1}),
          8, wide_decoder);
    });
    check("unetr on adaptive patches", fsdp, [](const cases::Folder& f) {
      return widened<models::UnetrConfig>(
          cases::adaptive_unetr(cases::tiny_segmentation_config(f), "image", 50), 4);
    });
    check("diffusion", ddp, [](const cases::Folder& f) {
      return widened<models::DiffusionVitConfig>(
          cases::images_of(f, {cases::denoiser_of({8}, 4)}, cases::few_samples()), 32);
    });
    check("diffusion of volumes, zero 3", fsdp, [](const cases::Folder& f) {
      return widened<models::DiffusionVitConfig>(
          cases::volumes_of(f, {cases::denoiser_of({8, 8, 8}, 0)}, cases::few_samples()), 8,
          [](models::DiffusionVitConfig& model) { model.encoder.vit.embed_dim = 48; });
    });
  });
}

}  // namespace
}  // namespace fovea::plan
