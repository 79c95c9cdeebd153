#include "fovea/kernels/recorded_pass.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ne.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "fovea/core/error.h"
#include "fovea/kernels/linear/weight_copies.h"

namespace fovea::kernels {
namespace {

thread_local PassRecorder* current_recorder = nullptr;

void add_tensors_of(const c10::IValue& value, std::vector<at::Tensor>& to) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) to.push_back(value.toTensor());
  } else if (value.isTensorList()) {
    for (const auto& one : value.toTensorVector()) to.push_back(one);
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<at::Tensor> one : value.toOptionalTensorList()) {
      if (one && one->defined()) to.push_back(*one);
    }
  }
}

// In order, those in lists as well.
std::vector<at::Tensor> tensors_among(at::ArrayRef<c10::IValue> values) {
  std::vector<at::Tensor> found;
  for (const auto& value : values) add_tensors_of(value, found);
  return found;
}

// Nothing where there is something else among them.
std::optional<std::vector<at::Tensor>> tensors_of(at::ArrayRef<c10::IValue> values) {
  const bool are_tensors = std::all_of(values.begin(), values.end(), [](const auto& value) {
    return value.isTensor() || value.isTensorList();
  });
  return are_tensors ? std::optional(tensors_among(values)) : std::nullopt;
}

// Whether x lies in the memory of one of them.
bool is_part_of(const at::Tensor& x, const std::vector<at::Tensor>& others) {
  return std::any_of(others.begin(), others.end(), [&](const at::Tensor& other) {
    return x.has_storage() && other.has_storage() && other.storage().is_alias_of(x.storage());
  });
}

// An operator on its way, outside of any other.
struct Call : at::ObserverContext {
  c10::OperatorHandle op;
  std::vector<c10::IValue> inputs;

  Call(c10::OperatorHandle op_in, at::ArrayRef<const c10::IValue> inputs_in)
      : op(std::move(op_in)), inputs(inputs_in.begin(), inputs_in.end()) {}
};

// One within another one.
struct InnerCall : at::ObserverContext {};

bool only_takes_memory(const std::string& name) {
  return name.starts_with("aten::empty") || name.starts_with("aten::new_empty");
}

void copy_all(const std::vector<at::Tensor>& from, const std::vector<at::Tensor>& to) {
  for (size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
}

bool have_same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() && a.is_contiguous() &&
         b.is_contiguous() && std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

}  // namespace

PassRecorder* pass_recorder() { return current_recorder; }

RecordingPause::RecordingPause()
    : before_(std::exchange(current_recorder, nullptr)), pool_(nullptr) {}

RecordingPause::~RecordingPause() { current_recorder = before_; }

void PassRecorder::run(std::function<void()> step) {
  {
    const RecordingPause pause;
    step();
  }
  pass_.steps_.push_back(std::move(step));
}

void PassRecorder::depend_on(const at::Tensor& weight) {
  if (weight.is_inference()) return refuse("versions of inference tensors are not counted");
  auto& weights = pass_.weights_;  // several kernels ask for one
  const auto is_it = [&](const auto& known) { return known.values.is_same(weight); };
  if (std::any_of(weights.begin(), weights.end(), is_it)) return;
  weights.push_back({weight, weight._version()});
}

void PassRecorder::refuse(std::string why) {
  if (why_not_.empty()) why_not_ = std::move(why);
}

