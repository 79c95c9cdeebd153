// W ranks.
#include "fovea/parallel/ddp.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <mutex>

#include "fovea/core/error.h"
#include "fovea/parallel/gradient_hooks.h"

namespace fovea::parallel {

struct GradientReducer::State {
  struct Bucket {
    Range range;
    int64_t num_params = 0;
    int64_t num_missing = 0;  // gradients that are not there yet
    std::unique_ptr<Pending> pending;
    at::Tensor sent, received;  // [W * part] with a wire dtype
  };

  State(std::vector<FlatParameter> parameters, const at::Tensor& flat, Communicator& communicator,
        const ReducerOptions& reducer_options)
      : params(std::move(parameters)),
        flat_grad(flat),
        ranks(communicator),
        options(reducer_options),
        has_gradient(params.size()) {}

  void make_buckets();
  void reset();
  void on_gradient(size_t i);
  void start_ready();
  void start(Bucket& bucket);
  void finish(Bucket& bucket);
  bool is_converted() const { return options.wire_dtype == at::kBFloat16; }
  std::string name_of(const Bucket& bucket) const;

  std::vector<FlatParameter> params;
  at::Tensor flat_grad;
  Communicator& ranks;
  ReducerOptions options;

  std::mutex mutex;  // hooks run in the threads of backward
  std::vector<Bucket> buckets;
  std::vector<size_t> bucket_of;   // by parameter
  std::vector<bool> has_gradient;  // by parameter, of this backward
  size_t next = 0;                 // bucket that starts next
  bool is_overlapping = false;

  GradientHooks hooks;  // of all of `params`
};

void GradientReducer::State::make_buckets() {
  bucket_of.resize(params.size());
  const auto element = static_cast<int64_t>(flat_grad.element_size());
  int64_t limit = options.first_bucket_bytes, end = flat_grad.numel();
  Bucket open;
  open.range = {end, end};
  for (size_t i = params.size(); i-- > 0;) {
    bucket_of[i] = buckets.size();
    open.range.begin = params[i].begin;
    open.num_params += 1;
    if ((open.range.end - open.range.begin) * element < limit && i > 0) continue;
    end = open.range.begin;
    buckets.push_back(std::move(open));
    open = Bucket();
    open.range = {end, end};
    limit = options.bucket_bytes;
  }
}

void GradientReducer::State::reset() {
  for (auto& bucket : buckets) {
    bucket.num_missing = bucket.num_params;
  }
  has_gradient.assign(params.size(), false);
  next = 0;
}

void GradientReducer::State::on_gradient(size_t i) {
  const std::lock_guard lock(mutex);
  if (!is_overlapping) return;
  const auto& param = params[i];
  const auto& grad = param.param.grad();
  FOVEA_CHECK(grad.defined() && grad.is_alias_of(flat_grad) &&
                  grad.storage_offset() == flat_grad.storage_offset() + param.begin,
              "the gradient of {} is not in the optimizer's buffer", param.name);
  FOVEA_CHECK(!has_gradient[i],
              "{} got its gradient in two pieces, and the first one may be on its way already",
              param.name);
  has_gradient[i] = true;
  buckets[bucket_of[i]].num_missing -= 1;
  start_ready();
}

void GradientReducer::State::start_ready() {
  while (next < buckets.size() && buckets[next].num_missing == 0) start(buckets[next++]);
}

std::string GradientReducer::State::name_of(const Bucket& bucket) const {
  return fmt::format("gradients [{}, {})", bucket.range.begin, bucket.range.end);
}

void GradientReducer::State::start(Bucket& bucket) {
  const at::NoGradGuard no_grad;
  const auto& [begin, end] = bucket.range;
  const auto grad = flat_grad.narrow(0, begin, end - begin);
  if (!is_converted()) {
    bucket.pending = ranks.start_all_reduce(grad, name_of(bucket));
    return;
  }
  // An all_reduce in bfloat16 would round after every addition. So each rank gets one part of all
  // ranks' gradients, sums it in float32, and sends it round.
  const int64_t part = (end - begin + ranks.size() - 1) / ranks.size();
  if (!bucket.sent.defined()) {
    bucket.sent = at::zeros({ranks.size() * part}, grad.options().dtype(options.wire_dtype));
    bucket.received = at::empty_like(bucket.sent);
  }
  bucket.sent.narrow(0, 0, end - begin).copy_(grad);
  bucket.pending = ranks.start_all_to_all(bucket.received, bucket.sent, name_of(bucket));
}

void GradientReducer::State::finish(Bucket& bucket) {
  bucket.pending->wait();
  bucket.pending.reset();
  if (!is_converted()) return;
  const auto& [begin, end] = bucket.range;
  const auto sum = bucket.received.view({ranks.size(), -1})
                       .to(flat_grad.scalar_type())
                       .sum(0)
                       .to(options.wire_dtype);  // [part]
  ranks.all_gather(bucket.sent, sum, name_of(bucket));
  flat_grad.narrow(0, begin, end - begin).copy_(bucket.sent.narrow(0, 0, end - begin));
}

GradientReducer::GradientReducer(std::vector<FlatParameter> params, const at::Tensor& flat_grad,
                                 Communicator& ranks, const ReducerOptions& options)
    : state_(std::make_unique<State>(std::move(params), flat_grad, ranks, options)) {
  if (ranks.size() == 1) return;  // there is nothing to exchange
  state_->make_buckets();
  for (size_t i = 0; i < state_->params.size(); ++i) {
    const auto& param = state_->params[i];
    state_->hooks.add(param.param, param.name,
                      [state = state_.get(), i] { state->on_gradient(i); });
  }
}

GradientReducer::~GradientReducer() = default;

void GradientReducer::before_backward(bool is_last) {
  if (!is_last) return;
  const std::lock_guard lock(state_->mutex);
  state_->reset();
  state_->is_overlapping = true;
}

void GradientReducer::finish() {
  const std::lock_guard lock(state_->mutex);
  State& state = *state_;
  if (!state.is_overlapping) state.reset();
  state.is_overlapping = false;
  for (; state.next < state.buckets.size(); ++state.next) state.start(state.buckets[state.next]);
  const at::NoGradGuard no_grad;
  for (auto& bucket : state.buckets) state.finish(bucket);
}

std::vector<GradientReducer::Range> GradientReducer::buckets() const {
  std::vector<Range> ranges;
  for (const auto& bucket : state_->buckets) ranges.push_back(bucket.range);
  return ranges;
}

}  // namespace fovea::parallel
