// The client against an etcd of its own.
#include "fovea/elastic/control/etcd_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/elastic/control/etcd_support.h"

namespace fovea::elastic {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::refusal_of;

class EtcdClientTest : public testing::EtcdTest {};

TEST_F(EtcdClientTest, KeysAreWrittenAndRead) {
  const std::string bytes("\0\xff\n\"", 4);
  const auto revision = client().put("/fovea/a", bytes);
  const auto value = client().get("/fovea/a");
  ASSERT_TRUE(value);
  EXPECT_EQ(value->value, bytes);
  EXPECT_EQ(value->mod_revision, revision);
  EXPECT_EQ(value->version, 1);
  EXPECT_FALSE(client().get("/fovea/b"));
  client().put("/fovea/b/1", "");
  client().put("/fovea/c", "not below");
  EXPECT_EQ(client().range(with_prefix("/fovea/b/")).values.size(), 1u);
  EXPECT_EQ(client().range(with_prefix("/fovea/")).values.size(), 3u);
}

TEST_F(EtcdClientTest, ATransactionComparesAndSaysWhatItDid) {
  const EtcdTxn create{.compares = {is_absent("/k")},
                       .success = {put_key("/k", "1")},
                       .failure = {read_keys(one_key("/k"))}};
  EXPECT_TRUE(client().txn(create).is_success);
  const auto second = client().txn(create);
  EXPECT_FALSE(second.is_success);
  ASSERT_EQ(second.parts.size(), 1u);
  ASSERT_EQ(second.parts[0].values.size(), 1u);
  const auto found = second.parts[0].values[0];
  EXPECT_EQ(found.value, "1");

  using Target = EtcdCompare::Target;
  const auto holds = [&](const EtcdCompare& compare) {
    return client().txn({.compares = {compare}}).is_success;
  };
  EXPECT_TRUE(holds(is_at_revision("/k", found.mod_revision)));
  EXPECT_FALSE(holds(is_at_revision("/k", found.mod_revision + 1)));
  EXPECT_TRUE(holds({.key = "/k", .target = Target::kValue, .value = "1"}));
  EXPECT_FALSE(holds({.key = "/k", .target = Target::kValue, .value = "2"}));
  EXPECT_TRUE(
      holds({.key = "/k", .target = Target::kCreateRevision, .number = found.create_revision}));
  EXPECT_TRUE(holds({.key = "/k", .target = Target::kLease, .number = 0}));
  EXPECT_TRUE(
      holds({.key = "/k", .target = Target::kVersion, .result = EtcdCompare::Result::kGreater}));
  EXPECT_FALSE(
      holds({.key = "/k", .target = Target::kVersion, .result = EtcdCompare::Result::kLess}));
  EXPECT_TRUE(
      holds({.key = "/k", .target = Target::kVersion, .result = EtcdCompare::Result::kNotEqual}));
  const auto deleted = client().txn({.success = {delete_keys(one_key("/k"))}});
  EXPECT_EQ(deleted.parts.at(0).num_deleted, 1);
}

TEST_F(EtcdClientTest, AKeyGoesWithItsLease) {
  const auto lease = client().grant(2);
  EXPECT_GE(lease.ttl, 2);
  client().put("/k", "v", lease.id);
  EXPECT_EQ(client().get("/k")->lease, lease.id);
  EXPECT_GT(client().keep_alive(lease.id), 0);
  EXPECT_GT(client().time_to_live(lease.id), 0);
  client().revoke(lease.id);
  EXPECT_FALSE(client().get("/k"));
  EXPECT_LE(client().keep_alive(lease.id), 0);
  EXPECT_LE(client().time_to_live(lease.id), 0);
  client().revoke(lease.id);  // no error: it is gone
  const auto gone = refusal_of([&] { client().put("/k", "v", lease.id); });
  EXPECT_EQ(gone.kind, EtcdError::Kind::kNotFound);
  EXPECT_THAT(gone.message, HasSubstr("requested lease not found"));
}

TEST_F(EtcdClientTest, AWatchTellsWhatHappensFromARevisionOn) {
  const auto first = client().put("/k/a", "1");
  client().put("/other", "");
  client().put("/k/b", "2");
  const auto other = client().another(seconds(5));
  std::vector<std::string> seen;
  std::thread writer;
  client().watch(with_prefix("/k/"), first, seconds(20), [&](const WatchReply& reply) {
    if (reply.is_created) {
      writer = std::thread([&] { other->txn({.success = {delete_keys(one_key("/k/a"))}}); });
    }
    for (const auto& event : reply.events) {
      seen.push_back(event.kv.key + (event.is_delete ? " gone" : "=" + event.kv.value));
    }
    return seen.size() < 3;
  });
  writer.join();
  EXPECT_EQ(seen, (std::vector<std::string>{"/k/a=1", "/k/b=2", "/k/a gone"}));
}

TEST_F(EtcdClientTest, AWatchOfWhatIsCompactedSaysSo) {
  client().put("/k", "1");
  const auto revision = client().put("/k", "2");
  const auto reply =
      net::HttpClient().perform({.method = "POST",
                                 .url = etcd().url() + "/v3/kv/compaction",
                                 .body = fmt::format("{{\"revision\":\"{}\"}}", revision)});
  ASSERT_EQ(reply.status, 200);
  const auto refusal = refusal_of([&] {
    client().watch(one_key("/k"), 1, seconds(20), [](const WatchReply&) { return true; });
  });
  EXPECT_EQ(refusal.kind, EtcdError::Kind::kCompacted);
  EXPECT_THAT(refusal.message,
              AllOf(HasSubstr("keeps revisions from"), HasSubstr("read the keys anew")));
}

TEST_F(EtcdClientTest, AddressesAreTriedInTurn) {
  // Nobody listens at the first; at the second somebody does and never answers.
  start_etcd();
  LocalEtcd& real = etcd();
  const support::TempDir folder(support::folder_in_memory());
  LocalEtcd stopped({.folder = folder.path()});
  testing::stop_in_its_tracks(stopped);
  const auto closed = fmt::format("http://127.0.0.1:{}", free_local_port());
  EtcdClient several({.endpoints = {closed, stopped.url(), real.url()}}, seconds(15));
  EXPECT_FALSE(several.get("/k"));
  several.put("/k", "1");  // the one that answered is asked first
  EXPECT_EQ(several.get("/k")->value, "1");

  EtcdClient write_first({.endpoints = {closed, real.url()}}, seconds(10));
  write_first.put("/k", "2");
  EtcdClient none({.endpoints = {closed, stopped.url()}}, milliseconds(300));
  const auto refusal = refusal_of([&] { none.get("/k"); });
  EXPECT_EQ(refusal.kind, EtcdError::Kind::kUnreachable);
  EXPECT_THAT(refusal.message, AllOf(HasSubstr(closed), HasSubstr(stopped.url()),
                                     HasSubstr("no answer within"), HasSubstr("--etcd URL")));
  // What may have arrived is not written a second time elsewhere.
  EtcdClient unsure({.endpoints = {stopped.url(), real.url()}}, milliseconds(300));
  EXPECT_FALSE(refusal_of([&] { unsure.put("/k", "3"); }).is_outcome_known);
  EXPECT_EQ(client().get("/k")->value, "2");
  stopped.kill();
}

TEST_F(EtcdClientTest, AFullEtcdSaysWhatToDo) {
  start_etcd({"--quota-backend-bytes=65536"});
  const std::string large(40000, 'x');
  const auto refusal = refusal_of([&] {
    for (int i = 0; i < 1000; ++i) client().put("/k", large);
  });
  EXPECT_EQ(refusal.kind, EtcdError::Kind::kFull);
  EXPECT_THAT(refusal.message, AllOf(HasSubstr(etcd().url()), HasSubstr("space exceeded"),
                                     HasSubstr("alarm disarm")));
  EXPECT_EQ(refusal_of([&] { client().grant(2); }).kind, EtcdError::Kind::kFull);
  client().get("/k");  // reading goes on
}

TEST_F(EtcdClientTest, UsersHaveToLogIn) {
  net::HttpClient http;
  const auto admin = [&](const std::string& path, const std::string& body) {
    const auto reply =
        http.perform({.method = "POST", .url = etcd().url() + "/v3/auth/" + path, .body = body});
    ASSERT_EQ(reply.status, 200) << reply.body;
  };
  admin("user/add", R"({"name":"root","password":"r"})");
  admin("user/add", R"({"name":"u","password":"secret word"})");
  admin("role/add", R"({"name":"r"})");
  admin("role/grant",  // of what begins with "/fovea/"
        R"({"name":"r","perm":{"permType":"READWRITE","key":"L2ZvdmVhLw==",)"
        R"("range_end":"L2ZvdmVhMA=="}})");
  admin("user/grant", R"({"user":"root","role":"root"})");
  admin("user/grant", R"({"user":"u","role":"r"})");
  admin("enable", "{}");

  const auto nobody = refusal_of([&] { client().get("/fovea/a"); });
  EXPECT_EQ(nobody.kind, EtcdError::Kind::kDenied);
  EXPECT_THAT(nobody.message, HasSubstr("set FOVEA_ETCD_USER and FOVEA_ETCD_PASSWORD"));
  EtcdClient wrong({.endpoints = {etcd().url()}, .user = "u", .password = "other word"});
  const auto refused = refusal_of([&] { wrong.get("/fovea/a"); });
  EXPECT_EQ(refused.kind, EtcdError::Kind::kDenied);
  EXPECT_THAT(refused.message, Not(HasSubstr("other word")));

  EtcdClient user({.endpoints = {etcd().url()}, .user = "u", .password = "secret word"});
  user.put("/fovea/a", "1");
  EXPECT_EQ(user.get("/fovea/a")->value, "1");
  const auto denied = refusal_of([&] { user.put("/elsewhere", "1"); });
  EXPECT_EQ(denied.kind, EtcdError::Kind::kDenied);
  EXPECT_THAT(denied.message, AllOf(HasSubstr("permission denied"), HasSubstr("user 'u'"),
                                    HasSubstr("grant-permission"), Not(HasSubstr("secret word"))));
  // Tokens are in etcd's memory: after a start it knows none.
  etcd().kill();
  etcd().start();
  EXPECT_EQ(user.get("/fovea/a")->value, "1");
  int seen = 0;
  etcd().kill();
  etcd().start();
  try {  // a late token ends a watch once; the next one logs in
    user.watch(one_key("/fovea/a"), 1, seconds(5), [&](const WatchReply&) { return ++seen < 2; });
  } catch (const EtcdError&) {
    user.watch(one_key("/fovea/a"), 1, seconds(5), [&](const WatchReply&) { return ++seen < 2; });
  }
  EXPECT_EQ(seen, 2);
}

TEST_F(EtcdClientTest, AUserForAnEtcdThatAsksForNoneDoesNoHarm) {
  EtcdClient user({.endpoints = {etcd().url()}, .user = "u", .password = "p"});
  user.put("/k", "1");
  EXPECT_EQ(user.get("/k")->value, "1");
}

TEST_F(EtcdClientTest, TlsWantsACertificateThatIsKnown) {
  const support::TempDir folder;
  const auto key = folder.file("key.pem"), certificate = folder.file("certificate.pem");
  const auto make = fmt::format(
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout {} -out "
      "{} "
      "-days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 >/dev/null 2>&1",
      key, certificate);
  if (std::system(make.c_str()) != 0) GTEST_SKIP() << "skipped: no openssl to make a certificate";
  const auto plain = free_local_port(), port = free_local_port();
  start_etcd(
      {fmt::format("--listen-client-urls=http://127.0.0.1:{},https://127.0.0.1:{}", plain, port),
       "--cert-file=" + certificate, "--key-file=" + key},
      plain);
  const auto url = fmt::format("https://127.0.0.1:{}", port);
  EtcdClient known({.endpoints = {url}, .ca_file = certificate});
  known.put("/k", "1");
  EXPECT_EQ(known.get("/k")->value, "1");
  EtcdClient unknown({.endpoints = {url}});
  EXPECT_THAT(refusal_of([&] { unknown.get("/k"); }).message,
              AllOf(HasSubstr("certificate"), HasSubstr("--etcd-ca")));
  EtcdClient clear({.endpoints = {fmt::format("http://127.0.0.1:{}", port)}});
  EXPECT_THAT(refusal_of([&] { clear.get("/k"); }).message, HasSubstr("https:// where it has TLS"));
}

TEST(EtcdPlaceTest, AddressesComeFromTheCommandLineOrTheEnvironment) {
  unsetenv(kEtcdUserVariable);
  unsetenv(kEtcdPasswordVariable);
  const auto place = etcd_place("a:2379,,https://b:2379/", "", "");
  EXPECT_EQ(place.endpoints, (std::vector<std::string>{"http://a:2379", "https://b:2379"}));
  EXPECT_EQ(place.first_host(), "a");
  EXPECT_EQ(etcd_place("https://[::1]:2379", "", "").first_host(), "::1");
  EXPECT_EQ(etcd_place("10.0.0.1", "", "").first_host(), "10.0.0.1");
  EXPECT_THROW(etcd_place("ftp://a", "", ""), ConfigError);
  EXPECT_THROW(etcd_place("http://a/b", "", ""), ConfigError);
  EXPECT_THROW(etcd_place("http://", "", ""), ConfigError);
  EXPECT_THROW(etcd_place("a", "/no/such.pem", ""), ConfigError);
  EXPECT_THROW(etcd_place("a", "", "user"), ConfigError);  // no password
  try {
    etcd_place("http://me:hush@a", "", "");
    ADD_FAILURE();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr(kEtcdPasswordVariable), Not(HasSubstr("hush"))));
  }
  setenv(kEtcdVariable, "c:1", 1);
  EXPECT_EQ(etcd_place("", "", "").endpoints.at(0), "http://c:1");
  unsetenv(kEtcdVariable);
  EXPECT_THROW(etcd_place("", "", ""), ConfigError);
}

}  // namespace
}  // namespace fovea::elastic