// While alive, what its thread does is recorded.
class RecordingScope {
 public:
  explicit RecordingScope(RecordedPass& pass) : recorder_(pass), pool_(pass.pool_.get()) {
    current_recorder = &recorder_;
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&begin, &end)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({at::RecordScope::FUNCTION}));
  }
  ~RecordingScope() {
    at::removeCallback(handle_);
    current_recorder = nullptr;
  }
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;

  const std::string& why_not() const { return recorder_.why_not_; }

 private:
  // libtorch goes on without a callback that fails, but what it did not note ends the recording.
  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) try {
    return current_recorder ? context_of(function) : nullptr;
  } catch (const std::exception& error) {
    current_recorder->refuse(error.what());
    return nullptr;
  }

  static void end(const at::RecordFunction& function, at::ObserverContext* context) try {
    if (!context || !current_recorder) return;
    if (--current_recorder->depth_ > 0) return;
    note(*current_recorder, static_cast<const Call&>(*context), function.outputs());
  } catch (const std::exception& error) {
    current_recorder->refuse(error.what());
  }

  // Only operators of libtorch: work of ours has a name alone, or is made of these.
  static std::unique_ptr<at::ObserverContext> context_of(const at::RecordFunction& function) {
    const auto name = function.operator_name();
    if (!name || name->name.starts_with("fovea::")) return nullptr;
    if (current_recorder->depth_++ > 0) return std::make_unique<InnerCall>();
    return std::make_unique<Call>(c10::Dispatcher::singleton().findSchemaOrThrow(
                                      name->name.c_str(), name->overload_name.c_str()),
                                  function.inputs());
  }

  static void note(PassRecorder& recorder, const Call& call,
                   const std::vector<c10::IValue>& outputs) {
    auto& pass = recorder.pass_;
    const auto& schema = call.op.schema();
    const auto made = tensors_of(outputs);
    if (!made) return recorder.refuse(schema.name() + " gives something else than tensors");
    if (!pass.has_pool()) pass.hold(*made);
    if (only_takes_memory(schema.name())) return;
    if (schema.is_mutable()) {
      pass.steps_.emplace_back([op = call.op, inputs = call.inputs] {
        auto stack = inputs;
        op.callBoxed(stack);
      });
      return;
    }
    const auto given = tensors_among(call.inputs);
    const bool are_views = std::all_of(made->begin(), made->end(), [&](const at::Tensor& x) {
      return !x.defined() || is_part_of(x, given);
    });
    if (are_views) return;
    if (pass.are_constant(given)) {
      pass.constants_.insert(pass.constants_.end(), made->begin(), made->end());
      for (const auto& x : given) recorder.depend_on(x);
      return;
    }
    pass.steps_.emplace_back([op = call.op, inputs = call.inputs, to = *made] {
      auto stack = inputs;
      op.callBoxed(stack);
      copy_all(*tensors_of(stack), to);
    });
  }

  PassRecorder recorder_;
  CpuMemoryPoolScope pool_;
  at::CallbackHandle handle_;
};

RecordedPass::RecordedPass() : arrangement_(weight_arrangement()) {}

RecordedPass::~RecordedPass() = default;

bool RecordedPass::has_pool() const { return bytes() > 0; }

void RecordedPass::hold(const std::vector<at::Tensor>& tensors) {
  held_.insert(held_.end(), tensors.begin(), tensors.end());
}

// What was there before the pass and does not come in with it, and what is made of that alone.
bool RecordedPass::are_constant(const std::vector<at::Tensor>& tensors) const {
  return std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor& x) {
    if (is_part_of(x, constants_)) return true;
    const bool is_of_pass = has_pool() ? pool_->has(x.const_data_ptr()) : is_part_of(x, held_);
    return !is_of_pass && !is_part_of(x, {input_});
  });
}

RecordedPass::Recording RecordedPass::record(const at::Tensor& input, Forward forward) {
  FOVEA_CHECK(input.is_cpu() && input.is_floating_point() && !at::GradMode::is_enabled(),
              "a pass that is recorded has an input of numbers on the CPU, and no gradients");
  std::unique_ptr<RecordedPass> pass(new RecordedPass);
  {
    const CpuMemoryPoolScope in_pool(pass->pool_.get());
    pass->input_ = at::empty(input.sizes(), input.options());
    pass->input_.copy_(input);
  }
  std::string why_not;
  {
    const RecordingScope scope(*pass);
    pass->output_ = forward(pass->input_);
    why_not = scope.why_not();
  }
  auto result = pass->output_.clone();  // the pool ends with the pass
  if (why_not.empty() && !pass->output_.is_contiguous()) why_not = "its result is a view";
  if (!why_not.empty()) pass.reset();
  return {std::move(result), std::move(pass), std::move(why_not)};
}

at::Tensor RecordedPass::confirm(const at::Tensor& input, Forward forward) {
  auto result = forward(input);
  // An old result looks right where values are much those that were recorded, or NaN hides them.
  const bool is_other = 2 * at::ne(input, input_).sum().item<int64_t>() > input.numel() &&
                        result.isfinite().all().item<bool>();
  const auto other = is_other ? input
                              : at::arange(input.numel(), input.options().dtype(at::kFloat))
                                    .sin_()
                                    .view(input.sizes())
                                    .to(input.scalar_type());
  is_confirmed_ = have_same_bits(do_again(other), is_other ? result : forward(other));
  return result;
}

at::Tensor RecordedPass::replay(const at::Tensor& input) const {
  FOVEA_CHECK(is_confirmed_, "a recorded pass is confirmed before it is replayed");
  return do_again(input);
}

at::Tensor RecordedPass::do_again(const at::Tensor& input) const {
  const at::NoGradGuard no_grad;
  input_.copy_(input);
  for (const auto& step : steps_) step();
  return output_.clone();
}

bool RecordedPass::is_current() const {
  return arrangement_ == weight_arrangement() &&
         std::all_of(weights_.begin(), weights_.end(), [](const Weight& weight) {
           return weight.values._version() == weight.version;
         });
}

}  // namespace fovea::kernels
