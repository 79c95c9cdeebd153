#include "fovea/recipe_import/command_line.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "fovea/core/error.h"
#include "fovea/recipe_import/recipe_import.h"
#include "tests/recipe_import/import_support.h"
#include "tests/support/temp_dir.h"

namespace fovea::recipe_import {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<ImportedRecipe> from_script(const std::string& text, const std::string& system = "timm",
                                        int64_t num_gpus = 0) {
  const support::TempDir folder;
  ImportOptions options;
  options.system = system;
  options.num_gpus = num_gpus;
  return import_recipes({folder.write("run.sh", text)}, options);
}

std::string batch_of(const std::string& text, const std::string& system = "timm") {
  return value_in(from_script(text, system).at(0).yaml, "data.global_batch_size");
}

const std::string kTrain = "train.py data --model vit_tiny_patch16_224 -b 64";

TEST(CommandLineTest, LaunchersMultiplyTheBatch) {
  const std::map<std::string, std::string> batches = {
      {"./distributed_train.sh 4 data --model vit_tiny_patch16_224 -b 64", "256"},
      {"CUDA_VISIBLE_DEVICES=0,1 bash ./distributed_train.sh 2 data --model vit_tiny_patch16_224 "
       "-b64",
       "128"},
      {"torchrun --nproc_per_node 4 " + kTrain, "256"},
      {"torchrun --standalone --nnodes=2 --nproc-per-node=4 " + kTrain, "512"},
      {"python -m torch.distributed.launch --nproc_per_node=8 --use_env " + kTrain, "512"},
      {"N=3\ntorchrun --nproc_per_node=$N " + kTrain, "192"},
      {"srun --ntasks 16 python " + kTrain, "1024"},
      {"mpirun -np 2 python " + kTrain, "128"},
      {"#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\nsrun python " + kTrain, "512"},
      {"#SBATCH -N 2\nsrun torchrun --nnodes $SLURM_NNODES --nproc_per_node 4 " + kTrain, "512"},
      {"python " + kTrain, "64"}};
  for (const auto& [command, batch] : batches) EXPECT_EQ(batch_of(command), batch) << command;
}

// The lines of T2T-ViT's page.
TEST(CommandLineTest, PublishedLinesOfT2t) {
  for (const auto& [processes, batch] : std::map<int, std::string>{{4, "512"}, {8, "1024"}}) {
    const auto line = fmt::format(
        "CUDA_VISIBLE_DEVICES=0,1,2,3 ./distributed_train.sh {} path/to/data --model t2t_vit_7 -b "
        "128 "
        "--lr 1e-3 --weight-decay .03 --amp --img-size 224",
        processes);
    const auto recipe = from_script(line, "jabas").at(0);
    EXPECT_EQ(value_in(recipe.yaml, "data.global_batch_size"), batch);
    EXPECT_EQ(value_in(recipe.yaml, "data.train.path"), "path/to/data/train");
    EXPECT_EQ(row_of(recipe, "launch.nproc_per_node").outcome, ImportOutcome::kChanged);
  }
}

// JABAS's script, whose arguments are the worker's settings.
TEST(CommandLineTest, ScriptsOfJabas) {
  const auto recipe = from_script(
                          "./scripts/convergence/distributed/distributed_run.sh 0 32 1 2 recommend "
                          "jabas_config/example.json node0",
                          "jabas", 4)
                          .at(0);
  EXPECT_EQ(value_in(recipe.yaml, "data.global_batch_size"), "384");  // 32 three times, on four
  EXPECT_EQ(value_in(recipe.yaml, "trainer.micro_batch_size"), "32");
  EXPECT_EQ(value_in(recipe.yaml, "optim.lr"), "0.0005");
  EXPECT_EQ(row_of(recipe, "jabas_config_file").outcome, ImportOutcome::kRefused);  // not there
  const auto launched = from_script(
      "CMD=\"python main.py --model t2t_vit_14 --lr 1e-3\"\npython -m jabas.elastic.launch -r 0 "
      "--cmd \"$CMD\" --local-batch-size 16 --num-models 2",
      "jabas");
  EXPECT_EQ(value_in(launched.at(0).yaml, "data.global_batch_size"), "32");
  EXPECT_EQ(value_in(launched.at(0).yaml, "optim.lr"), "0.001");
  EXPECT_EQ(row_of(launched.at(0), "launch.r").outcome, ImportOutcome::kRefused);
}

TEST(CommandLineTest, NumbersThatOnlyTheLauncherKnowsAreNamed) {
  const auto recipe = from_script("torchrun --nproc_per_node=gpu " + kTrain).at(0);
  EXPECT_THAT(row_of(recipe, "launch.nproc_per_node").note, HasSubstr("--gpus"));
  EXPECT_EQ(row_of(recipe, "launch.nproc_per_node").outcome, ImportOutcome::kRefused);
  const auto shell = from_script("torchrun --nproc_per_node=$NGPU " + kTrain).at(0);
  EXPECT_THAT(row_of(shell, "launch.nproc_per_node").note,
              ::testing::AllOf(HasSubstr("$NGPU"), HasSubstr("--gpus")));
  const auto given = from_script("torchrun --nproc_per_node=gpu " + kTrain, "timm", 4).at(0);
  EXPECT_EQ(value_in(given.yaml, "data.global_batch_size"), "256");
  EXPECT_EQ(row_of(given, "launch.nproc_per_node").outcome, ImportOutcome::kMapped);
}

TEST(CommandLineTest, VariablesOfTheShell) {
  const auto recipe =
      from_script("LR=2e-3\nARGS='--opt adamw --amp'\npython " + kTrain +
                  " $ARGS --lr $LR --weight-decay $WD --epochs ${EPOCHS:-90} --opt-betas 0.9 $B2")
          .at(0);
  EXPECT_EQ(value_in(recipe.yaml, "optim.lr"), "0.002");
  EXPECT_EQ(value_in(recipe.yaml, "optim.name"), "adamw");
  EXPECT_EQ(value_in(recipe.yaml, "trainer.max_epochs"), "90");
  for (const auto& [key, name] :
       std::map<std::string, std::string>{{"weight_decay", "$WD"}, {"opt_betas", "$B2"}}) {
    EXPECT_EQ(row_of(recipe, key).outcome, ImportOutcome::kRefused);
    EXPECT_THAT(row_of(recipe, key).note, HasSubstr(name + " has no value in the file"));
  }
  EXPECT_EQ(value_in(recipe.yaml, "optim.betas"), "(none)");
  EXPECT_THROW(from_script("python train.py data --model $MODEL"), ConfigError);
}

// A switch takes no value, so that what stands behind it is the folder.
TEST(CommandLineTest, SwitchesLeaveArgumentsAlone) {
  const auto recipe = from_script("train.py --amp /data --model vit_tiny_patch16_224").at(0);
  EXPECT_EQ(value_in(recipe.yaml, "data.train.path"), "/data/train");
  EXPECT_EQ(value_in(recipe.yaml, "device.dtype"), "float16");
  const auto two = from_script("train.py /data more --model vit_tiny_patch16_224").at(0);
  EXPECT_EQ(value_in(two.yaml, "data.train.path"), "/data/train");
  EXPECT_EQ(row_of(two, "positional_2").outcome, ImportOutcome::kRefused);
}

TEST(CommandLineTest, EachTurnOfALoopIsARecipe) {
  const auto recipes =
      from_script("for lr in 1e-3 5e-4; do\n  python " + kTrain + " --lr $lr\ndone\n");
  ASSERT_EQ(recipes.size(), 2U);
  EXPECT_EQ(recipes[0].turn, "lr-1e-3");
  EXPECT_EQ(value_in(recipes[0].yaml, "optim.lr"), "0.001");
  EXPECT_EQ(value_in(recipes[1].yaml, "optim.lr"), "0.0005");
  EXPECT_EQ(value_in(recipes[0].yaml, "run.dir"), "runs/vit_tiny_patch16_224_lr-1e-3");
  EXPECT_EQ(value_in(recipes[1].yaml, "run.dir"), "runs/vit_tiny_patch16_224_lr-5e-4");
  const auto own =
      from_script("for s in 1 2; do python " + kTrain + " --seed $s --output o$s; done");
  EXPECT_EQ(value_in(own.at(1).yaml, "run.dir"), "o2/vit_tiny_patch16_224");
  // Two commands of a turn are its phases; turns that say the same are one.
  const auto phases = from_script("for lr in 1e-3 5e-4; do python " + kTrain +
                                  " --lr $lr; python " + kTrain + " --img-size 384; done");
  ASSERT_EQ(phases.size(), 2U);
  EXPECT_EQ(phases_in(phases[0].yaml).size(), 2U);
  EXPECT_EQ(from_script("for i in 1 2; do python " + kTrain + "; done").size(), 1U);
}

TEST(CommandLineTest, ALoopAndCommandsBesideItAreRefused) {
  EXPECT_THROW(
      from_script("python " + kTrain + "\nfor s in 1 2; do python " + kTrain + " --seed $s; done"),
      ConfigError);
  const support::TempDir folder;
  const auto loop = folder.write("a.sh", "for s in 1 2; do python " + kTrain + " --seed $s; done");
  EXPECT_THROW(import_recipes({loop, loop}, {.system = "timm"}), ConfigError);
  EXPECT_THROW(import_recipe(loop, {.system = "timm"}), ConfigError);
}

TEST(CommandLineTest, EvaluationsAreNoTraining) {
  const std::string evaluation =
      "python main.py path/to/data --model t2t_vit_14 -b 100 --eval_checkpoint path/to/checkpoint";
  try {
    from_script(evaluation, "jabas");
    ADD_FAILURE() << "a recipe of an evaluation";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), ::testing::AllOf(HasSubstr("--eval_checkpoint evaluates"),
                                               HasSubstr("fovea eval")));
  }
  EXPECT_THROW(from_script("python validate.py d --model vit_tiny_patch16_224"), ConfigError);
  const auto both = from_script("python " + kTrain + "\npython validate.py data --checkpoint best");
  ASSERT_EQ(both.size(), 1U);
  EXPECT_THAT(both[0].remark, HasSubstr("left out: validate.py"));
}

// As in a file of flags, one a line.
TEST(CommandLineTest, LinesOfFlagsAreOneCommand) {
  const auto recipe = from_script("train.py data\n--model vit_tiny_patch16_224\n--lr 0.5\n").at(0);
  EXPECT_EQ(value_in(recipe.yaml, "optim.lr"), "0.5");
  const auto flags = from_script("--model vit_tiny_patch16_224\n--data-dir d\n--lr 0.5\n").at(0);
  EXPECT_EQ(value_in(flags.yaml, "data.train.path"), "d/train");
}

}  // namespace
}  // namespace fovea::recipe_import
