// Gloo, as what carries tensors in host memory.
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "fovea/parallel/host_backend.h"
#include "fovea/parallel/process_group.h"

namespace fovea::parallel {
namespace {

using Request = Communicator::Request;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Note [Sends that do not end]
// Where a connection breaks in the midst of a message, Gloo tells who waits to receive, but not who
// waits to have sent: that one sleeps until its timeout, which is longer than ours, and c10d waits
// for it when the group is destroyed. So a wait looks for connections that are gone, and ends some
// time after: a rank that needs nothing more of a collective may have left, while what others send
// is still on its way. And a broken group is destroyed in a thread of its own, so that whoever
// leaves it is not held up. What it was lent lives as long.
constexpr milliseconds kLateMessage{2000};
constexpr milliseconds kEndPatience{1000};

// The same memory, without a share in keeping it.
at::Tensor borrowed(const at::Tensor& x) {
  return x.defined() ? at::from_blob(x.data_ptr(), x.sizes(), x.options()) : x;
}

class GlooWork : public HostWork {
 public:
  // lent: what Gloo was given. Its threads let go of their tensors some time after the work is
  // done: they borrow these instead, so that a wait frees them, and a step's peak memory is the
  // same each time.
  GlooWork(c10::intrusive_ptr<c10d::Work> work, std::vector<at::Tensor> lent,
           std::function<void()> then, std::shared_ptr<const GlooSockets> sockets)
      : work_(std::move(work)),
        lent_(std::move(lent)),
        then_(std::move(then)),
        sockets_(std::move(sockets)) {}
  GlooWork(const GlooWork&) = delete;
  GlooWork& operator=(const GlooWork&) = delete;

  // Work that failed, or was given up, may still write to what it was lent.
  ~GlooWork() override {
    if (work_->isCompleted()) return;
    work_->getFuture()->addCallback([lent = std::move(lent_)](c10::ivalue::Future&) {});
  }

  bool wait(milliseconds patience) override {
    try {
      work_->wait(patience);
    } catch (const std::exception&) {
      // A wait that ran out of patience throws as well.
      if (!work_->isCompleted()) {
        check_connections();
        return false;
      }
      if (work_->exception() != nullptr) throw;
    }
    if (then_) std::exchange(then_, {})();
    return true;
  }

 private:
  void check_connections() {
    if (!lost_since_ && sockets_->has_lost_one()) lost_since_ = Clock::now();
    if (!lost_since_ || Clock::now() - *lost_since_ < kLateMessage) return;
    throw std::runtime_error("a connection of the group was closed in the midst of a message");
  }

  c10::intrusive_ptr<c10d::Work> work_;
  std::vector<at::Tensor> lent_;
  std::function<void()> then_;
  std::shared_ptr<const GlooSockets> sockets_;
  std::optional<Clock::time_point> lost_since_;
};

// How much of what was begun has not ended.
class Unfinished {
 public:
  void add(int64_t count) {
    const std::lock_guard lock(mutex_);
    count_ += count;
    if (count_ == 0) none_.notify_all();
  }
  // -> whether all has ended.
  bool wait(milliseconds patience) {
    std::unique_lock lock(mutex_);
    return none_.wait_for(lock, patience, [this] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable none_;
  int64_t count_ = 0;
};

class GlooBackend : public HostBackend {
 public:
  explicit GlooBackend(GlooGroup gloo)
      : gloo_(std::move(gloo.backend)), sockets_(std::move(gloo.sockets)) {}
  GlooBackend(const GlooBackend&) = delete;
  GlooBackend& operator=(const GlooBackend&) = delete;

  // See Note [Sends that do not end].
  ~GlooBackend() override {
    if (unfinished_->wait(kEndPatience)) return;
    std::thread([gloo = std::move(gloo_)]() mutable { gloo.reset(); }).detach();
  }

  void give_up(const std::string& /*why*/) override { sockets_->shut_down(); }

  std::unique_ptr<HostWork> begin(const Request& request, std::function<void()> on_done) override {
    if (gloo_->getSize() == 2 && request.collective == Collective::kReduceScatter) {
      return sum_with_other(request, std::move(on_done));
    }
    if (gloo_->getSize() == 2 && request.collective == Collective::kAllGather) {
      return gather_with_other(request, std::move(on_done));
    }
    return lend(request, std::move(on_done));
  }

 private:
  // Note [Two ranks]
  // Gloo gathers into memory of its own, of which the result is a copy, and an exchange moves a
  // rank's own part as well. Of two ranks each sends the other what that needs, and no more.
  // Pair by pair this would be size - 1 exchanges of more ranks, each with messages to all:
  // measured on Gloo, gathers of 7 MB took 15 % less processor time with three and four ranks, but
  // 45 % more with eight, and small ones 45 % more with four. So those stay with c10d.
  std::unique_ptr<HostWork> gather_with_other(const Request& request,
                                              std::function<void()> on_done) const {
    const at::NoGradGuard no_grad;
    const auto parts = request.out.view({2, -1});
    const auto own = parts[gloo_->getRank()], in = request.in.view({-1});
    if (own.data_ptr() != in.data_ptr()) own.copy_(in);
    return swap_with_other(parts[1 - gloo_->getRank()], in, request, std::move(on_done), {});
  }

  std::unique_ptr<HostWork> sum_with_other(const Request& request,
                                           std::function<void()> on_done) const {
    const at::NoGradGuard no_grad;
    const auto parts = request.in.view({2, -1});
    const auto own = parts[gloo_->getRank()], of_other = at::empty_like(own);
    const auto add_up = [out = request.out, own, of_other] {
      const at::NoGradGuard no_grad;
      auto sum = out.view({-1});
      if (sum.scalar_type() == own.scalar_type()) {
        at::add_out(sum, own, of_other);
      } else {
        sum.copy_(own).add_(of_other);
      }
    };
    return swap_with_other(of_other, parts[1 - gloo_->getRank()], request, std::move(on_done),
                           add_up);
  }

  std::unique_ptr<HostWork> swap_with_other(const at::Tensor& out, const at::Tensor& in,
                                            const Request& request, std::function<void()> on_done,
                                            std::function<void()> then) const {
    Request swap = request;
    swap.collective = Collective::kShift;  // of two ranks: both get what the other has
    swap.out = out;
    swap.in = in;
    return lend(swap, std::move(on_done), std::move(then));
  }

  std::unique_ptr<HostWork> lend(const Request& request, std::function<void()> on_done,
                                 std::function<void()> then = {}) const {
    Request borrowing = request;
    borrowing.out = borrowed(request.out);
    borrowing.in = borrowed(request.in);
    auto work = begin_on(*gloo_, borrowing);
    unfinished_->add(1);
    work->getFuture()->addCallback(
        [tell = std::move(on_done), unfinished = unfinished_](c10::ivalue::Future&) {
          if (tell) tell();
          unfinished->add(-1);
        });
    return std::make_unique<GlooWork>(std::move(work),
                                      std::vector<at::Tensor>{request.out, request.in},
                                      std::move(then), sockets_);
  }

  c10::intrusive_ptr<c10d::Backend> gloo_;
  std::shared_ptr<const GlooSockets> sockets_;
  std::shared_ptr<Unfinished> unfinished_ = std::make_shared<Unfinished>();
};

}  // namespace

std::unique_ptr<HostBackend> make_gloo_backend(const KeyStore& store, const GroupOptions& options) {
  return std::make_unique<GlooBackend>(make_gloo(store, options));
}

}  // namespace fovea::parallel
