#include "fovea/parallel/process_group.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sum.h>

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "fovea/core/trace.h"
#include "fovea/parallel/device_work.h"
#include "fovea/parallel/rank_wait.h"

namespace fovea::parallel {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

bool is_of_device(const at::Tensor& x) { return x.defined() && !x.device().is_cpu(); }

// The same bytes in memory that both the device and the network read.
at::Tensor pinned_like(const at::Tensor& x) {
  return at::empty(x.sizes(), x.options().device(at::kCPU).pinned_memory(true));
}

using Rest = std::vector<std::function<void()>>;  // one after another, once others have done theirs

class PendingOnHost : public Pending {
 public:
  PendingOnHost(std::unique_ptr<HostWork> work, Rest rest, RankWait wait, Watch& watch)
      : work_(std::move(work)), rest_(std::move(rest)), wait_(std::move(wait)), watch_(watch) {}

  void wait() override {
    const trace::Scope scope(wait_.operation().c_str(), trace::kWait);
    const auto start = Clock::now();
    wait_.until([this](milliseconds patience) { return is_over(patience); });
    for (const auto& step : rest_) step();
    rest_.clear();
    work_.reset();
    watch_.add_wait(std::chrono::duration<double>(Clock::now() - start).count());
  }

 private:
  bool is_over(milliseconds patience) {
    try {
      return !work_ || work_->wait(patience);
    } catch (const std::exception& error) {
      wait_.fail_broken(reason_of(error));
    }
  }

  std::unique_ptr<HostWork> work_;
  Rest rest_;
  RankWait wait_;
  Watch& watch_;
};

// Of a device: see Note [Waits on a device].
class PendingOnDevice : public Pending {
 public:
  PendingOnDevice(c10::intrusive_ptr<c10d::Work> work, Rest rest, RankWait wait,
                  std::optional<trace::Span> span, DeviceWork& device_work)
      : work_(std::move(work)),
        rest_(std::move(rest)),
        wait_(std::move(wait)),
        span_(std::move(span)),
        device_work_(device_work) {}

  void wait() override {
    if (!work_) return;
    try {
      work_->wait();
    } catch (const std::exception& error) {
      wait_.fail_broken(reason_of(error));
    }
    device_work_.follow(std::exchange(work_, {}), wait_, std::move(span_));
    for (const auto& step : rest_) step();
    rest_.clear();
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  Rest rest_;
  RankWait wait_;
  std::optional<trace::Span> span_;
  DeviceWork& device_work_;
};

class GroupCommunicator : public Communicator {
 public:
  GroupCommunicator(Backends backends, const GroupOptions& options, Watch& watch)
      : Communicator(options.rank, options.size),
        backends_(std::move(backends)),
        timeout_(options.timeout),
        watch_(watch) {
    if (!backends_.device) return;
    const auto give_up = [device = backends_.device] { device->abort(); };
    device_work_ = std::make_unique<DeviceWork>(watch, give_up);
  }

  void give_up(const std::string& why) override {
    backends_.host->give_up(why);
    if (backends_.device) backends_.device->abort();
  }

 private:
  std::unique_ptr<Pending> start(const Request& request) override {
    RankWait wait(fmt::format("{} of {}", name_of(request.collective), request.what), timeout_,
                  watch_);
    wait.check_failure();
    auto span = span_of(request, wait.operation());
    Rest rest;
    const auto exchanged = as_exchange(request, rest);
    if (is_of_device(exchanged.in) && backends_.device) {
      return std::make_unique<PendingOnDevice>(begin_on(*backends_.device, exchanged),
                                               std::move(rest), std::move(wait), std::move(span),
                                               *device_work_);
    }
    std::function<void()> on_done;
    if (span) {
      on_done = [done = *std::move(span)]() mutable {
        done.end = trace::now();
        trace::add(std::move(done));
      };
    }
    const bool is_staged = is_of_device(exchanged.in);
    const auto on_host = is_staged ? through_host(exchanged) : exchanged;
    if (is_staged) {
      const auto back = [to = exchanged.out, from = on_host.out] { to.copy_(from); };
      rest.insert(rest.begin(), back);
    }
    return std::make_unique<PendingOnHost>(backends_.host->begin(on_host, std::move(on_done)),
                                           std::move(rest), std::move(wait), watch_);
  }

