// Commands that the documents show for several processes fit their recipes and meshes.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "fovea/core/files.h"
#include "fovea/parallel/mesh_shape.h"
#include "fovea/train/recipe/config.h"

namespace fovea::train {
namespace {

struct ShownCommand {
  std::string recipe;
  std::vector<std::string> overrides;
};

// Lines of `fovea train recipes/...` up to a comment.
std::vector<ShownCommand> shown_commands(const std::string& path) {
  std::vector<ShownCommand> commands;
  std::istringstream lines(read_file(path, 1 << 20));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string program, verb;
    ShownCommand command;
    if (!(words >> program >> verb >> command.recipe) || program != "fovea" || verb != "train" ||
        !command.recipe.starts_with("recipes/")) {
      continue;
    }
    for (std::string word; words >> word;) command.overrides.push_back(word);
    commands.push_back(std::move(command));
  }
  return commands;
}

TEST(ParallelDocsTest, CommandsFit) {
  const auto commands = shown_commands(FOVEA_SOURCE_DIR "/docs/parallel.md");
  ASSERT_GE(commands.size(), 18u);
  for (const auto& command : commands) {
    std::string shown = command.recipe;
    for (const auto& word : command.overrides) shown += " " + word;
    SCOPED_TRACE(shown);
    try {
      const auto config = load_config<TrainConfig>(
          std::string(FOVEA_SOURCE_DIR "/") + command.recipe, command.overrides);
      const auto processes = config.launch.processes;
      const auto mesh =
          parallel::mesh_shape(config.parallel, processes, config.data.global_batch_size);
      EXPECT_EQ(mesh.num_ranks(), processes);
      EXPECT_GT(processes, 1);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

}  // namespace
}  // namespace fovea::train
