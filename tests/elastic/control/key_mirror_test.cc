#include "fovea/elastic/control/key_mirror.h"

#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "tests/elastic/control/etcd_support.h"

namespace fovea::elastic {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class KeyMirrorTest : public testing::EtcdTest {
 protected:
  // Waits until `key` has this value in the mirror; "": is not there.
  static bool comes_to(const KeyMirror& mirror, const std::string& key, const std::string& value) {
    for (int i = 0; i < 100; ++i) {
      const auto state = mirror.state();
      const auto found = state.values.find(key);
      if ((found == state.values.end() ? "" : found->second.value) == value) return true;
      mirror.wait(state.number, milliseconds(100));
    }
    return false;
  }
};

TEST_F(KeyMirrorTest, FollowsWhatHappens) {
  client().put("/k/a", "1");
  const KeyMirror mirror(client(), with_prefix("/k/"));
  EXPECT_EQ(mirror.state().values.at("/k/a").value, "1");
  client().put("/k/b", "2");
  EXPECT_TRUE(comes_to(mirror, "/k/b", "2"));
  client().txn({.success = {delete_keys(one_key("/k/a"))}});
  EXPECT_TRUE(comes_to(mirror, "/k/a", ""));
  EXPECT_FALSE(mirror.wait(mirror.state().number, milliseconds(50)));
  EXPECT_TRUE(mirror.fault().empty());
}

TEST_F(KeyMirrorTest, GoesOnWhenEtcdIsBack) {
  client().put("/k", "1");
  const KeyMirror mirror(client(), one_key("/k"), milliseconds(500));
  etcd().kill();
  for (int i = 0; i < 100 && mirror.fault().empty(); ++i) mirror.wait(1, milliseconds(50));
  EXPECT_FALSE(mirror.fault().empty());
  EXPECT_EQ(mirror.state().values.at("/k").value, "1");
  etcd().start();
  client().put("/k", "2");
  EXPECT_TRUE(comes_to(mirror, "/k", "2"));
  EXPECT_TRUE(mirror.fault().empty());
  EXPECT_LT(mirror.silent_for(), seconds(5));
}

// A connection that stays open says nothing about who is at its other end.
TEST_F(KeyMirrorTest, SilenceIsNotTrusted) {
  const KeyMirror mirror(client(), one_key("/k"), milliseconds(300));
  testing::stop_in_its_tracks(etcd());
  for (int i = 0; i < 100 && mirror.fault().empty(); ++i) mirror.wait(9, milliseconds(50));
  EXPECT_NE(mirror.fault(), "");
  EXPECT_GT(mirror.silent_for(), milliseconds(300));
  kill(etcd().process(), SIGCONT);
  client().put("/k", "2");
  EXPECT_TRUE(comes_to(mirror, "/k", "2"));
}

TEST_F(KeyMirrorTest, IsReadAnewWhereEventsAreNotKept) {
  client().put("/k", "1");
  const KeyMirror mirror(client(), one_key("/k"), milliseconds(500));
  etcd().kill();
  etcd().start();
  const auto revision = client().put("/k", "2");
  net::HttpClient().perform({.method = "POST",
                             .url = etcd().url() + "/v3/kv/compaction",
                             .body = fmt::format("{{\"revision\":\"{}\"}}", revision)});
  EXPECT_TRUE(comes_to(mirror, "/k", "2"));
}

}  // namespace
}  // namespace fovea::elastic
