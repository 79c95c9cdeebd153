// `fovea profile RECIPE` as a user meets it: measured, shown, solved with, and what is refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "tests/apps/idx_images.h"
#include "tests/apps/program.h"

namespace fovea {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using testing::run_fovea;

class ProfileTest : public ::testing::Test {
 protected:
  std::string recipe(int64_t depth = 1) const {
    return folder_.write(
        fmt::format("depth{}.yaml", depth),
        fmt::format("run: {{dir: {}}}\ndevice: {{type: cpu, dtype: float32, threads: 1}}\n"
                    "model: {{name: vit, img_size: 8, patch_size: 4, in_chans: 1, num_classes: 4, "
                    "embed_dim: 32, depth: {}, num_heads: 2}}\n"
                    "data: {{global_batch_size: 6, threads: 1, train: {}}}\n"
                    "optim: {{name: adamw, lr: 1e-3}}\ntrainer: {{max_steps: 2}}\n",
                    folder_.file("run"), depth, images_.write(folder_)));
  }
  std::string dir() const { return folder_.file("profiles"); }
  std::string profile(const std::string& more = "") const {
    return fmt::format("profile {} --out {} {}", recipe(), dir(), more);
  }

  data::testing::TempDir folder_;
  testing::StripedImages images_{64, 8};
};

TEST_F(ProfileTest, IsMeasuredShownAndSolvedWith) {
  const auto measured = run_fovea(profile("--json"), "2>/dev/null");
  ASSERT_EQ(measured.exit_code, 0) << run_fovea(profile()).output;
  const auto found = parse_json(measured.output, "output");
  EXPECT_THAT(found["model"].get<std::string>(), AllOf(HasSubstr("vit"), HasSubstr("depth=1")));
  ASSERT_EQ(found["devices"].size(), 1U);
  const auto& device = found["devices"][0];
  EXPECT_THAT(device["fingerprint"].get<std::string>(), HasSubstr("1 thread"));
  EXPECT_EQ(device["batches"], (std::vector<int64_t>{1, 2, 4, 6}));
  for (const auto* part : {"data_ms", "forward_ms", "backward_ms", "update_ms"}) {
    EXPECT_THAT(device[part].get<std::vector<double>>(), Each(Gt(0))) << part;
  }
  EXPECT_THAT(found["missing"].get<std::vector<std::string>>(),
              ElementsAre(HasSubstr("between nodes")));
  const auto between = parse_json(read_file(dir() + "/communication.json", 1 << 20), "file");
  EXPECT_EQ(between["points"][0]["place"], "intra");
  EXPECT_EQ(between["points"][0]["ranks"], 2);

  folder_.write(
      "cluster.json",
      fmt::format("{{\"a\": {{\"type\": \"{}\", \"number\": 2, "
                  "\"intra_network_bandwidth\": 1e9, \"inter_network_bandwidth\": 1e9}}}}",
                  device["fingerprint"].get<std::string>()));
  const auto config = [&](int64_t depth) {
    const auto elastic = fmt::format("elastic: {{profile_dir: {}, gpu_cluster_info: {}}}\n", dir(),
                                     folder_.file("cluster.json"));
    return folder_.write("solve.yaml", read_file(recipe(depth), 1 << 20) + elastic);
  };
  const auto solved = run_fovea("elastic solve " + config(1) + " --global-batch 7 --json");
  ASSERT_EQ(solved.exit_code, 0) << solved.output;
  EXPECT_GT(parse_json(solved.output, "output")["iteration_ms"], 0);
  const auto refused = run_fovea("elastic solve " + config(2) + " --global-batch 7");
  EXPECT_EQ(refused.exit_code, static_cast<int>(ExitCode::kData));
  EXPECT_THAT(refused.output, AllOf(HasSubstr("solve.yaml:3"), HasSubstr("depth=2")));
  const auto trace = folder_.write(
      "trace.jsonl",
      std::string(
          "{\"config\": \"solve.yaml\", \"global_batch\": 6, \"samples\": 600, \"hours\": 1}\n"
          "{\"hour\": 0, \"event\": \"join\", \"host\": \"a\"}\n"));
  const auto other_trace = run_fovea("elastic simulate " + trace);
  EXPECT_EQ(other_trace.exit_code, static_cast<int>(ExitCode::kData));
  EXPECT_EQ(other_trace.output, refused.output);
  config(1);
  const auto simulated = run_fovea("elastic simulate " + trace + " --json");
  ASSERT_EQ(simulated.exit_code, 0) << simulated.output;
  EXPECT_EQ(parse_json(simulated.output, "output")["is_done"], true);

  // The folder is of that model.
  const auto other = run_fovea(fmt::format("profile {} --out {}", recipe(2), dir()));
  EXPECT_EQ(other.exit_code, static_cast<int>(ExitCode::kConfig));
  EXPECT_THAT(other.output, AllOf(HasSubstr("depth=1"), HasSubstr("depth=2")));
}

// Of two threads, 1, 2 and 3 samples of each of two passes; `auto` goes by them.
TEST_F(ProfileTest, PassesAtOnceAreMeasuredWhereThereAreThreads) {
  const auto measured = run_fovea(profile("--json device.threads=2"), "2>/dev/null");
  ASSERT_EQ(measured.exit_code, 0);
  const auto device = parse_json(measured.output, "output")["devices"][0];
  std::vector<int64_t> at_once;
  for (const auto& point : device["points"]) {
    if (point["concurrent"] == 2) at_once.push_back(point["local_batch"]);
  }
  EXPECT_THAT(at_once, ElementsAre(1, 2, 3));
  for (const auto& point : device["memory"]) {
    EXPECT_EQ(point["max_concurrent"], point["local_batch"] <= 3 ? 2 : 1) << point;
  }
  const auto trained = run_fovea(
      fmt::format("train {} device.threads=2 elastic.profile_dir={} trainer.micro_batch_size=2 "
                  "trainer.concurrent_passes=auto",
                  recipe(), dir()));
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  EXPECT_THAT(trained.output, HasSubstr("at once of 3 passes of 2 samples, by the profile of"));
}

// Of what a process may have: with all of the data a step would take a gigabyte. How much of its
// address space a process has taken before is the machine's.
TEST_F(ProfileTest, TheLargestBatchIsWhatMemoryHolds) {
  const auto result = run_fovea(
      profile("--json --local-batch 64 model.patch_size=1 model.embed_dim=64 model.num_heads=64 "
              "model.depth=12 device.attention=math"),
      "ulimit -v 540000; exec 2>/dev/null;");
  if (result.exit_code == static_cast<int>(ExitCode::kOutOfMemory)) return;  // not one sample
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const auto device = parse_json(result.output, "output")["devices"][0];
  EXPECT_LT(device["memory"].back()["local_batch"], 64);
  EXPECT_EQ(device["batches"].back(), device["memory"].back()["local_batch"]);
}

int free_port() {
  const int holder = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(bind(holder, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(holder, reinterpret_cast<sockaddr*>(&address), &size), 0);
  close(holder);
  return ntohs(address.sin_port);
}

// Two nodes of a process each, as torchrun starts them, each with a folder of its own.
TEST_F(ProfileTest, UnderALauncherNodesAreMeasuredAgainstEachOther) {
  const auto launched = fmt::format(
      "export WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT={}; "
      "RANK=1 \"{}\" profile {} --out {}2 --local-batch 1 & RANK=0",
      free_port(), FOVEA_BINARY, recipe(), dir());
  const auto result = run_fovea(profile("--local-batch 1"), launched);
  ASSERT_EQ(result.exit_code, 0) << result.output;
  for (const auto& folder : {dir(), dir() + "2"}) {
    const auto file = parse_json(read_file(folder + "/communication.json", 1 << 20), "file");
    ASSERT_FALSE(file["points"].empty());
    for (const auto& point : file["points"]) EXPECT_EQ(point["place"], "inter");
    EXPECT_EQ(run_fovea("profile show " + folder).exit_code, 0);
  }
}

TEST_F(ProfileTest, WhatCannotBeMeasuredIsRefused) {
  const auto no_out = run_fovea("profile " + recipe());
  EXPECT_EQ(no_out.exit_code, static_cast<int>(ExitCode::kUsage));
  EXPECT_THAT(no_out.output, HasSubstr("--out is missing"));
  const auto no_device = run_fovea(profile("--devices cpu,cuda:77"));
  EXPECT_EQ(no_device.exit_code, static_cast<int>(ExitCode::kConfig));
  EXPECT_THAT(no_device.output, HasSubstr("cuda:77"));
  const auto no_data = run_fovea(profile("data.train.images=" + folder_.file("none")));
  EXPECT_EQ(no_data.exit_code, static_cast<int>(ExitCode::kData));
}

}  // namespace
}  // namespace fovea