  // A scattered sum that the back end is not asked for: the ranks exchange the parts, which each
  // sums up itself, in the order of the ranks, and in the dtype of the result. Gloo's own would be
  // its all_reduce, of which a rank keeps a part: about twice the bytes. Two ranks of the host add
  // what comes while it comes; of a device the back end's own is the shorter way.
  Communicator::Request as_exchange(const Request& request, Rest& rest) const {
    if (request.collective != Collective::kReduceScatter) return request;
    const bool is_converted = request.in.scalar_type() != request.out.scalar_type();
    const bool is_device = is_of_device(request.in) && backends_.device;
    const bool is_added = size() == 2 && (!is_converted || request.out.scalar_type() == at::kFloat);
    if (is_device ? !is_converted : is_added) return request;
    Request exchange = request;
    exchange.collective = Collective::kAllToAll;
    exchange.out = at::empty_like(request.in);
    rest.push_back([out = request.out, parts = exchange.out, size = size()] {
      const at::NoGradGuard no_grad;
      auto sum = out.view({-1});
      at::sum_out(sum, parts.view({size, -1}), 0, /*keepdim=*/false, out.scalar_type());
    });
    return exchange;
  }

  std::optional<trace::Span> span_of(const Request& request, const std::string& operation) const {
    if (!trace::is_on()) return {};
    return trace::Span{.name = operation,
                       .category = trace::kCollective,
                       .begin = trace::now(),
                       .bytes = request.bytes(),
                       .group = name()};
  }

  // Gloo's network reads host memory alone.
  static Request through_host(const Request& request) {
    Request staged = request;
    staged.in = pinned_like(request.in);
    staged.in.copy_(request.in);
    staged.out = request.out.is_same(request.in) ? staged.in : pinned_like(request.out);
    return staged;
  }

  Backends backends_;
  milliseconds timeout_;
  Watch& watch_;
  std::unique_ptr<DeviceWork> device_work_;  // null: no device has a back end
};

}  // namespace

c10::intrusive_ptr<c10d::Work> begin_on(c10d::Backend& backend,
                                        const Communicator::Request& request) {
  at::Tensor out = request.out, in = request.in;
  std::vector<at::Tensor> tensors = {out};
  std::vector<int64_t> even;  // empty: parts of equal size
  switch (request.collective) {
    case Collective::kAllReduce: {
      c10d::AllreduceOptions options;
      options.reduceOp = request.op == ReduceOp::kSum ? c10d::ReduceOp::SUM : c10d::ReduceOp::MAX;
      return backend.allreduce(tensors, options);
    }
    case Collective::kBroadcast: {
      c10d::BroadcastOptions options;
      options.rootRank = request.root;
      return backend.broadcast(tensors, options);
    }
    case Collective::kAllGather:
      out = out.view({-1}), in = in.view({-1});
      return backend._allgather_base(out, in);
    case Collective::kReduceScatter:
      out = out.view({-1}), in = in.view({-1});
      return backend._reduce_scatter_base(out, in);
    case Collective::kAllToAll:
      out = out.view({-1}), in = in.view({-1});
      return backend.alltoall_base(out, in, even, even);
    case Collective::kShift: {
      // All that a rank has goes to one rank, and what it gets comes from one.
      const int size = backend.getSize(), rank = backend.getRank();
      std::vector<int64_t> sent(static_cast<size_t>(size)), received(sent.size());
      sent[static_cast<size_t>((rank + 1) % size)] = in.numel();
      received[static_cast<size_t>((rank + size - 1) % size)] = in.numel();
      out = out.view({-1}), in = in.view({-1});
      return backend.alltoall_base(out, in, received, sent);
    }
    case Collective::kBarrier:
      return backend.barrier();
  }
  fail("no such collective");
}

std::unique_ptr<Communicator> make_communicator(Backends backends, const GroupOptions& options,
                                                Watch& watch) {
  return std::make_unique<GroupCommunicator>(std::move(backends), options, watch);
}

}  // namespace fovea::parallel
