// The store in which ranks meet, and what a stranger on the network can do to it.
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "fovea/parallel/key_store.h"
#include "fovea/parallel/rank_error.h"
#include "tests/parallel/listening_sockets.h"

namespace fovea::parallel {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kSoon{300}, kLong{20000};
constexpr const char* kSecret = "a secret of this run";

std::vector<Socket> listeners() {
  return listen_at("127.0.0.1", 0, /*is_for_others=*/false, Clock::now() + kLong);
}

StorePlace place_of(int64_t port, const std::string& secret = kSecret) {
  return {.address = "127.0.0.1", .port = port, .secret = secret};
}

Socket stranger_at(int64_t port) {
  const auto deadline = Clock::now() + kLong;
  return connect_to(resolve("127.0.0.1", port, deadline).front(), deadline);
}

bool is_cut_off(const Socket& stranger) {
  try {
    for (;;) stranger.receive(1, Clock::now() + kLong);
  } catch (const SocketError& error) {
    return error.kind() == SocketError::Kind::kClosed;
  }
}

// How a client fails at a listener that does `serve` with who comes: message and exit code.
std::pair<std::string, ExitCode> failure_at(const std::function<void(const Socket&)>& serve) {
  const auto sockets = listeners();
  std::promise<void> is_over;
  std::thread server([&] {
    const Socket visitor(testing::accept_one(sockets.front().file()));
    serve(visitor);
    is_over.get_future().wait();
  });
  std::pair<std::string, ExitCode> result{"none", ExitCode::kDone};
  try {
    const auto client = c10::make_intrusive<StoreClient>(place_of(sockets.front().port()), kSoon);
    client->check({"key"});
  } catch (const RankError& error) {
    result = {error.what(), error.exit_code()};
  } catch (const c10::DistNetworkError& error) {
    result = {error.what_without_backtrace(), ExitCode::kHang};
  }
  is_over.set_value();
  server.join();
  return result;
}

std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

// What c10d's back ends ask of a store.
void expect_is_a_store(c10d::Store& store) {
  EXPECT_FALSE(store.check({"a"}));
  store.set("a", bytes_of("1"));
  EXPECT_EQ(store.get("a"), bytes_of("1"));
  store.set("empty", bytes_of(""));
  EXPECT_TRUE(store.check({"a", "empty"}));
  EXPECT_EQ(store.get("empty"), bytes_of(""));
  EXPECT_EQ(store.add("n", 2), 2);
  EXPECT_EQ(store.add("n", 40), 42);
  EXPECT_EQ(store.get("n"), bytes_of("42"));
  EXPECT_EQ(store.compareSet("a", bytes_of("0"), bytes_of("2")), bytes_of("1"));
  EXPECT_EQ(store.compareSet("a", bytes_of("1"), bytes_of("2")), bytes_of("2"));
  EXPECT_EQ(store.compareSet("new", bytes_of(""), bytes_of("3")), bytes_of("3"));
  EXPECT_GE(store.getNumKeys(), 4);
  EXPECT_TRUE(store.deleteKey("a"));
  EXPECT_FALSE(store.deleteKey("a"));
  EXPECT_THROW(store.wait({"a"}, milliseconds(5)), c10::DistStoreError);
  const std::string large(3 << 20, 'x');
  store.set("large", bytes_of(large));
  const auto other = store.clone();
  std::thread late([&] { other->set("late", bytes_of("came")); });
  EXPECT_EQ(store.get("late"), bytes_of("came"));
  late.join();
  EXPECT_EQ(other->get("large"), bytes_of(large));
}

TEST(StoreTest, ServesC10d) {
  const StoreServer server(listeners(), kSecret);
  const auto client = c10::make_intrusive<StoreClient>(place_of(server.port()), kLong);
  expect_is_a_store(*client);
  EXPECT_EQ(server.find("n"), "42");
  EXPECT_EQ(server.find("a"), std::nullopt);
}

TEST(StoreTest, TorchrunsStoreServesToo) {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  const auto of_torch = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  auto place = place_of(of_torch->getPort(), "");
  place.is_of_torchrun = true;
  const auto client = c10::make_intrusive<StoreClient>(place, kLong);
  expect_is_a_store(*client);
}

TEST(StoreTest, WhoHasNoSecretIsNotHeard) {
  const StoreServer server(listeners(), kSecret);
  const auto as_c10d = to_wire({.op = StoreOp::kValidate, .number = kStoreMagic}) +
                       to_wire({.op = StoreOp::kSet, .keys = {"failure"}, .values = {"x"}});
  const auto nonce = std::string(kNonceBytes, 'n');
  const auto guess = std::string(kStoreHello) + nonce + std::string(kProofBytes, 'g') + as_c10d;
  for (const auto& bytes : {as_c10d, guess, std::string("\0\0\0\0", 4), std::string("GET /\r\n")}) {
    const auto stranger = stranger_at(server.port());
    stranger.send(bytes, Clock::now() + kLong);
    EXPECT_TRUE(is_cut_off(stranger)) << bytes;
  }
  EXPECT_EQ(server.find("failure"), std::nullopt);
  try {
    const auto client =
        c10::make_intrusive<StoreClient>(place_of(server.port(), "another secret"), kLong);
    FAIL() << "a wrong secret was taken";
  } catch (const RankError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kConfig);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("does not show the secret"),
                                    HasSubstr("FOVEA_SECRET"), Not(HasSubstr(kSecret))));
  }
}

