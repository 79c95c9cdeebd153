#include "tests/support/operator_tape.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "fovea/core/error.h"

namespace fovea::support {
namespace {

// Below autograd, above every back end, and free: nothing here fakes tensors.
constexpr auto kTapeKey = c10::DispatchKey::Fake;

OperatorTape* recording_tape = nullptr;

constexpr std::array<std::string_view, 8> kWaiting = {"aten::_local_scalar_dense",
                                                      "aten::item",
                                                      "aten::is_nonzero",
                                                      "aten::equal",
                                                      "aten::nonzero",
                                                      "aten::_unique2",
                                                      "aten::masked_select",
                                                      "aten::unique_dim"};

// They give memory, and nothing is computed.
bool is_allocation(std::string_view name) {
  return name.starts_with("aten::empty") || name.starts_with("aten::new_empty");
}

void note_on_tape(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
  recording_tape->note(op, keys, stack);
}

void register_tape() {
  static const auto* library = [] {
    auto* made = new torch::Library(torch::Library::IMPL, "_", kTapeKey, __FILE__, __LINE__);
    made->fallback(torch::CppFunction::makeFromBoxedFunction<&note_on_tape>());
    return made;
  }();
  (void)library;
}

void for_each_tensor(const c10::IValue& value, const std::function<void(const at::Tensor&)>& use) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) use(value.toTensor());
  } else if (value.isTensorList()) {
    for (const auto& x : value.toTensorVector()) use(x);
  } else if (value.isOptionalTensorList()) {
    for (const auto& x : value.toOptionalTensorVector()) {
      if (x && x->defined()) use(*x);
    }
  }
}

std::vector<at::Tensor> tensors_of(const torch::jit::Stack& values) {
  std::vector<at::Tensor> result;
  for (const auto& value : values) {
    for_each_tensor(value, [&](const at::Tensor& x) { result.push_back(x); });
  }
  return result;
}

// What is computed anew goes where the noted result lies; what is a view lies there.
void write_results(const c10::OperatorHandle& op, const torch::jit::Stack& noted,
                   const torch::jit::Stack& anew) {
  const auto to = tensors_of(noted), from = tensors_of(anew);
  FOVEA_CHECK(to.size() == from.size(), "tape: {} gives {} tensors, noted were {}",
              op.schema().name(), from.size(), to.size());
  for (size_t i = 0; i < to.size(); ++i) {
    if (from[i].storage().unsafeGetStorageImpl() == to[i].storage().unsafeGetStorageImpl()) {
      continue;
    }
    FOVEA_CHECK(from[i].sizes() == to[i].sizes(), "tape: {} gives another shape than was noted",
                op.schema().name());
    to[i].copy_(from[i]);
  }
}

}  // namespace

OperatorTape::OperatorTape() { register_tape(); }

void OperatorTape::record(const std::function<void()>& work) {
  FOVEA_CHECK(!recording_tape && calls_.empty(), "tape: one recording, one at a time");
  struct Scope {
    explicit Scope(OperatorTape& tape) : tape(tape) { recording_tape = &tape; }
    ~Scope() {
      recording_tape = nullptr;
      tape.put_back();
    }
    OperatorTape& tape;
  } scope(*this);
  const c10::impl::IncludeDispatchKeyGuard guard(kTapeKey);
  work();
}

void OperatorTape::aside(const std::function<void()>& work) {
  const c10::impl::ExcludeDispatchKeyGuard guard(kTapeKey);
  work();
}

void OperatorTape::note(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                        torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard guard(kTapeKey);
  const auto& name = op.schema().name();
  FOVEA_CHECK(std::find(kWaiting.begin(), kWaiting.end(), name) == kWaiting.end(),
              "tape: {} has the host wait for the device", name);
  const auto num_arguments = static_cast<int64_t>(op.schema().arguments().size());
  const torch::jit::Stack arguments(stack->end() - num_arguments, stack->end());
  if (!is_allocation(name)) keep_before(op, arguments);
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kTapeKey), stack);
  const auto num_results = static_cast<int64_t>(op.schema().returns().size());
  const torch::jit::Stack results(stack->end() - num_results, stack->end());
  std::set<const c10::StorageImpl*> given;
  for (const auto& x : tensors_of(arguments)) given.insert(x.storage().unsafeGetStorageImpl());
  for (const auto& x : tensors_of(results)) {
    if (given.contains(x.storage().unsafeGetStorageImpl())) continue;
    made_.insert(x.storage().unsafeGetStorageImpl());
    alive_.push_back(x.storage());
  }
  if (!is_allocation(name)) calls_.push_back({op, arguments, results});
}

// Of what an operator writes to and was there before the recording.
void OperatorTape::keep_before(const c10::OperatorHandle& op, const torch::jit::Stack& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto* alias = op.schema().arguments()[i].alias_info();
    if (!alias || !alias->isWrite()) continue;
    for_each_tensor(arguments[i], [&](const at::Tensor& x) {
      auto* storage = x.storage().unsafeGetStorageImpl();
      if (made_.contains(storage) || before_.contains(storage)) return;
      const auto* data = static_cast<const char*>(storage->data());
      before_[storage].assign(data, data + storage->nbytes());
      alive_.push_back(x.storage());
    });
  }
}

void OperatorTape::put_back() {
  for (const auto& [storage, bytes] : before_) {
    std::memcpy(storage->mutable_data(), bytes.data(), bytes.size());
  }
  before_.clear();
  made_.clear();
}

void OperatorTape::replay() {
  const at::AutoDispatchBelowADInplaceOrView guard;
  for (const auto& call : calls_) {
    auto stack = call.arguments;
    call.op.callBoxed(stack);
    write_results(call.op, call.results, stack);
  }
}

}  // namespace fovea::support
