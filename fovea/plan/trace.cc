#include "fovea/plan/trace.h"

#include <ATen/ops/empty_like.h>
#include <ATen/record_function.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "fovea/core/error.h"

namespace fovea::plan {
namespace {

using parallel::Collective;

thread_local Trace* current_trace = nullptr;

using Inputs = c10::ArrayRef<const c10::IValue>;

double product_of(at::IntArrayRef sizes) {
  return static_cast<double>(c10::multiply_integers(sizes));
}

// a: [..., M, K], b: [..., K, N].
double product_flops(const at::Tensor& a, const at::Tensor& b) {
  return 2 * product_of(a.sizes()) * static_cast<double>(b.size(-1));
}

// q: [B, H, N, K], k: [B, H, M, K]: one of the products of attention.
double attention_flops(const at::Tensor& q, const at::Tensor& k) {
  return 2 * product_of(q.sizes()) * static_cast<double>(k.size(2));
}

// Forward has two products, backward recomputes one and has four more.
const std::map<std::string_view, double (*)(const Inputs&)>& counted_operations() {
  static const std::map<std::string_view, double (*)(const Inputs&)> operations = {
      {"aten::mm",
       [](const Inputs& in) { return product_flops(in[0].toTensor(), in[1].toTensor()); }},
      {"aten::bmm",
       [](const Inputs& in) { return product_flops(in[0].toTensor(), in[1].toTensor()); }},
      {"aten::addmm",
       [](const Inputs& in) { return product_flops(in[1].toTensor(), in[2].toTensor()); }},
      {"aten::baddbmm",
       [](const Inputs& in) { return product_flops(in[1].toTensor(), in[2].toTensor()); }},
      {"aten::_scaled_dot_product_flash_attention_for_cpu",
       [](const Inputs& in) { return 2 * attention_flops(in[0].toTensor(), in[1].toTensor()); }},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward",
       [](const Inputs& in) { return 5 * attention_flops(in[1].toTensor(), in[2].toTensor()); }},
  };
  return operations;
}

std::unique_ptr<at::ObserverContext> count_operation(const at::RecordFunction& function) {
  const auto found = counted_operations().find(function.name());
  if (current_trace != nullptr && found != counted_operations().end()) {
    current_trace->add_flops(found->second(function.inputs()));
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
    const auto bytes = [](const at::Tensor& x) {
      return x.defined() ? static_cast<int64_t>(x.nbytes()) : int64_t{0};
    };
    const auto id = next_id_++;
    trace_.add({.kind = Event::Kind::kStart,
                .id = static_cast<int64_t>(group_) << 32 | id,
                .group = group_,
                .collective = request.collective,
                .bytes = std::max(bytes(request.in), bytes(request.out)),
                .dtype = request.in.defined() ? c10::toString(request.in.scalar_type()) : "",
                .what = request.what});
    at::Tensor copy;
    if (backend_ == Backend::kGloo && request.collective == Collective::kReduceScatter) {
      copy = at::empty_like(request.in);
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
  event.flops = std::exchange(flops_, 0);
  event.made_bytes = made - std::exchange(made_before_, made);
  events_.push_back(std::move(event));
}

void Trace::clear() {
  events_.clear();
  flops_ = 0;
  made_before_ = made_bytes_();
}

std::shared_ptr<parallel::Communicator> Trace::make_group(const std::vector<int64_t>& ranks,
                                                          int64_t own_rank, Backend backend) {
  groups_.push_back({.axis = "", .ranks = ranks});
  const auto own = std::find(ranks.begin(), ranks.end(), own_rank) - ranks.begin();
  return std::make_shared<TracedRanks>(*this, groups_.size() - 1, own,
                                       static_cast<int64_t>(ranks.size()), backend);
}

}  // namespace fovea::plan
