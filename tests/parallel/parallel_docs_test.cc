// Commands that the documents show for several processes: each trains its recipe on its mesh, at a
// tiny size.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "fovea/core/files.h"
#include "fovea/parallel/mesh.h"
#include "fovea/train/bench/example_batch.h"
#include "fovea/train/ranks.h"
#include "fovea/train/recipe/run_folder.h"
#include "fovea/train/run/phases.h"
#include "fovea/train/session.h"
#include "fovea/train/state/mesh_state.h"
#include "tests/parallel/run_ranks.h"

namespace fovea::train {
namespace {

struct ShownCommand {
  std::string text, recipe;
  std::vector<std::string> overrides;
};

// Lines of `fovea train RECIPE` or `recipes/...` up to a comment. RECIPE stands for any.
std::vector<ShownCommand> shown_commands(const std::string& path) {
  std::vector<ShownCommand> commands;
  std::istringstream lines(read_file(path, 1 << 20));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string program, verb;
    ShownCommand command;
    if (!(words >> program >> verb >> command.recipe) || program != "fovea" || verb != "train") {
      continue;
    }
    command.text = line;
    if (command.recipe == "RECIPE") command.recipe = "recipes/tiny_imagenet/bionemo_vit_b16.yaml";
    for (std::string word; words >> word;) command.overrides.push_back(word);
    commands.push_back(std::move(command));
  }
  return commands;
}

// As many heads, so that they divide as those of the recipe do, of eight numbers each.
void shrink(models::VitConfig& vit, data::DataConfig& data, int64_t depth = 2) {
  constexpr int64_t kPatchesOfVolume = 64;
  vit.embed_dim = 8 * vit.num_heads;
  vit.depth = depth;
  vit.mlp_ratio = 4;
  if (vit.img_size.size() < 3) return;
  vit.img_size = {16, 16, 16};
  if (!data.adaptive_patching) return;
  vit.fixed_length = data.adaptive_patching->fixed_length = kPatchesOfVolume;
}

template <class Model>
void shrink(Model& model, data::DataConfig& data) {
  constexpr bool kHasSkips = requires { model.skip_connection; };  // of each quarter
  if constexpr (requires { model.encoder; }) {
    shrink(model.encoder.vit, data, /*depth=*/kHasSkips ? 4 : 2);
  }
  if constexpr (requires { model.decoder_embed_dim; }) {
    model.decoder_embed_dim = 8 * model.decoder_num_heads;
    model.decoder_depth = 1;
  }
  if constexpr (requires { model.decoder_dim; }) model.decoder_dim = 16;
  if constexpr (requires { model.feature_size; }) model.feature_size = 4;
}

TrainConfig config_of(const ShownCommand& command) {
  const auto read =
      load_any_config(std::string(FOVEA_SOURCE_DIR "/") + command.recipe, command.overrides);
  return read.phases.empty() ? read : resolve_phases(read).front().config;
}

// What is left of it is model, task, mesh, dtype and optimizer; blocks still count as pieces.
TrainConfig at_tiny_size(TrainConfig config) {
  config.device.type = "cpu";
  config.init = {};
  std::visit([&](auto& model) { shrink(model, config.data); }, config.model.value);
  config.parallel.min_num_params = std::min<int64_t>(config.parallel.min_num_params, 1000);
  return config;
}

// One step, after which all ranks have the same weights again.
void take_a_step(const ShownCommand& command, parallel::World& world) {
  const auto shown = config_of(command);
  const auto shape =
      parallel::mesh_shape(shown.parallel, world.size(), shown.data.global_batch_size);
  const auto config = at_tiny_size(shown);
  const parallel::DeviceMesh mesh(world, shape);
  MeshState state(config, mesh, step_options(config));
  state.model->train();
  const auto share = data_share(mesh, config.parallel);
  const auto rows = std::max(config.parallel.slots, mesh.data_parallel().size());  // of them all
  auto batch = noise_batch(config, *state.model, share.rows(rows));
  batch.share = share;
  batch.global_size = rows;
  const auto prepared = prepare_step(state.step_parts(), batch, 0);
  const auto outcome = outcome_of(prepared, state.options);
  apply_step(state.step_parts(), prepared, /*lr=*/1e-3);
  EXPECT_GT(outcome.weight, 0);
  EXPECT_GT(outcome.grad_norm, 0);
  state.check_same_weights();
}

std::vector<ShownCommand> commands_of(int64_t processes) {
  auto commands = shown_commands(FOVEA_SOURCE_DIR "/docs/parallel.md");
  const auto words = " launch.processes=" + std::to_string(processes) + " ";
  std::erase_if(commands, [&](const ShownCommand& command) {
    return (command.text + " ").find(words) == std::string::npos;
  });
  return commands;
}

void take_steps(int64_t processes) {
  parallel::testing::run_ranks(processes, [&](parallel::World& world) {
    for (const auto& command : commands_of(processes)) {
      SCOPED_TRACE(command.text);
      try {
        take_a_step(command, world);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
        return;  // the others wait for this rank
      }
      if (world.is_first()) std::cout << command.text << "\n";
    }
  });
}

TEST(ParallelDocsTest, CommandsTrainOnTwoProcesses) { take_steps(2); }

TEST(ParallelDocsTest, CommandsTrainOnEightProcesses) { take_steps(8); }

// None is left out.
TEST(ParallelDocsTest, CommandsHaveAsManyProcesses) {
  const auto all = shown_commands(FOVEA_SOURCE_DIR "/docs/parallel.md");
  ASSERT_GE(all.size(), 21u);
  EXPECT_EQ(commands_of(2).size() + commands_of(8).size(), all.size());
}

}  // namespace
}  // namespace fovea::train
