// B batch, H heads, N queries, M keys, K head_dim.
#include "fovea/kernels/attention/gpu_attention.h"

#include <ATen/Context.h>
#include <ATen/SDPBackend.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <mutex>

#include "fovea/core/log.h"
#include "fovea/kernels/attention/attention_state.h"
#include "fovea/kernels/operators.h"

namespace fovea::kernels {
namespace {

// In the order in which they are tried, and in which equal ones are taken.
constexpr std::array kFusedKernels = {AttentionKernel::kFlash, AttentionKernel::kCudnn,
                                      AttentionKernel::kEfficient};

at::SDPBackend backend_of(AttentionKernel kernel) {
  switch (kernel) {
    case AttentionKernel::kFlash:
      return at::SDPBackend::flash_attention;
    case AttentionKernel::kCudnn:
      return at::SDPBackend::cudnn_attention;
    case AttentionKernel::kEfficient:
      return at::SDPBackend::efficient_attention;
    case AttentionKernel::kMath:
      break;
  }
  return at::SDPBackend::math;
}

// While alive libtorch takes this kernel, and plain products for shapes that it does not take. That
// is said to libtorch for the whole process, so one thread at a time does so. The order as well as
// the switches: cuDNN's kernel stands behind plain products, which take everything, in the order
// that libtorch has for most GPUs, and its first choice of all puts its own order back.
class LibtorchKernel {
 public:
  explicit LibtorchKernel(AttentionKernel kernel)
      : lock_(attention_state().libtorch_switches),
        order_(context_.sDPPriorityOrder()),
        has_flash_(context_.userEnabledFlashSDP()),
        has_cudnn_(context_.userEnabledCuDNNSDP()),
        has_efficient_(context_.userEnabledMemEfficientSDP()) {
    const auto chosen = backend_of(kernel);
    auto order = order_;
    std::stable_partition(order.begin(), order.end(),
                          [&](at::SDPBackend backend) { return backend == chosen; });
    set_order(order);
    set_switches(kernel == AttentionKernel::kFlash, kernel == AttentionKernel::kCudnn,
                 kernel == AttentionKernel::kEfficient);
  }
  ~LibtorchKernel() {
    set_order(order_);
    set_switches(has_flash_, has_cudnn_, has_efficient_);
  }
  LibtorchKernel(const LibtorchKernel&) = delete;
  LibtorchKernel& operator=(const LibtorchKernel&) = delete;

 private:
  using Order = std::array<at::SDPBackend, at::num_sdp_backends>;

  void set_order(const Order& order) {
    std::vector<int64_t> numbers;
    for (const auto backend : order) numbers.push_back(static_cast<int64_t>(backend));
    context_.setSDPPriorityOrder(numbers);
  }
  void set_switches(bool flash, bool cudnn, bool efficient) {
    context_.setSDPUseFlash(flash);
    context_.setSDPUseCuDNN(cudnn);
    context_.setSDPUseMemEfficient(efficient);
  }

