// What holds for every model that a recipe can name, with its task, of images and of volumes, with
// regular and with adaptive patches: gradients everywhere, a falling loss, exact resumption, a
// report. A model that is missing in the list below fails the first test.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>
#include <vector>

#include "fovea/core/files.h"
#include "fovea/models/registry.h"
#include "fovea/train/bench/bench_workload.h"
#include "fovea/train/bench/model_summary.h"
#include "fovea/train/bench/operation_log.h"
#include "fovea/train/evaluate/evaluator.h"
#include "fovea/train/session.h"
#include "tests/support/html_checker.h"
#include "tests/support/tolerance.h"
#include "tests/train/model_cases.h"
#include "tests/train/run_check.h"
#include "tests/train/step_gradients.h"

namespace fovea::train {
namespace {

using Folder = data::testing::TempDir;
using testing::model_cases;
using testing::ModelCase;

class EveryModelTest : public ::testing::TestWithParam<ModelCase> {
 protected:
  EveryModelTest() {
    config_.run.dir = folder_.file("run");
    config_.trainer.max_epochs = {};
    config_.trainer.max_steps = 40;
    config_.trainer.eval_every_epochs = 0;  // no best checkpoint in between
    config_.checkpoint.every_steps = 20;
    config_.log.every_steps = 1;
  }

  Folder folder_;
  TrainConfig config_ = GetParam().config(folder_);
};

// Some stay zero in one step: a dropped path, a class that no sample had.
TEST_P(EveryModelTest, GradientsReachEveryParameter) {
  const auto source = open_training_data(config_);
  const auto model = make_model(config_, {});
  const auto task = make_task(config_.task, *model);
  const auto optimizer = make_optimizer(config_, *model);
  std::set<std::string> waiting;
  for (const auto& item : model->named_parameters()) {
    if (item.value().requires_grad()) waiting.insert(item.key());
  }
  ASSERT_FALSE(waiting.empty());
  for (int64_t step = 0; step < 12 && !waiting.empty(); ++step) {
    auto batch = source.loader->next();
    testing::gradients_of_step(*model, *task, *optimizer, batch, step, {});
    optimizer->step(1e-3);  // weights that start at zero hold back those behind them
    for (const auto& item : model->named_parameters()) {
      const auto& gradient = item.value().grad();
      if (gradient.defined() && gradient.any().item<bool>()) waiting.erase(item.key());
    }
  }
  EXPECT_TRUE(waiting.empty()) << waiting.size() << " without a gradient, " << *waiting.begin();
}

TEST_P(EveryModelTest, LearnsResumesExactlyAndReports) {
  const auto validation = open_validation_data(config_, {});
  const auto model = make_model(config_, {});
  const auto task = make_task(config_.task, *model);
  const auto before = evaluate(*model, *task, *validation.loader, {})->metrics();
  const auto result = testing::fit(config_);
  EXPECT_LT(result.last_eval.at("loss"), before.at("loss"));

  auto cut = config_;
  cut.run.dir = folder_.file("cut");
  std::filesystem::copy(config_.run.dir, cut.run.dir, std::filesystem::copy_options::recursive);
  testing::go_back_to(cut.run.dir, 20);
  EXPECT_EQ(testing::fit(cut).step, 40);
  testing::expect_same_run(cut.run.dir, config_.run.dir);
  const auto html = read_file(cut.run.dir + "/report.html", 1 << 26);
  EXPECT_EQ(support::check_html(html).fault, "");
}

TEST_P(EveryModelTest, AStepInFloat16IsCloseToOneInFloat32) {
  const auto source = open_training_data(config_);
  auto batch = source.loader->next();
  std::vector<StepOutcome> outcomes;
  for (const auto dtype : {at::kFloat, at::kHalf}) {
    const auto model = make_model(config_, {});
    const auto task = make_task(config_.task, *model);
    const auto optimizer = make_optimizer(config_, *model);
    optim::GradScaler scaler({});
    StepOptions options;
    options.compute.dtype = dtype;
    options.scaler = &scaler;
    // A first gradient may be too large for the scale that torch starts with.
    StepOutcome outcome;
    outcome.is_skipped = true;
    for (int attempt = 0; attempt < 12 && outcome.is_skipped; ++attempt) {
      outcome = testing::gradients_of_step(*model, *task, *optimizer, batch, 0, options);
    }
    EXPECT_FALSE(outcome.is_skipped);
    outcomes.push_back(outcome);
  }
  const auto near = [](double left, double right, const char* what) {
    const auto tolerance = support::Tolerance::for_dtype(at::kHalf);
    EXPECT_NEAR(left, right, 8 * (tolerance.rtol * std::abs(right) + tolerance.atol)) << what;
  };
  near(outcomes[1].loss, outcomes[0].loss, "loss");
  near(outcomes[1].grad_norm, outcomes[0].grad_norm, "norm of the gradient");
}

// What `fovea bench model RECIPE` repeats: noise, and a forward pass whose products are those that
// the shapes of the layers tell of; in training, the steps of the recipe.
TEST_P(EveryModelTest, IsMeasuredOnNoise) {
  const auto on_meta = models::build_model(config_.model, at::kMeta);
  const auto of_image = static_cast<double>(summarize_model(config_, *on_meta).product_flops);
  const double made = inference_flops_per_image(config_);
  EXPECT_GT(made, 0);
  EXPECT_LE(made, of_image);  // less where the head reads the class token alone
  const double in_training = training_flops_per_image(config_);
  EXPECT_LE(in_training, 3 * made);  // less with patch dropout
  BenchOptions options;
  options.config = config_;
  options.is_recipe = true;
  options.batch_size = 3;
  for (const bool is_training : {true, false}) {
    options.is_training = is_training;
    BenchWorkload workload(options);
    OperationLog log;
    workload.step();
    double flops = 0;
    const auto operations = log.take();
    for (const auto& [name, cost] : operations) flops += cost.flops;
    if (is_training) {  // without gradients of images
      EXPECT_GT(flops, 2 * in_training);
    } else if (operations.contains("fovea::read_attention")) {  // for less than keys and values
      EXPECT_LT(flops, 3 * made);
      EXPECT_GT(flops, 2 * made);
    } else {
      // SAP makes one map of two, once a batch.
      const double slack = std::string(GetParam().name).starts_with("sap") ? 0.01 : 0;
      EXPECT_NEAR(flops, 3 * made, slack * 3 * made);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryModelTest, ::testing::ValuesIn(model_cases()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ModelCasesTest, NameEveryModelOfARecipe) {
  const Folder folder;
  std::set<std::string> covered;
  for (const auto& item : model_cases()) {
    covered.insert(std::string(item.config(folder).model.name()));
  }
  models::ModelConfig config;
  const auto names = bind_config(config)->names();
  EXPECT_EQ(covered, std::set<std::string>(names.begin(), names.end()));
}

}  // namespace
}  // namespace fovea::train
