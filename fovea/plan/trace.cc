#include "fovea/plan/trace.h"

#include <ATen/ops/empty_like.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/optim/flat_optimizer.h"
#include "fovea/train/bench/product_flops.h"

namespace fovea::plan {
namespace {

using parallel::Collective;

thread_local Trace* current_trace = nullptr;

std::unique_ptr<at::ObserverContext> count_operation(const at::RecordFunction& function) {
  if (current_trace != nullptr) {
    current_trace->add_product(train::product_flops(function), train::is_fp8_product(function));
    if (std::string_view(function.name()) == optim::kUpdateWork) {
      current_trace->add_update(function.inputs().at(1).toInt());
    }
  }
  return nullptr;
}

class TracedWait : public parallel::Pending {
 public:
  TracedWait(Trace& trace, int64_t id, at::Tensor copy)
      : trace_(trace), id_(id), copy_(std::move(copy)) {}
  void wait() override { trace_.add({.kind = Event::Kind::kWait, .id = id_}); }

 private:
  Trace& trace_;
  int64_t id_;
  at::Tensor copy_;  // of the back end, until it is done
};

class TracedRanks : public parallel::Communicator {
 public:
  TracedRanks(Trace& trace, size_t group, int64_t rank, int64_t size, Backend backend)
      : Communicator(rank, size), trace_(trace), group_(group), backend_(backend) {}

 private:
  std::unique_ptr<parallel::Pending> start(const Request& request) override {
    const auto id = next_id_++;
    trace_.add({.kind = Event::Kind::kStart,
                .id = static_cast<int64_t>(group_) << 32 | id,
                .group = group_,
                .collective = request.collective,
                .bytes = request.bytes(),
                .dtype = request.in.defined() ? c10::toString(request.in.scalar_type()) : "",
                .what = request.what});
    at::Tensor copy;
    if (request.collective == Collective::kReduceScatter) {
      const bool is_converted = request.in.scalar_type() != request.out.scalar_type();
      if (backend_ == Backend::kNccl ? is_converted : size() > 2) copy = at::empty_like(request.in);
    }
    return std::make_unique<TracedWait>(trace_, static_cast<int64_t>(group_) << 32 | id,
                                        std::move(copy));
  }

  Trace& trace_;
  size_t group_;
  Backend backend_;
  int64_t next_id_ = 0;
};

}  // namespace

Trace::Trace(std::function<int64_t()> made_bytes) : made_bytes_(std::move(made_bytes)) {
  FOVEA_CHECK(current_trace == nullptr, "this thread is traced already");
  current_trace = this;
  made_before_ = made_bytes_();
  callback_ = at::addThreadLocalCallback(at::RecordFunctionCallback(count_operation)
                                             .needsInputs(true)
                                             .scopes({at::RecordScope::FUNCTION}));
}

Trace::~Trace() {
  at::removeCallback(callback_);
  current_trace = nullptr;
}

void Trace::add(Event event) {
  const auto made = made_bytes_();
  event.fp8_flops = std::exchange(fp8_flops_, 0);
  event.flops = std::exchange(flops_, 0) + event.fp8_flops;
  event.made_bytes = made - std::exchange(made_before_, made);
  event.update_bytes = std::exchange(update_bytes_, 0);
  events_.push_back(std::move(event));
}

void Trace::clear() {
  events_.clear();
  flops_ = fp8_flops_ = 0;
  made_before_ = made_bytes_();
  update_bytes_ = 0;
}

std::shared_ptr<parallel::Communicator> Trace::make_group(const std::vector<int64_t>& ranks,
                                                          int64_t own_rank, Backend backend) {
  groups_.push_back({.axis = "", .ranks = ranks});
  const auto own = std::find(ranks.begin(), ranks.end(), own_rank) - ranks.begin();
  return std::make_shared<TracedRanks>(*this, groups_.size() - 1, own,
                                       static_cast<int64_t>(ranks.size()), backend);
}

}  // namespace fovea::plan