  at::Context& context_ = at::globalContext();
  std::lock_guard<std::mutex> lock_;
  Order order_;
  bool has_flash_, has_cudnn_, has_efficient_;
};

struct AttentionInputs {
  const at::Tensor &q, &k, &v;
  const std::optional<at::Tensor>& mask;
  double scale;
  bool runs_again;
};

at::Tensor run(const AttentionInputs& in) {
  return at::scaled_dot_product_attention(in.q, in.k, in.v, in.mask, /*dropout_p=*/0.0,
                                          /*is_causal=*/false, in.scale);
}

bool takes(AttentionKernel kernel, const AttentionInputs& in) {
  const LibtorchKernel only(kernel);
  return at::_fused_sdp_choice(in.q, in.k, in.v, in.mask, /*dropout_p=*/0.0, /*is_causal=*/false,
                               in.scale) == static_cast<int64_t>(backend_of(kernel));
}

// Seconds of the device for one call of `work`, the least of several rounds.
double seconds_on_device(const at::Device& device, const std::function<void()>& work) {
  constexpr int kWarmUps = 3, kRounds = 3, kCalls = 10;
  const auto stream = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  for (int i = 0; i < kWarmUps; ++i) work();
  double least = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    c10::Event begin(device.type(), c10::EventFlag::BACKEND_DEFAULT);
    c10::Event end(device.type(), c10::EventFlag::BACKEND_DEFAULT);
    begin.record(stream);
    for (int i = 0; i < kCalls; ++i) work();
    end.record(stream);
    end.synchronize();
    least = std::min(least, begin.elapsedTime(end) * 1e-3 / kCalls);
  }
  return least;
}

// Of the forward pass, and with gradients of the backward one too. The tensors are those of the
// call, for strides count.
double seconds_of(AttentionKernel kernel, const AttentionInputs& in, bool has_gradient) {
  const at::AutoGradMode records(has_gradient);
  const auto leaf = [&](const at::Tensor& x) { return x.detach().set_requires_grad(has_gradient); };
  const auto q = leaf(in.q), k = leaf(in.k), v = leaf(in.v);
  const AttentionInputs leaves{q, k, v, in.mask, in.scale, in.runs_again};
  try {
    return seconds_on_device(q.device(), [&] {
      const auto out = [&] {
        const LibtorchKernel only(kernel);
        return run(leaves);
      }();
      if (has_gradient) torch::autograd::grad({out}, {q, k, v}, {out.detach()});
    });
  } catch (const c10::Error& error) {
    log_warning(fmt::format("attention by {} fails and is left out: {}",
                            attention_kernel_name(kernel), error.what_without_backtrace()));
    return std::numeric_limits<double>::infinity();
  }
}

bool is_capturing(const at::Tensor& x) {
  static const auto op = find_operator<bool(const at::Tensor&)>("fovea::is_capturing");
  return has_kernel(op, x.device()) && op.call(x);
}

// Nothing: as libtorch has it.
std::optional<AttentionKernel> fastest_kernel(const AttentionInputs& in) {
  const bool has_gradient = gradients_are_to_come(in.q, in.k, in.v, in.runs_again);
  const AttentionShape shape{in.q.scalar_type(), in.q.size(0), in.q.size(1),        in.q.size(2),
                             in.k.size(2),       in.q.size(3), in.mask.has_value(), has_gradient};
  if (const auto known = attention_table().find(shape)) return known;
  if (is_capturing(in.q)) return {};
  std::vector<AttentionKernel> candidates;
  std::copy_if(kFusedKernels.begin(), kFusedKernels.end(), std::back_inserter(candidates),
               [&](AttentionKernel kernel) { return takes(kernel, in); });
  return attention_table().fastest(shape, candidates, [&](AttentionKernel kernel) {
    return seconds_of(kernel, in, has_gradient);
  });
}

std::optional<AttentionKernel> wanted_kernel(const AttentionInputs& in) {
  switch (attention_choice()) {
    case AttentionChoice::kFlash:
      return AttentionKernel::kFlash;
    case AttentionChoice::kCudnn:
      return AttentionKernel::kCudnn;
    case AttentionChoice::kEfficient:
      return AttentionKernel::kEfficient;
    case AttentionChoice::kMath:
      return AttentionKernel::kMath;
    case AttentionChoice::kAuto:
    case AttentionChoice::kOwn:
      break;
  }
  return fastest_kernel(in);
}

// See Note [Layout of attention's gradient].
at::Tensor with_gradient_as_it_lies(const at::Tensor& out) {
  if (!out.requires_grad()) return out;
  out.register_hook([strides = out.strides().vec()](const at::Tensor& gradient) {
    if (gradient.strides() == at::IntArrayRef(strides)) return gradient;
    return at::empty_strided(gradient.sizes(), strides, gradient.options()).copy_(gradient);
  });
  return out;
}

}  // namespace

// Note [Layout of attention's gradient]
// libtorch keeps the plans that cuDNN makes of a backward pass, and finds them again by the layouts
// of q, k and v, but not by that of the output's gradient: a gradient that lies otherwise than the
// first one of its shape is read by the first one's strides, past its end. So every gradient gets
// the layout of the output before the kernel sees it; nearly all have it anyway.

TORCH_LIBRARY_FRAGMENT(fovea, m) { m.def("is_capturing(Tensor x) -> bool"); }

at::Tensor gpu_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const std::optional<at::Tensor>& mask, double scale, bool runs_again) {
  const AttentionInputs in{q, k, v, mask, scale, runs_again};
  if (q.numel() == 0 || v.numel() == 0) return run(in);
  const auto kernel = wanted_kernel(in);
  if (!kernel) return with_gradient_as_it_lies(run(in));
  const LibtorchKernel only(*kernel);
  return with_gradient_as_it_lies(run(in));
}

}  // namespace fovea::kernels
