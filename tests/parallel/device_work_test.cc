// Waits for collectives on a device that has a back end of its own: a stand-in for NCCL, whose
// tensors have no values and whose work is done when a test says so.
#include "fovea/parallel/device_work.h"

#include <ATen/ops/empty.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "fovea/parallel/process_group.h"
#include "fovea/parallel/rank_error.h"

namespace fovea::parallel {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr milliseconds kPatience{20000};

struct FakeDevice {
  std::atomic<int64_t> done = 0, stream_waits = 0, aborts = 0;
};

class FakeWork : public c10d::Work {
 public:
  FakeWork(std::shared_ptr<FakeDevice> device, int64_t number)
      : device_(std::move(device)), number_(number) {}
  bool isCompleted() override { return device_->done > number_ || device_->aborts > 0; }
  bool wait(milliseconds /*timeout*/) override {  // the stream's, as NCCL's is
    device_->stream_waits += 1;
    return true;
  }

 private:
  std::shared_ptr<FakeDevice> device_;
  int64_t number_;
};

class FakeBackend : public c10d::Backend {
 public:
  FakeBackend(int rank, int size, std::shared_ptr<FakeDevice> device)
      : c10d::Backend(rank, size), device_(std::move(device)) {}
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& /*tensors*/,
                                           const c10d::AllreduceOptions& /*options*/) override {
    return c10::make_intrusive<FakeWork>(device_, started_++);
  }
  void abort() override { device_->aborts += 1; }

 private:
  std::shared_ptr<FakeDevice> device_;
  int64_t started_ = 0;
};

// Rank 0 of two, whose tensors are on the device.
class DeviceWorkTest : public ::testing::Test {
 protected:
  // stale: silence after which the other rank, which does not exist, counts as gone.
  void start(milliseconds timeout, milliseconds stale = kPatience) {
    server_ = std::make_unique<StoreServer>(
        listen_at("127.0.0.1", 0, false, std::chrono::steady_clock::now() + kPatience), "");
    const KeyStore store(
        {.place = {.address = "127.0.0.1", .port = server_->port()}, .timeout = kPatience});
    watch_ = std::make_unique<Watch>(store.clone(kPatience), 0, 2, WatchPatience{.stale = stale});
    watch_->at_step(3);
    ranks_ =
        make_communicator({.host = {}, .device = c10::make_intrusive<FakeBackend>(0, 2, fake_)},
                          {.rank = 0, .size = 2, .address = {}, .timeout = timeout}, *watch_);
  }

  void reduce() { ranks_->all_reduce(at::empty({4}, at::kMeta), "gradients"); }

  // What the next collectives end with, once there is a fault.
  std::string fault() {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < end) {
      try {
        reduce();
      } catch (const RankError& error) {
        EXPECT_EQ(error.exit_code(), ExitCode::kHang);
        return error.what();
      }
      std::this_thread::sleep_for(milliseconds(10));
    }
    return "there was none";
  }

  std::shared_ptr<FakeDevice> fake_ = std::make_shared<FakeDevice>();
  std::unique_ptr<StoreServer> server_;
  std::unique_ptr<Watch> watch_;
  std::unique_ptr<Communicator> ranks_;
};

TEST_F(DeviceWorkTest, TheHostGoesOnWhileTheStreamWaits) {
  start(kPatience);
  for (int i = 0; i < 3; ++i) reduce();  // would not return if the host waited: nothing is done
  EXPECT_EQ(fake_->stream_waits, 3);
  EXPECT_EQ(watch_->take_wait_seconds(), 0);
  fake_->done = 3;
  reduce();
  EXPECT_EQ(fake_->aborts, 0);
}

TEST_F(DeviceWorkTest, WorkThatIsNotDoneInTimeEndsInTheNextCollective) {
  start(milliseconds(600));
  reduce();
  EXPECT_THAT(fault(), AllOf(HasSubstr("rank 0, step 3, all_reduce of gradients"),
                             HasSubstr("not done within 1 s (launch.timeout)")));
  EXPECT_EQ(fake_->aborts, 1);
  EXPECT_THROW(watch_->check_fault(), RankError);
}

TEST_F(DeviceWorkTest, ARankThatIsGoneIsNamed) {
  start(kPatience, /*stale=*/milliseconds(700));
  reduce();
  EXPECT_THAT(fault(), AllOf(HasSubstr("rank 1 (before its first step) was not heard of"),
                             HasSubstr("it was stopped, killed or cut off")));
  EXPECT_EQ(fake_->aborts, 1);
}

// The patience is that of the oldest one since it came to be the oldest.
TEST_F(DeviceWorkTest, AHostThatIsAheadIsNotTooLate) {
  start(milliseconds(2000));
  for (int i = 0; i < 4; ++i) reduce();
  for (int i = 1; i <= 4; ++i) {
    std::this_thread::sleep_for(milliseconds(600));
    fake_->done = i;
  }
  reduce();
  EXPECT_EQ(fake_->aborts, 0);
}

TEST_F(DeviceWorkTest, AStuckHostIsEndedByTheWatch) {
  start(kPatience);
  std::promise<std::string> ended;
  watch_->on_alone([&](const std::string& why) { ended.set_value(why); });
  bool has_given_up = false;
  DeviceWork work(
      *watch_, [&] { has_given_up = true; }, /*patience=*/milliseconds(50));
  work.follow(c10::make_intrusive<FakeWork>(fake_, 0),
              RankWait("all_gather of blocks.0", milliseconds(550), *watch_), {});
  auto why = ended.get_future();
  ASSERT_EQ(why.wait_for(kPatience), std::future_status::ready);
  EXPECT_THAT(why.get(), HasSubstr("all_gather of blocks.0: not done within 1 s"));
  EXPECT_TRUE(has_given_up);
}

}  // namespace
}  // namespace fovea::parallel
