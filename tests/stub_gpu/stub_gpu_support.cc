// Operators: each has its tensors as ones of the CPU in the same memory.
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "tests/stub_gpu/stub_device.h"
#include "tests/stub_gpu/stub_gpu.h"

namespace fovea::stub_gpu {
namespace {

constexpr c10::DispatchKeySet kCudaKeys(c10::DispatchKey::CUDA);

std::mutex operators_mutex;
std::vector<std::string> operators;

c10::Device with_index(std::optional<c10::Device> device) {
  return device && device->has_index() ? *device : gpu(current_device());
}

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout> /*layout*/, std::optional<c10::Device> device,
                 std::optional<bool> /*pin_memory*/, std::optional<at::MemoryFormat> format) {
  const DeviceScope scope(with_index(device));
  return at::detail::empty_generic(size, device_allocator(), kCudaKeys, dtype.value_or(at::kFloat),
                                   format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout> /*layout*/,
                         std::optional<c10::Device> device, std::optional<bool> /*pin_memory*/) {
  const DeviceScope scope(with_index(device));
  return at::detail::empty_strided_generic(size, stride, device_allocator(), kCudaKeys,
                                           dtype.value_or(at::kFloat));
}

at::Tensor tensor_in(c10::Storage storage, c10::DispatchKey key, const at::Tensor& like) {
  auto x = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key),
                                                    like.dtype());
  x.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(),
                                                 like.storage_offset());
  return x;
}

// The tensors of a call, there and here.
class Call {
 public:
  void to_host(c10::IValue& value) {
    if (value.isTensor()) {
      value = on_host(value.toTensor());
    } else if (value.isTensorList()) {
      auto list = value.toTensorList().copy();
      for (size_t i = 0; i < list.size(); ++i) list.set(i, on_host(list.get(i)));
      value = list;
    } else if (value.isOptionalTensorList()) {
      auto list = value.toOptionalTensorList().copy();
      for (size_t i = 0; i < list.size(); ++i) {
        const std::optional<at::Tensor> x = list.get(i);
        if (x) list.set(i, on_host(*x));
      }
      value = list;
    } else if (value.isDevice() && value.toDevice().is_cuda()) {
      device_ = with_index(value.toDevice());
      value = c10::Device(c10::kCPU);
    }
  }

  void to_device(c10::IValue& value) const {
    if (value.isTensor()) {
      value = on_device(value.toTensor());
    } else if (value.isTensorList()) {
      auto list = value.toTensorList().copy();
      for (size_t i = 0; i < list.size(); ++i) list.set(i, on_device(list.get(i)));
      value = list;
    }
  }

 private:
  struct Pair {
    at::Tensor there, here;
  };

  at::Tensor on_host(const at::Tensor& x) {
    if (!x.defined() || !x.is_cuda()) {
      if (x.defined()) own_.push_back(x);
      return x;
    }
    device_ = x.device();
    const auto& storage = x.storage();
    c10::Storage host(c10::Storage::use_byte_size_t(), storage.nbytes(),
                      at::DataPtr(storage.mutable_data(), c10::Device(c10::kCPU)), nullptr,
                      /*resizable=*/false);
    pairs_.push_back({x, tensor_in(std::move(host), c10::DispatchKey::CPU, x)});
    return pairs_.back().here;
  }

  at::Tensor on_device(const at::Tensor& x) const {
    if (!x.defined()) return x;
    for (const auto& own : own_) {
      if (x.is_same(own)) return x;
    }
    for (const auto& [there, here] : pairs_) {
      if (x.is_same(here)) return there;
    }
    for (const auto& [there, here] : pairs_) {  // a view
      if (x.storage().nbytes() > 0 && x.storage().data() == here.storage().data()) {
        return tensor_in(there.storage(), c10::DispatchKey::CUDA, x);
      }
    }
    const auto dense = x.is_non_overlapping_and_dense() ? x : x.contiguous();
    const auto there =
        empty_strided(dense.sizes(), dense.strides(), dense.scalar_type(), {}, device_, {});
    if (dense.nbytes() > 0) {
      std::memcpy(there.mutable_data_ptr(), dense.const_data_ptr(), dense.nbytes());
    }
    return there;
  }

  std::optional<c10::Device> device_;
  std::vector<Pair> pairs_;
  std::vector<at::Tensor> own_;  // of the host
};

void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const at::AutoDispatchBelowADInplaceOrView below;
  note_operator(op.schema().name());
  Call call;
  const auto num_arguments = op.schema().arguments().size();
  for (auto value = stack->end() - static_cast<int64_t>(num_arguments); value != stack->end();
       ++value) {
    call.to_host(*value);
  }
  op.callBoxed(stack);
  const auto num_results = op.schema().returns().size();
  for (auto value = stack->end() - static_cast<int64_t>(num_results); value != stack->end();
       ++value) {
    call.to_device(*value);
  }
}

// The CPU's takes no gradient of a skip.
void layer_norm_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto dskip = torch::jit::pop(*stack);
  stack->emplace_back();
  run_on_host(op, stack);  // dx, dweight, dbias, sums of dx
  if (dskip.isNone()) return;
  const auto first = stack->end() - 4;
  const at::Tensor dx = first[0].toTensor().add(dskip.toTensor());
  first[0] = dx;
  first[3] = dx.to(at::kFloat).sum(0);
}

// No kernel of attention but libtorch's products.
void choose_attention(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  torch::jit::drop(*stack, op.schema().arguments().size());
  stack->emplace_back(int64_t{0});
}

void record_stream(at::Tensor& /*x*/, at::Stream /*stream*/) {}

}  // namespace

TORCH_LIBRARY_IMPL(_, CUDA, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("record_stream", record_stream);
  m.impl("_fused_sdp_choice", torch::CppFunction::makeFromBoxedFunction<&choose_attention>());
  m.impl("copy_", torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

// Those of the module that the CPU has too.
TORCH_LIBRARY_IMPL(fovea, CUDA, m) {
  for (const auto* name : {"adamw_step", "clip_state", "drop_mask", "layer_norm", "residual",
                           "residual_backward", "sum_rows"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
  }
  m.impl("layer_norm_backward", torch::CppFunction::makeFromBoxedFunction<&layer_norm_backward>());
}

void note_operator(const std::string& name) {
  const std::lock_guard lock(operators_mutex);
  operators.push_back(name);
}

std::vector<std::string> take_operators() {
  const std::lock_guard lock(operators_mutex);
  return std::exchange(operators, {});
}

}  // namespace fovea::stub_gpu
