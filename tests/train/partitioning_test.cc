// Every model's partitioning says of every parameter how it is shared out.
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "fovea/models/partitionings.h"
#include "fovea/models/registry.h"
#include "fovea/parallel/partitioning_check.h"
#include "tests/train/model_cases.h"
#include "tests/train/shared_vits.h"

namespace fovea::train {
namespace {

// Throws where a parameter has no rule, or a rule no parameter.
void match_partitioning(const models::ModelConfig& config) {
  std::vector<std::string> names;
  const auto model = models::build_model(config, at::kMeta);
  for (const auto& item : model->named_parameters()) names.push_back(item.key());
  EXPECT_EQ(parallel::match_rules(models::partitioning_of(config), names).size(), names.size());
}

TEST(PartitioningTest, NamesEveryParameterOfEveryModel) {
  const testing::Folder folder;
  for (const auto& item : testing::model_cases()) {
    SCOPED_TRACE(item.name);
    EXPECT_NO_THROW(match_partitioning(item.config(folder).model));
  }
  for (const auto& item : testing::vits_of_every_option()) {
    SCOPED_TRACE(item.name);
    EXPECT_NO_THROW(match_partitioning(item.model));
  }
  for (const auto& preset : models::list_models()) {
    SCOPED_TRACE(preset);
    EXPECT_NO_THROW(match_partitioning(models::named_config(preset)));
  }
}

TEST(PartitioningTest, RefusesNamesWithoutARuleAndRulesWithoutAName) {
  const parallel::Partitioning partitioning{
      .rules = {{.pattern = "a.*"}, {.pattern = "b"}}, .regions = {}, .units = {}};
  const std::vector<std::string> names = {"a.weight", "c"};
  try {
    parallel::match_rules(partitioning, names);
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("parameter c has no rule"), text.npos) << text;
    EXPECT_NE(text.find("the rule 'b' holds for no parameter"), text.npos) << text;
  }
}

std::string faults_of(const parallel::Partitioning& partitioning,
                      const parallel::ParallelConfig& config) {
  ConfigIssues issues;
  parallel::check_partitioning(partitioning, config, issues);
  std::string text;
  for (const auto& issue : issues.all()) text += issue.key + ": " + issue.message + "\n";
  return text;
}

TEST(PartitioningTest, RefusesTpWhereNothingIsSharedOut) {
  parallel::ParallelConfig config;
  const parallel::Partitioning partitioning{
      .rules = {{.pattern = "*"}}, .regions = {}, .units = {}};
  EXPECT_EQ(faults_of(partitioning, config), "");
  config.tp = 2;
  EXPECT_NE(
      faults_of(partitioning, config).find("parallel.tp: found 2, but the model has no layer"),
      std::string::npos);
}

std::string faults_of(const models::VitConfig& vit, int64_t tp, int64_t cp) {
  parallel::ParallelConfig config;
  config.tp = tp;
  config.cp = cp;
  return faults_of(models::partitioning_of(models::ModelConfig{vit}), config);
}

TEST(PartitioningTest, SaysWhatWouldFit) {
  models::VitConfig vit;
  vit.embed_dim = 48;
  vit.num_heads = 6;
  EXPECT_EQ(faults_of(vit, 3, 2), "");
  EXPECT_NE(faults_of(vit, 4, 1).find("parallel.tp: found 4, but num_heads is 6"),
            std::string::npos)
      << faults_of(vit, 4, 1);
  EXPECT_NE(faults_of(vit, 4, 1).find("expected one of 1, 2, 3, 6"), std::string::npos);
  EXPECT_NE(faults_of(vit, 2, 2).find("parallel.cp: found 2 with tp: 2, but num_heads is 6"),
            std::string::npos)
      << faults_of(vit, 2, 2);
  vit.mlp_ratio = 0.15;  // of 48: 7
  EXPECT_NE(faults_of(vit, 2, 1).find("the hidden width of the MLP is 7"), std::string::npos)
      << faults_of(vit, 2, 1);
}

}  // namespace
}  // namespace fovea::train
