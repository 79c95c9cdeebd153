#include "fovea/elastic/solve/jabas_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "fovea/core/error.h"
#include "fovea/elastic/solve/solve_config.h"
#include "fovea/elastic/solve/solver.h"
#include "fovea/elastic/solve/upstream_solver.h"
#include "tests/support/temp_dir.h"

namespace fovea::elastic {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string computation(const std::string& gpu, int64_t batch, int64_t models, double ms) {
  return fmt::format(
      R"({{"model": "vit", "gpu_type": "{}", "lbs": {}, "num_models": {}, "total_time": 9,
          "data_time": 1.5, "fwd_time": {}, "bwd_time": {}, "update_time": 2, "copy_time": 0.5}})",
      gpu, batch, models, ms, 2 * ms);
}

// Two hosts as JABAS's profilers leave them; node1 is half as fast.
class JabasProfileTest : public ::testing::Test {
 protected:
  JabasProfileTest() {
    for (const int64_t batch : {8, 16}) {
      for (const std::string host : {"node0", "node1"}) {
        const auto gpu = host == "node0" ? "Fast" : "Slow";
        const double ms = static_cast<double>(batch) * (host == "node0" ? 1 : 2);
        const auto place = fmt::format("{}/{}/", batch, host);
        write("comp/" + place + "vit_1_comp_profile.json", computation(gpu, batch, 1, ms));
        write("mem/" + place + "max_memory_profile_info.json",
              fmt::format(R"({{"gpu_type": "{}", "total_memory": 17000000000, "lbs": {},
                              "max_num_models": 1}})",
                          gpu, batch));
      }
    }
    write("comm/intra_comm_profile_data.txt", "0,1\n10,6\n20,11\n");
    write("comm/inter_comm_profile_data.txt", "0,2\n10,12\n");
    write("bucket/vit.json", R"({"model": "vit", "bucket_size_distribution": [8, 24, 8]})");
    const std::string rest = R"("tfplos": 14.13, "number": 2, "intra_network_bandwidth": 1e10,
                                "inter_network_bandwidth": 1e9})";
    write("cluster.json",
          R"({"node0": {"type": "Fast", )" + rest + R"(, "node1": {"type": "Slow", )" + rest + "}");
    write("jabas.json", kConfig);
  }

  void write(const std::string& name, const std::string& text) const {
    dir_.write(name, std::vector<uint8_t>(text.begin(), text.end()));
  }
  SolveInput load() const { return load_solve_input(dir_.path() + "/jabas.json"); }
  std::string refusal() const {
    try {
      load();
    } catch (const Error& error) {
      return error.what();
    }
    return "read";
  }

  const std::string kConfig = R"({
  "memory_profile_dir": "mem",
  "comp_profile_dir": "comp",
  "comm_profile_dir": "comm",
  "bucket_profile_dir": "bucket",
  "gpu_cluster_info": "cluster.json",
  "batch_size_lower_bound": 32,
  "batch_size_upper_bound": 512,
  "similarity_target": 0.3,
  "available_servers": ["node0", "node1"],
  "resource_alloc_unit": "2gpu",
  "homo_servers": [["node0"], ["node1"]]
})";
  support::TempDir dir_;
};

TEST_F(JabasProfileTest, AreReadAsTheyAre) {
  const auto input = load();
  EXPECT_EQ(input.profiles.model, "vit");
  ASSERT_EQ(input.profiles.devices.size(), 2U);
  const auto* slow = input.profiles.find("node1", "Slow");
  ASSERT_NE(slow, nullptr);
  EXPECT_EQ(slow->fingerprint, "Slow");
  EXPECT_EQ(slow->memory_bytes, 17000000000);
  ASSERT_EQ(slow->computation.size(), 2U);
  EXPECT_EQ(slow->computation[1].local_batch, 16);
  EXPECT_EQ(slow->computation[1].forward_ms, 32);
  EXPECT_EQ(slow->computation[1].backward_ms, 64);
  EXPECT_NEAR(input.profiles.intra.base, 1, 1e-12);
  EXPECT_NEAR(input.profiles.intra.slope, 0.5, 1e-12);
  EXPECT_NEAR(input.profiles.inter.slope, 1, 1e-12);
  EXPECT_EQ(input.config.similarity_target, 0.3);
  EXPECT_EQ(input.config.batch_size_adjust_rate, 0.1);
  EXPECT_NEAR(input.cluster.hosts[0].config.price(), 3.06, 1e-9);
}

// Worked out by hand: 8 samples on each of node0's two devices. Buckets of 8, 24 and 8 MiB take
// ideally 4 (1/2) b / 1e10 s.
TEST_F(JabasProfileTest, UpstreamPredictsWhatItsFormulaSays) {
  const auto input = load();
  const auto found = solve_upstream(input.cluster, input.profiles, WeightSync::kOverlap, 2, 16);
  ASSERT_TRUE(found.is_found);
  EXPECT_EQ(found.local_batch, 8);
  ASSERT_EQ(found.solution.devices.size(), 2U);
  EXPECT_EQ(found.solution.devices[0].name, "node0:0");
  const double mib = 1000 * 2 * 1048576 / 1e10;  // ideal ms
  const double first = (1 + 0.5 * 8 * mib) + (1 + 0.5 * 24 * mib), last = 1 + 0.5 * 8 * mib;
  const double backward = 16, forward = 8;
  const double expected = 1.5 + forward + std::max(backward, first) + last + 2 * 0.2;
  EXPECT_NEAR(found.solution.iteration_ms, expected, 1e-6);
}

TEST_F(JabasProfileTest, WhatIsWrongIsNamed) {
  write("comp/8/node0/vit_1_comp_profile.json", computation("Fast", 8, 1, -1));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("comp/8/node0"), HasSubstr("fwd_time")));
  write("comp/8/node0/vit_1_comp_profile.json", computation("Fast", 16, 1, 1));
  EXPECT_THAT(refusal(), HasSubstr("lbs: found 16 in a folder of 8"));
  write("comp/8/node0/vit_1_comp_profile.json", computation("Slow", 8, 1, 1));
  EXPECT_THAT(refusal(), HasSubstr("gpu_type"));
  write("comp/8/node0/vit_1_comp_profile.json", "{\"model\": ");
  EXPECT_THAT(refusal(), HasSubstr("comp/8/node0"));
  write("comp/8/node0/vit_1_comp_profile.json", computation("Fast", 8, 1, 8));
  write("comm/inter_comm_profile_data.txt", "0,2\n10;12\n");
  EXPECT_THAT(refusal(), HasSubstr("inter_comm_profile_data.txt:2"));
}

TEST_F(JabasProfileTest, DevicesThatAreNotThereAreNamed) {
  auto cluster = std::string(R"({"node0": {"type": "Other", "number": 2,
      "intra_network_bandwidth": 1, "inter_network_bandwidth": 1}})");
  write("cluster.json", cluster);
  EXPECT_THAT(refusal(), HasSubstr("node1"));  // available, but no host of the cluster
  write("jabas.json", kConfig.substr(0, kConfig.find(", \"node1\"")) + "], \"metric\": \"noise\"}");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("node0"), HasSubstr("Other")));
}

}  // namespace
}  // namespace fovea::elastic
