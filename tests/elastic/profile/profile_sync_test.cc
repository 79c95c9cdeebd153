#include "fovea/elastic/profile/profile_sync.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "fovea/core/error.h"
#include "tests/elastic/control/etcd_support.h"
#include "tests/elastic/solve/solve_cases.h"

namespace fovea::elastic {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ProfileSet set_of(const std::string& kind, double ms, const std::string& measured) {
  ProfileSet set{.source = "profiles", .model = "vit"};
  set.devices = {testing::device_profile(kind, ms, 8, 1)};
  set.devices[0].measured = measured;
  set.bucket_megabytes = {10, 2.5};
  return set;
}

CommunicationPoint point_of(const std::string& place, double ms) {
  return {.collective = "all_reduce", .place = place, .ranks = 2, .bytes = 1e6, .ms = ms};
}

class ProfileSyncTest : public testing::EtcdTest {};

TEST_F(ProfileSyncTest, EachHostGetsTheOthersProfiles) {
  auto fast = set_of("fast", 1, "2026-01-01T00:00:00Z");
  fast.communication = {point_of("intra", 1)};
  fast.communication_measured = "2026-01-01T00:00:00Z";
  const auto slow = set_of("slow", 4, "2026-01-02T00:00:00Z");
  const auto first = sync_profiles(client(), "a", fast);
  EXPECT_THAT(first.sent, ElementsAre("fast"));
  EXPECT_THAT(first.received, IsEmpty());
  const auto second = sync_profiles(client(), "a", slow);
  EXPECT_THAT(second.sent, ElementsAre("slow"));
  EXPECT_THAT(second.received, ElementsAre("fast"));
  ASSERT_EQ(second.profiles.devices.size(), 2U);
  EXPECT_EQ(second.profiles.communication.size(), 1U);
  const auto again = sync_profiles(client(), "a", fast);
  EXPECT_THAT(again.sent, IsEmpty());
  EXPECT_THAT(again.received, ElementsAre("slow"));
  // A host that has measured nothing, and another set.
  const auto third = sync_profiles(client(), "a", {.source = "empty"});
  EXPECT_EQ(third.profiles.devices.size(), 2U);
  EXPECT_EQ(third.profiles.model, "vit");
  EXPECT_EQ(third.profiles.bucket_megabytes, fast.bucket_megabytes);
  EXPECT_THAT(sync_profiles(client(), "b", {}).profiles.devices, IsEmpty());
}

TEST_F(ProfileSyncTest, OfOneKindTheNewestMeasurementCounts) {
  sync_profiles(client(), "a", set_of("kind", 2, "2026-01-02T00:00:00Z"));
  const auto older = sync_profiles(client(), "a", set_of("kind", 1, "2026-01-01T00:00:00Z"));
  EXPECT_THAT(older.received, ElementsAre("kind"));
  EXPECT_EQ(older.profiles.devices[0].measured, "2026-01-02T00:00:00Z");
  const auto newer = sync_profiles(client(), "a", set_of("kind", 3, "2026-01-03T00:00:00Z"));
  EXPECT_THAT(newer.sent, ElementsAre("kind"));
  EXPECT_EQ(newer.profiles.devices[0].measured, "2026-01-03T00:00:00Z");
}

TEST_F(ProfileSyncTest, ProfilesOfAnotherModelOrDtypeAreRefused) {
  sync_profiles(client(), "a", set_of("kind", 2, ""));
  const auto refusal = [&](const ProfileSet& own) -> std::string {
    try {
      sync_profiles(client(), "a", own);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  auto other = set_of("kind", 2, "");
  other.devices[0].dtype = "bfloat16";
  EXPECT_THAT(refusal(other), AllOf(HasSubstr("'kind'"), HasSubstr("float32"),
                                    HasSubstr("bfloat16"), HasSubstr("--name")));
  other = set_of("other kind", 2, "");
  other.model = other.devices[0].model = "mae";
  EXPECT_THAT(refusal(other), AllOf(HasSubstr("'vit'"), HasSubstr("'mae'")));
  other = set_of("other kind", 2, "");
  other.bucket_megabytes = {1, 2, 3};
  EXPECT_THAT(refusal(other), HasSubstr("buckets"));
  EXPECT_THROW(sync_profiles(client(), "a/b", {}), ConfigError);
  client().put("/fovea/.profiles/a/devices/x.json", "{\"version\": 1");
  EXPECT_THROW(sync_profiles(client(), "a", {}), DataError);
}

TEST(JoinedCommunicationTest, OfEachPlaceTheNewestThatHasIt) {
  const CommunicationProfile old{.points = {point_of("intra", 1), point_of("inter", 5)},
                                 .measured = "2026-01-01T00:00:00Z"};
  const CommunicationProfile now{.points = {point_of("intra", 2)},
                                 .measured = "2026-01-02T00:00:00Z"};
  for (const auto& joined : {joined_communication(old, now), joined_communication(now, old)}) {
    ASSERT_EQ(joined.points.size(), 2U);
    EXPECT_EQ(joined.points[0].ms, 2);
    EXPECT_EQ(joined.points[1].ms, 5);
    EXPECT_EQ(joined.measured, now.measured);
  }
}

TEST(MissingProfilesTest, SaysWhichHostsAndPlacesLackOne) {
  auto set = set_of("fast", 1, "");
  Cluster cluster{{testing::host_of("node0", "fast", 1, 1), testing::host_of("node1", "slow", 2, 1),
                   testing::host_of("node2", "slow", 1, 1)}};
  const auto missing = missing_profiles(set, cluster);
  EXPECT_THAT(missing, ElementsAre(AllOf(HasSubstr("'slow'"), HasSubstr("node1 and 1 more")),
                                   HasSubstr("within a node"), HasSubstr("between nodes")));
  set.devices.push_back(testing::device_profile("slow", 1, 8, 1));
  set.communication = {point_of("intra", 1), point_of("inter", 5)};
  EXPECT_THAT(missing_profiles(set, cluster), IsEmpty());
  set.communication.clear();
  cluster.hosts.resize(1);  // one device: it talks to nobody
  EXPECT_THAT(missing_profiles(set, cluster), IsEmpty());
  EXPECT_EQ(missing_profiles(set, std::nullopt).size(), 2U);
}

}  // namespace
}  // namespace fovea::elastic
