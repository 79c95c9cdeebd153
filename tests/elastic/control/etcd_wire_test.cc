// What etcd's gateway sends, and what it never should.
#include "fovea/elastic/control/etcd_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "fovea/core/error.h"

namespace fovea::elastic {
namespace {

using ::testing::HasSubstr;

constexpr const char* kSource = "http://127.0.0.1:2379";

TEST(EtcdWireTest, RequestsAreInBase64WithNumbersAsTexts) {
  EXPECT_EQ(range_request(one_key("a")), R"({"key":"YQ=="})");
  EXPECT_EQ(range_request(with_prefix("a")), R"({"key":"YQ==","range_end":"Yg=="})");
  EXPECT_EQ(put_request(put_key("a", "b", 1117070927101387531)),
            R"({"key":"YQ==","lease":"1117070927101387531","value":"Yg=="})");
  EXPECT_EQ(
      txn_request({.compares = {is_absent("a"), is_at_revision("b", 7)},
                   .success = {put_key("a", "b")},
                   .failure = {read_keys(one_key("a")), delete_keys(one_key("b"))}}),
      R"({"compare":[{"key":"YQ==","result":"EQUAL","target":"VERSION","version":"0"},)"
      R"({"key":"Yg==","mod_revision":"7","result":"EQUAL","target":"MOD"}],)"
      R"("failure":[{"request_range":{"key":"YQ=="}},{"request_delete_range":{"key":"Yg=="}}],)"
      R"("success":[{"request_put":{"key":"YQ==","value":"Yg=="}}]})");
}

TEST(EtcdWireTest, APrefixEndsBehindAllThatBeginSo) {
  EXPECT_EQ(with_prefix("/fovea/").end, "/fovea0");
  EXPECT_EQ(with_prefix("a\xff").end, "b");
  EXPECT_THROW(with_prefix("\xff"), Error);
}

TEST(EtcdWireTest, RepliesAreRead) {
  const auto range = read_range_reply(
      R"({"header":{"revision":"9223372036854775807"},"new":1,"kvs":[{"key":"YQ==","value":"",)"
      R"("create_revision":"2","mod_revision":3,"version":"1","lease":"-5"}],"count":"1"})",
      kSource);
  EXPECT_EQ(range.revision, 9223372036854775807);
  ASSERT_EQ(range.values.size(), 1u);
  EXPECT_EQ(range.values[0], (KeyValue{.key = "a",
                                       .value = "",
                                       .create_revision = 2,
                                       .mod_revision = 3,
                                       .version = 1,
                                       .lease = -5}));
  const auto watch = read_watch_reply(
      R"({"result":{"header":{"revision":"4"},"events":[{"type":"DELETE","kv":{"key":"YQ=="}}]}})",
      kSource);
  ASSERT_EQ(watch.events.size(), 1u);
  EXPECT_TRUE(watch.events[0].is_delete);
  const auto ended = read_watch_reply(R"({"error":{"message":"gone"}})", kSource);
  EXPECT_TRUE(ended.is_canceled);
  EXPECT_EQ(ended.cancel_reason, "gone");
}

TEST(EtcdWireTest, WhatIsNoReplyIsRefusedByName) {
  const auto refusal_of = [](const std::string& text) -> std::string {
    try {
      read_range_reply(text, kSource);
    } catch (const DataError& error) {
      return error.what();
    }
    return "read";
  };
  EXPECT_THAT(refusal_of(""), HasSubstr("http://127.0.0.1:2379: not JSON"));
  EXPECT_THAT(refusal_of("[]"), HasSubstr("found a list of 0; expected an object"));
  EXPECT_THAT(refusal_of(R"({"kvs":{}})"), HasSubstr("kvs: found an object"));
  EXPECT_THAT(refusal_of(R"({"kvs":[{"key":"!!"}]})"),
              HasSubstr("key: found \"!!\"; expected base64"));
  EXPECT_THAT(refusal_of(R"({"kvs":[{"key":1}]})"), HasSubstr("found 1; expected base64"));
  EXPECT_THAT(refusal_of(R"({"header":{"revision":"12x"}})"), HasSubstr("expected a whole number"));
  EXPECT_THAT(refusal_of(R"({"header":{"revision":"99999999999999999999"}})"),
              HasSubstr("expected a whole number"));
  EXPECT_THAT(refusal_of(R"({"header":{"revision":1.5}})"), HasSubstr("expected a whole number"));
  EXPECT_THAT(refusal_of(std::string(100, '[')), HasSubstr("nested deeper"));
  EXPECT_THAT(refusal_of("{\"kvs\":[\"\x1b[31m\"]}"), HasSubstr("not JSON"));
}

TEST(EtcdWireTest, ATokenAddsNoHeader) {
  EXPECT_EQ(read_login_reply(R"({"token":"abc.7"})", kSource), "abc.7");
  EXPECT_THROW(read_login_reply(R"({"token":"abc\r\nHost: evil"})", kSource), DataError);
  EXPECT_THROW(read_login_reply(R"({})", kSource), DataError);
}

TEST(EtcdWireTest, ARefusalSteersNoTerminal) {
  const auto refusal = read_refusal(R"({"error":"\u001b[31mno","code":7})", kSource);
  EXPECT_EQ(refusal.code, EtcdCode::kPermissionDenied);
  EXPECT_EQ(refusal.message, "\\x1b[31mno");
}

}  // namespace
}  // namespace fovea::elastic
