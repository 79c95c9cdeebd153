#include "fovea/train/bench/operation_log.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/trace.h"
#include "fovea/kernels/work_scope.h"
#include "fovea/train/bench/product_flops.h"

namespace fovea::train {
namespace {

constexpr const char* kOurs = "fovea";
constexpr const char* kLibtorchs = "libtorch";
constexpr const char* kAutograd = "autograd";

thread_local OperationLog* current_log = nullptr;

struct SpanBegin : at::ObserverContext {
  int64_t microseconds = 0;
};

bool is_node(const at::RecordFunction& function) {
  return function.scope() == at::RecordScope::BACKWARD_FUNCTION ||
         std::string_view(function.name()).starts_with("autograd::");
}

bool is_our_work(const at::RecordFunction& function) {
  return std::string_view(function.name()).starts_with(kernels::kWorkPrefix) &&
         function.inputs().size() == 2 && function.inputs()[0].isDouble();
}

template <class Values>
std::vector<at::Tensor> tensors_in(const Values& values) {
  std::vector<at::Tensor> tensors;
  const auto add = [&](const at::Tensor& tensor) {
    if (tensor.defined() && tensor.has_storage()) tensors.push_back(tensor);
  };
  for (const c10::IValue& value : values) {
    if (value.isTensor()) add(value.toTensor());
    if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) add(tensor);
    }
  }
  return tensors;
}

const void* storage_of(const at::Tensor& tensor) { return tensor.storage().unsafeGetStorageImpl(); }

// Of an expanded tensor only what is there.
double bytes_held(const std::vector<at::Tensor>& tensors) {
  double sum = 0;
  for (const auto& tensor : tensors) {
    sum += static_cast<double>(std::min(tensor.nbytes(), tensor.storage().nbytes()));
  }
  return sum;
}

// A view of its input, or memory without values.
bool moves_nothing(const at::RecordFunction& function, const std::vector<const void*>& in,
                   const std::vector<at::Tensor>& out) {
  const std::string_view name = function.name();
  const bool writes_input =
      name.ends_with("_") || std::string_view(function.overload_name()) == "out";
  if (name.find("empty") != std::string_view::npos) return true;
  return !writes_input && std::all_of(out.begin(), out.end(), [&](const at::Tensor& tensor) {
    return std::find(in.begin(), in.end(), storage_of(tensor)) != in.end();
  });
}

}  // namespace

OperationLog::OperationLog() {
  FOVEA_CHECK(current_log == nullptr, "the operations of this thread are logged already");
  current_log = this;
  callback_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(begin, end)
          .needsInputs(true)
          .needsOutputs(true)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

OperationLog::~OperationLog() {
  at::removeCallback(callback_);
  current_log = nullptr;
}

std::map<std::string, OperationCost> OperationLog::take() { return std::exchange(costs_, {}); }

std::unique_ptr<at::ObserverContext> OperationLog::begin(const at::RecordFunction& function) {
  auto span = std::make_unique<SpanBegin>();
  if (trace::is_on()) span->microseconds = trace::now();
  if (current_log != nullptr && !is_node(function)) current_log->start(function);
  return span;
}

void OperationLog::end(const at::RecordFunction& function, at::ObserverContext* context) {
  if (current_log != nullptr && !is_node(function)) current_log->finish(function);
  if (!trace::is_on()) return;
  const bool is_ours = std::string_view(function.name()).starts_with(kernels::kWorkPrefix);
  trace::add({.name = function.name(),
              .category = is_node(function) ? kAutograd
                          : is_ours         ? kOurs
                                            : kLibtorchs,
              .begin = static_cast<SpanBegin*>(context)->microseconds,
              .end = trace::now()});
}

// Inputs are there at the start alone. They are not held on to: whether a tensor has another owner
// decides in places whether it is written to or copied.
void OperationLog::start(const at::RecordFunction& function) {
  if (depth_++ == 0) {
    outermost_ = {};
    outermost_.is_ours = is_our_work(function);
    if (outermost_.is_ours) {
      outermost_.flops = function.inputs()[0].toDouble();
      outermost_.bytes = static_cast<double>(function.inputs()[1].toInt());
    } else {
      const auto in = tensors_in(function.inputs());
      outermost_.bytes = bytes_held(in);
      for (const auto& tensor : in) outermost_.storages.push_back(storage_of(tensor));
    }
    outermost_.begin = Clock::now();
  }
  if (!outermost_.is_ours) outermost_.flops += product_flops(function);
}

void OperationLog::finish(const at::RecordFunction& function) {
  if (--depth_ > 0) return;
  const auto end = Clock::now();
  if (!outermost_.is_ours) {
    const auto out = tensors_in(function.outputs());
    outermost_.bytes =
        moves_nothing(function, outermost_.storages, out) ? 0 : outermost_.bytes + bytes_held(out);
  }
  auto& cost = costs_[function.name()];
  cost.calls += 1;
  cost.seconds += std::chrono::duration<double>(end - outermost_.begin).count();
  cost.flops += outermost_.flops;
  cost.bytes += outermost_.bytes;
}

}  // namespace fovea::train
