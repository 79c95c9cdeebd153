#include "fovea/parallel/interrupt.h"

#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <thread>

#include "fovea/parallel/sockets.h"
#include "fovea/parallel/store_client.h"

namespace fovea::parallel {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

TEST(InterruptTest, FiresOnceAndCallsWhatStillStands) {
  Interrupt interrupt;
  int first = 0, gone = 0, late = 0;
  const auto hook = interrupt.on_fire([&] { ++first; });
  {
    const auto other = interrupt.on_fire([&] { ++gone; });
  }
  EXPECT_FALSE(interrupt.wait(milliseconds(0)));
  interrupt.fire("one");
  interrupt.fire("two");
  EXPECT_TRUE(interrupt.wait(milliseconds(0)));
  EXPECT_EQ(interrupt.why(), "one");
  const auto after = interrupt.on_fire([&] { ++late; });
  EXPECT_EQ(first, 1);
  EXPECT_EQ(gone, 0);
  EXPECT_EQ(late, 1);
}

TEST(InterruptTest, AHookIsNotDestroyedWhileItRuns) {
  Interrupt interrupt;
  std::promise<void> runs;
  bool is_over = false;
  std::optional<Interrupt::Hook> hook = interrupt.on_fire([&] {
    runs.set_value();
    std::this_thread::sleep_for(milliseconds(50));
    is_over = true;
  });
  std::thread other([&] { interrupt.fire("now"); });
  runs.get_future().wait();
  hook.reset();
  EXPECT_TRUE(is_over);
  other.join();
}

// To one that listens and says nothing.
TEST(InterruptTest, EndsWaitsOfSockets) {
  const auto deadline = Clock::now() + milliseconds(60000);
  const auto listeners = listen_at("127.0.0.1", 0, false, deadline);
  const auto address = resolve("127.0.0.1", listeners.front().port(), deadline).front();
  const auto interrupt = std::make_shared<Interrupt>();
  auto heard = std::async(std::launch::async, [&] {
    const auto socket = connect_to(address, deadline, interrupt);
    try {
      socket.receive(1, deadline);
    } catch (const SocketError& error) {
      EXPECT_EQ(error.kind(), SocketError::Kind::kInterrupted);
      return std::string(error.what());
    }
    return std::string();
  });
  auto client = std::async(std::launch::async, [&] {
    try {
      StoreClient({.address = "127.0.0.1", .port = listeners.front().port()}, milliseconds(60000),
                  interrupt);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  });
  EXPECT_EQ(heard.wait_for(milliseconds(50)), std::future_status::timeout);
  interrupt->fire("it is over");
  EXPECT_EQ(heard.get(), "it is over");
  EXPECT_EQ(client.get(), "it is over");
}

}  // namespace
}  // namespace fovea::parallel
