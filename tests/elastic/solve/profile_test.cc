#include "fovea/elastic/solve/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "tests/elastic/solve/solve_cases.h"
#include "tests/support/temp_dir.h"

namespace fovea::elastic {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kGood =
    R"({"version": 1, "fingerprint": "g", "model": "vit", "dtype": "float32", "memory_bytes": 9,
        "computation": [{"local_batch": 16, "concurrent": 1, "data_ms": 1, "forward_ms": 2,
                         "backward_ms": 4, "update_ms": 1},
                        {"local_batch": 8, "concurrent": 1, "data_ms": 1, "forward_ms": 2,
                         "backward_ms": 4, "update_ms": 1}],
        "memory": [{"local_batch": 16, "max_concurrent": 2}]})";

std::string with(const std::string& from, const std::string& to) {
  auto text = kGood;
  const auto at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return text.replace(at, from.size(), to);
}

std::string refusal_of_profile(const std::string& text) {
  try {
    parse_device_profile(text, "gpu.json");
  } catch (const DataError& error) {
    return error.what();
  }
  return "read";
}

TEST(ProfileTest, IsReadByBatch) {
  const auto device = parse_device_profile(kGood, "gpu.json");
  ASSERT_EQ(device.computation.size(), 2U);
  EXPECT_EQ(device.computation[0].local_batch, 8);
  EXPECT_EQ(device.max_concurrent(16), 2);
  EXPECT_EQ(device.max_concurrent(8), 2);  // what holds 16 holds 8
  EXPECT_EQ(device.max_concurrent(17), 0);
}

TEST(ProfileTest, BadOnesAreRefusedByKey) {
  EXPECT_THAT(
      refusal_of_profile(with("\"forward_ms\": 2", "\"forward_ms\": -2")),
      AllOf(HasSubstr("gpu.json"), HasSubstr("computation[0].forward_ms"), HasSubstr("-2")));
  EXPECT_THAT(refusal_of_profile(with("\"version\": 1", "\"version\": 2")), HasSubstr("version 2"));
  EXPECT_THAT(refusal_of_profile(with("\"local_batch\": 16, \"con", "\"local_batch\": 8, \"con")),
              HasSubstr("stands twice"));
  EXPECT_THAT(refusal_of_profile(with("\"local_batch\": 16, \"con", "\"local_batch\": 0, \"con")),
              HasSubstr("computation[0].local_batch: found 0"));
  EXPECT_THAT(refusal_of_profile(with("\"max_concurrent\": 2", "\"max_concurrent\": 0")),
              HasSubstr("memory[0].max_concurrent"));
  EXPECT_THAT(refusal_of_profile(with("\"local_batch\": 16, \"max", "\"local_batch\": 4, \"max")),
              HasSubstr("holds none"));
  EXPECT_THAT(refusal_of_profile(with("\"dtype\"", "\"dtyp\"")), HasSubstr("dtype"));
  EXPECT_THAT(refusal_of_profile(with("\"memory_bytes\": 9", "\"memory_bytes\": 9, \"color\": 1")),
              HasSubstr("color"));
  EXPECT_THAT(refusal_of_profile(kGood.substr(0, 200)), HasSubstr("gpu.json"));
  EXPECT_THAT(refusal_of_profile(with("\"update_ms\": 1", "\"update_ms\": null")),
              HasSubstr("computation[0].update_ms"));
}

ProfileSet two_devices() {
  ProfileSet set{.model = "vit"};
  set.devices = {testing::device_profile("Fast GPU", 1, 8, 2),
                 testing::device_profile("slow", 2, 8, 1)};
  testing::add_network(set, 10, 0.1);
  return set;
}

TEST(ProfileTest, AFolderComesBackAsItWas) {
  const support::TempDir dir;
  const auto set = two_devices();
  write_profiles(set, dir.path());
  const auto back = read_profiles(dir.path());
  ASSERT_EQ(back.devices.size(), 2U);
  EXPECT_EQ(back.model, "vit");
  EXPECT_EQ(back.bucket_megabytes, set.bucket_megabytes);
  EXPECT_EQ(back.communication.size(), set.communication.size());
  const auto* fast = back.find("", "Fast GPU");
  ASSERT_NE(fast, nullptr);
  EXPECT_EQ(fast->computation.size(), set.devices[0].computation.size());
  EXPECT_EQ(back.find("", "other"), nullptr);
}

TEST(ProfileTest, ProfilesOfAFolderAreOfOneModelAndDtype) {
  const support::TempDir dir;
  auto set = two_devices();
  set.devices[1].dtype = "bfloat16";
  write_profiles(set, dir.path());
  try {
    read_profiles(dir.path());
    ADD_FAILURE();
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("slow.json"), HasSubstr("bfloat16")));
  }
  set.devices[1].dtype = "float32";
  set.model = "mae";  // of the buckets
  write_profiles(set, dir.path());
  EXPECT_THROW(read_profiles(dir.path()), DataError);
}

TEST(ProfileTest, LinesAreLeastSquares) {
  const auto line = fit_line({0, 1, 2}, {1, 3, 5});
  EXPECT_NEAR(line.base, 1, 1e-12);
  EXPECT_NEAR(line.slope, 2, 1e-12);
  EXPECT_EQ(fit_line({1, 2}, {5, 3}).slope, 0);
  EXPECT_EQ(fit_line({4}, {8}).slope, 2);
}

}  // namespace
}  // namespace fovea::elastic
