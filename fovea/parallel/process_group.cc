#include "fovea/parallel/process_group.h"

#include <c10/util/Exception.h>

#include <map>
#include <mutex>
#include <thread>

#include "fovea/parallel/rank_error.h"

namespace fovea::parallel {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kSlice{500};            // between two looks at how the others are
constexpr milliseconds kReasonPatience{4000};  // for the reason of a broken connection
constexpr milliseconds kSilenceOfTheDead{2500};

std::string reason_of(const std::exception& error) {
  const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
  const std::string text = of_torch ? of_torch->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

class LookAtOthers {
 public:
  explicit LookAtOthers(Watch& watch) : watch_(watch) { watch_.look_at_others(true); }
  ~LookAtOthers() { watch_.look_at_others(false); }
  LookAtOthers(const LookAtOthers&) = delete;
  LookAtOthers& operator=(const LookAtOthers&) = delete;

 private:
  Watch& watch_;
};

// Waits for one piece of work while it keeps an eye on the other ranks.
class PendingWork : public Pending {
 public:
  PendingWork(c10::intrusive_ptr<c10d::Work> work, std::string operation, std::string here,
              milliseconds timeout, Watch& watch)
      : work_(std::move(work)),
        operation_(std::move(operation)),
        here_(std::move(here)),
        timeout_(timeout),
        watch_(watch) {}

  void wait() override {
    const auto start = Clock::now();
    wait_for_others();
    watch_.add_wait(std::chrono::duration<double>(Clock::now() - start).count());
  }

 private:
  void wait_for_others() {
    if (is_over(kSlice)) return;
    watch_.at_operation("waiting in " + operation_);
    const LookAtOthers look(watch_);
    const auto start = Clock::now();
    while (!is_over(kSlice)) {
      if (const auto failure = watch_.failure()) fail_because(*failure);
      if (const auto silent = watch_.silent_ranks(watch_.stale()); !silent.empty()) {
        throw RankError(fmt::format("{}: {}; it was stopped, killed or cut off", where(), silent));
      }
      if (Clock::now() - start > timeout_) fail_late();
    }
    watch_.at_operation("computing");
  }

  std::string where() const {
    return fmt::format("{}, step {}, {}", here_, watch_.step(), operation_);
  }

  // False: not yet. Throws where the work has failed.
  bool is_over(milliseconds patience) {
    try {
      work_->wait(patience);
      return true;
    } catch (const std::exception& error) {
      // A wait that ran out of patience throws as well.
      if (!work_->isCompleted() || work_->exception() == nullptr) return work_->isCompleted();
      fail_broken(reason_of(error));
    }
  }

  [[noreturn]] void fail_because(const RankFailure& failure) const {
    throw RankError(fmt::format("{}: {}", where(), failure.text()), failure.code);
  }

  // The connection to a rank is gone: that rank, or a third one, may have told why.
  [[noreturn]] void fail_broken(const std::string& reason) const {
    const LookAtOthers look(watch_);
    const auto start = Clock::now();
    while (Clock::now() - start < kReasonPatience) {
      if (const auto failure = watch_.failure()) fail_because(*failure);
      std::this_thread::sleep_for(milliseconds(50));
    }
    const auto silent = watch_.silent_ranks(kSilenceOfTheDead);
    throw RankError(silent.empty() ? fmt::format("{}: {}", where(), reason)
                                   : fmt::format("{}: {}; it was killed or cut off ({})", where(),
                                                 silent, reason));
  }

  [[noreturn]] void fail_late() const {
    auto silent = watch_.silent_ranks(kSilenceOfTheDead);
    if (silent.empty()) silent = "all ranks are alive: " + watch_.whereabouts();
    throw RankError(fmt::format("{}: not done within {:.0f} s (launch.timeout); {}", where(),
                                std::chrono::duration<double>(timeout_).count(), silent));
  }

  c10::intrusive_ptr<c10d::Work> work_;
  std::string operation_, here_;
  milliseconds timeout_;
  Watch& watch_;
};

class GroupCommunicator : public Communicator {
 public:
  GroupCommunicator(c10::intrusive_ptr<c10d::Backend> backend, const GroupOptions& options,
                    std::string here, Watch& watch)
      : Communicator(options.rank, options.size),
        backend_(std::move(backend)),
        here_(std::move(here)),
        timeout_(options.timeout),
        watch_(watch) {}

 private:
  std::unique_ptr<Pending> start(const Request& request) override {
    const auto operation = fmt::format("{} of {}", name_of(request.collective), request.what);
    if (const auto failure = watch_.failure()) {
      throw RankError(
          fmt::format("{}, step {}, {}: {}", here_, watch_.step(), operation, failure->text()),
          failure->code);
    }
    return std::make_unique<PendingWork>(begin(request), operation, here_, timeout_, watch_);
  }

  c10::intrusive_ptr<c10d::Work> begin(const Request& request) {
    at::Tensor out = request.out, in = request.in;
    std::vector<at::Tensor> tensors = {out};
    std::vector<int64_t> even;  // empty: parts of equal size
    switch (request.collective) {
      case Collective::kAllReduce: {
        c10d::AllreduceOptions options;
        options.reduceOp = request.op == ReduceOp::kSum ? c10d::ReduceOp::SUM : c10d::ReduceOp::MAX;
        return backend_->allreduce(tensors, options);
      }
      case Collective::kBroadcast: {
        c10d::BroadcastOptions options;
        options.rootRank = request.root;
        return backend_->broadcast(tensors, options);
      }
      case Collective::kAllGather:
        out = out.view({-1}), in = in.view({-1});
        return backend_->_allgather_base(out, in);
      case Collective::kReduceScatter:
        out = out.view({-1}), in = in.view({-1});
        return backend_->_reduce_scatter_base(out, in);
      case Collective::kAllToAll:
        out = out.view({-1}), in = in.view({-1});
        return backend_->alltoall_base(out, in, even, even);
      case Collective::kShift: {
        // All that a rank has goes to one rank, and what it gets comes from one.
        std::vector<int64_t> sent(static_cast<size_t>(size())), received(sent.size());
        sent[static_cast<size_t>((rank() + 1) % size())] = in.numel();
        received[static_cast<size_t>((rank() + size() - 1) % size())] = in.numel();
        out = out.view({-1}), in = in.view({-1});
        return backend_->alltoall_base(out, in, received, sent);
      }
      case Collective::kBarrier:
        return backend_->barrier();
    }
    fail("no such collective");
  }

  c10::intrusive_ptr<c10d::Backend> backend_;
  std::string here_;  // "rank 3"
  milliseconds timeout_;
  Watch& watch_;
};

std::mutex factories_mutex;

std::map<c10::DeviceType, BackendFactory>& factories() {
  static std::map<c10::DeviceType, BackendFactory> by_device;
  return by_device;
}

}  // namespace

void use_backend(c10::DeviceType device, BackendFactory factory) {
  const std::lock_guard lock(factories_mutex);
  factories()[device] = std::move(factory);
}

BackendFactory backend_for(c10::DeviceType device) {
  const std::lock_guard lock(factories_mutex);
  const auto found = factories().find(device);
  return found == factories().end() ? BackendFactory(make_gloo) : found->second;
}

std::unique_ptr<Communicator> make_communicator(c10::intrusive_ptr<c10d::Backend> backend,
                                                const GroupOptions& options, Watch& watch) {
  return std::make_unique<GroupCommunicator>(std::move(backend), options,
                                             fmt::format("rank {}", watch.rank()), watch);
}

}  // namespace fovea::parallel