TEST(StoreTest, StrangersWhoSayNothingKeepNobodyOut) {
  const StoreServer server(listeners(), kSecret);
  std::vector<Socket> silent;
  for (int i = 0; i < 300; ++i) silent.push_back(stranger_at(server.port()));
  const auto client = c10::make_intrusive<StoreClient>(place_of(server.port()), kLong);
  client->set("here", bytes_of("yes"));
  EXPECT_EQ(client->get("here"), bytes_of("yes"));
  EXPECT_TRUE(is_cut_off(silent.front()));  // the oldest went first
}

TEST(StoreTest, HoldsNoMoreThanItMay) {
  const StoreServer server(listeners(), kSecret, /*max_bytes=*/10000);
  const auto client = c10::make_intrusive<StoreClient>(place_of(server.port()), kLong);
  client->set("small", std::vector<uint8_t>(9000));
  client->set("small", std::vector<uint8_t>(9001));  // in its place
  const auto greedy = client->clone();
  const auto keep_setting = [&](size_t size) {
    for (int i = 0; i < 1000; ++i)
      greedy->set("more", std::vector<uint8_t>(size)), greedy->check({"more"});
  };
  EXPECT_THROW(keep_setting(1000), c10::DistNetworkError);
  const auto vast = client->clone();
  vast->set("vast", std::vector<uint8_t>(100));
  EXPECT_THROW((vast->set("vast", std::vector<uint8_t>(kMaxValueBytes + 1)), vast->check({"vast"})),
               c10::DistNetworkError);
  // Parts of requests, each of which could still become one.
  const auto stuck = client->clone();
  EXPECT_THROW((stuck->set("stuck", std::vector<uint8_t>(1 << 20)), stuck->check({"stuck"})),
               c10::DistNetworkError);
  // No number: what is added to it ends its own connection alone.
  const auto wrong = client->clone();
  EXPECT_THROW(wrong->add("small", 1), c10::DistNetworkError);
  EXPECT_EQ(client->get("small").size(), 9001u);
}

TEST(StoreTest, AListenerThatSaysNothingIsNamedInTime) {
  const auto [message, code] = failure_at([](const Socket&) {});
  EXPECT_EQ(code, ExitCode::kHang);
  EXPECT_THAT(message, AllOf(HasSubstr("127.0.0.1:"), HasSubstr("does not answer within 0.3 s"),
                             HasSubstr("MASTER_PORT right?")));
}

TEST(StoreTest, AListenerThatFallsSilentIsNamedInTime) {
  const auto [message, code] = failure_at([](const Socket& visitor) {
    const auto deadline = Clock::now() + kLong;
    const auto hello = visitor.receive(kStoreHello.size() + kNonceBytes, deadline);
    const auto own = random_bytes(), theirs = hello.substr(kStoreHello.size());
    visitor.send(own + proof_of_store(kSecret, theirs, own), deadline);
    visitor.receive(kProofBytes, deadline);
    visitor.send(std::string(1, kStoreWelcome), deadline);
    auto asked = visitor.receive(10, deadline);  // a validation and a ping
    take_request(asked);
    visitor.send(wire_number(static_cast<uint32_t>(take_request(asked)->number)), deadline);
  });
  EXPECT_EQ(code, ExitCode::kHang);
  EXPECT_THAT(message, HasSubstr("does not answer (said nothing)"));
}

TEST(StoreTest, AnotherProgramIsNamed) {
  const auto [message, code] = failure_at([](const Socket& visitor) {
    visitor.send("HTTP/1.1 400 Bad\x1b[2J Request\r\n" + std::string(100, 'x'),
                 Clock::now() + kLong);
  });
  EXPECT_EQ(code, ExitCode::kConfig);
  EXPECT_THAT(message, AllOf(HasSubstr("begins with 'HTTP/1.1 400 Bad'"), Not(HasSubstr("\x1b"))));
}

TEST(StoreTest, AKeyStoreTellsOfAStoreThatIsGone) {
  auto server = std::make_unique<StoreServer>(listeners(), kSecret);
  KeyStore store({.place = place_of(server->port()), .timeout = kLong});
  EXPECT_TRUE(store.under("a").set_first("key", "1"));
  EXPECT_FALSE(store.under("a").clone(kLong)->set_first("key", "2"));
  EXPECT_EQ(store.find("a/key"), "1");
  store.set("long", std::string(1000, 'x'));
  EXPECT_EQ(store.find("long", 10), std::string(10, 'x'));
  server.reset();
  try {
    store.find("a/key");
    FAIL() << "a store that is gone has answered";
  } catch (const RankError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kHang);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("in which the ranks meet, at 127.0.0.1:"),
                                    HasSubstr("killed, stopped or cut off")));
  }
}

TEST(StoreTest, ListensWhereItsHostIsNamed) {
  const auto of_loopback = listeners();
  EXPECT_EQ(testing::listening_addresses(of_loopback.front().port()),
            std::vector<std::string>{"127.0.0.1"});
  // A name that stands for loopback here reaches nobody elsewhere.
  const auto of_all = listen_at("127.0.0.1", 0, /*is_for_others=*/true, Clock::now() + kLong);
  EXPECT_THAT(testing::listening_addresses(of_all.front().port()).front(),
              ::testing::AnyOf("::", "0.0.0.0"));
}

}  // namespace
}  // namespace fovea::parallel
