// `fovea elastic solve` and `simulate` and `fovea profile show` as a user meets them, on JABAS's
// files as they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "tests/apps/program.h"
#include "tests/support/html_checker.h"
#include "tests/support/temp_dir.h"

namespace fovea {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_fovea;

constexpr int kBadConfig = static_cast<int>(ExitCode::kConfig);
constexpr int kBadData = static_cast<int>(ExitCode::kData);

const std::string kSamples = FOVEA_SOURCE_DIR "/tests/recipe_import/samples/";

nlohmann::json json_of(const std::string& arguments) {
  const auto result = run_fovea(arguments + " --json");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  return parse_json(result.output, "output");
}

TEST(ElasticSolveTest, OurChoiceIsFasterThanJabas) {
  const auto solve = "elastic solve " + kSamples + "jabas.json --global-batch 128";
  const auto upstream = json_of(solve + " --upstream"), ours = json_of(solve);
  EXPECT_EQ(upstream["weight_sync"], "overlap");
  for (const auto& device : upstream["devices"]) EXPECT_EQ(device["micro_batch"], 16);
  EXPECT_LE(ours["iteration_ms"], upstream["iteration_ms"]);
  EXPECT_LT(ours["solver_ms"], 1000);
  int64_t samples = 0;
  for (const auto& device : ours["devices"]) {
    samples += device["local_batch"].get<int64_t>();
    EXPECT_EQ(device["accumulation"], 0);
    EXPECT_EQ(device["concurrent"], 1);
  }
  EXPECT_EQ(samples, 128);
  double parts = 0;
  for (const auto& part : ours["parts"]) parts += part.get<double>();
  EXPECT_NEAR(parts, ours["iteration_ms"], 1e-9);
  EXPECT_NEAR(ours["images_per_second"].get<double>(), 128e3 / ours["iteration_ms"].get<double>(),
              1e-6);
  const auto cheap = json_of(solve + " --objective cost");
  EXPECT_LT(cheap["devices"].size(), 8U);
  EXPECT_LT(cheap["cost_per_hour"], ours["cost_per_hour"]);
}

TEST(ElasticSolveTest, WhatCannotBeSolvedIsRefused) {
  const auto solve = "elastic solve " + kSamples + "jabas.json ";
  const auto odd = run_fovea(solve + "--global-batch 100 --upstream");
  EXPECT_EQ(odd.exit_code, kBadConfig);
  EXPECT_THAT(odd.output, HasSubstr("without --upstream"));
  const auto word = run_fovea(solve + "--global-batch 100 --objective speed");
  EXPECT_EQ(word.exit_code, kBadConfig);
  EXPECT_THAT(word.output, HasSubstr("time, cost or a number"));
  const support::TempDir dir;
  const auto crossed =
      dir.write("c.yaml", std::string("batch_size_upper_bound: 8\nbatch_size_lower_bound: 64\n"));
  const auto bounds = run_fovea("elastic solve " + crossed + " --global-batch 8");
  EXPECT_EQ(bounds.exit_code, kBadConfig);
  EXPECT_THAT(bounds.output, AllOf(HasSubstr("c.yaml:2"), HasSubstr("batch_size_lower_bound")));
  const auto missing = run_fovea("elastic solve " + dir.path() + "/none.json --global-batch 8");
  EXPECT_EQ(missing.exit_code, kBadConfig);
}

TEST(ElasticSimulateTest, PoliciesAreComparedOnOneTrace) {
  const support::TempDir dir;
  const auto page = dir.path() + "/page.html";
  const auto all = json_of("elastic simulate " + kSamples +
                           "trace.jsonl --policy fixed,upstream,ours --out " + page);
  ASSERT_EQ(all["runs"].size(), 3U);
  const auto &fixed = all["runs"][0], &upstream = all["runs"][1], &ours = all["runs"][2];
  EXPECT_EQ(ours["policy"], "ours");
  EXPECT_EQ(ours["is_done"], true);
  EXPECT_LT(ours["hours"], upstream["hours"]);
  EXPECT_LT(ours["hours"], fixed["hours"]);
  EXPECT_EQ(ours["lost_samples"], 0);
  EXPECT_GT(fixed["lost_samples"], 0);
  const auto html = support::check_html(read_file(page, 1 << 24));
  EXPECT_EQ(html.fault, "");
  EXPECT_EQ(html.tags.at("svg"), 4);
  const auto one = json_of("elastic simulate " + kSamples + "trace.jsonl");
  EXPECT_EQ(one["hours"], ours["hours"]);
}

// elastic.shares_gain and shares_after are those of the config that the trace names.
TEST(ElasticSimulateTest, SharesFollowTheKeysOfTheConfig) {
  const support::TempDir dir;
  const auto jabas = parse_json(read_file(kSamples + "jabas.json", 1 << 20), "jabas.json");
  const auto hours_with = [&](const std::string& keys) {
    std::string config = "elastic:\n" + keys;
    for (const auto& [key, value] : jabas.items()) {
      const bool is_path = key.ends_with("_dir") || key == "gpu_cluster_info";
      if (is_path) config += "  " + key + ": " + kSamples + value.get<std::string>() + "\n";
    }
    const auto trace = dir.write(
        "t.jsonl", "{\"config\": \"" + dir.write("c.yaml", config) +
                       "\", \"global_batch\": 128, \"samples\": 1e7, \"hours\": 900, "
                       "\"change_s\": 0}\n{\"hour\": 0, \"event\": \"join\", \"host\": \"node0\"}\n"
                       "{\"hour\": 0, \"event\": \"join\", \"host\": \"node1\"}\n");
    return json_of("elastic simulate " + trace + " --policy elastic")["hours"].get<double>();
  };
  const auto soon = hours_with(""), late = hours_with("  shares_after: 20000\n");
  EXPECT_LT(soon, late);
  EXPECT_LT(late, hours_with("  shares_gain: 0.9\n"));
  EXPECT_EQ(hours_with("  shares_gain: 0.9\n"), hours_with("  shares: equal\n"));
}

TEST(ElasticSimulateTest, ABadTraceIsRefusedByItsLine) {
  const support::TempDir dir;
  const auto head = "{\"config\": \"" + kSamples +
                    "jabas.json\", \"global_batch\": 64, \"samples\": 100, \"hours\": 9}\n";
  const auto trace =
      dir.write("t.jsonl", head + "{\"hour\": 0, \"event\": \"leave\", \"host\": \"node0\"}\n");
  const auto result = run_fovea("elastic simulate " + trace);
  EXPECT_EQ(result.exit_code, kBadData);
  EXPECT_THAT(result.output, AllOf(HasSubstr("t.jsonl:2"), HasSubstr("before it has joined")));
  const auto policy = run_fovea("elastic simulate " + kSamples + "trace.jsonl --policy theirs");
  EXPECT_EQ(policy.exit_code, kBadConfig);
}

TEST(ProfileShowTest, ShowsTablesAndCharts) {
  const support::TempDir dir;
  const auto page = dir.path() + "/page.html";
  const auto shown = json_of("profile show " + kSamples + "jabas.json --out " + page);
  ASSERT_EQ(shown["devices"].size(), 2U);
  const auto& device = shown["devices"][0];
  EXPECT_EQ(device["fingerprint"], "Fast GPU");
  EXPECT_EQ(device["batches"], (std::vector<int64_t>{16, 32, 64}));
  EXPECT_EQ(device["forward_ms"].size(), 3U);
  EXPECT_EQ(device["memory_bytes"], int64_t{16} << 30);
  const auto html = support::check_html(read_file(page, 1 << 24));
  EXPECT_EQ(html.fault, "");
  EXPECT_EQ(html.tags.at("svg"), 3);  // buckets, and passes of two kinds of device
  const auto table = run_fovea("profile show " + kSamples + "jabas.json");
  EXPECT_THAT(table.output, AllOf(HasSubstr("node1: Slow GPU"), HasSubstr("16.0 GiB")));
}

}  // namespace
}  // namespace fovea
