#include "fovea/nn/unit.h"

#include "fovea/core/error.h"
#include "fovea/nn/forward_context.h"

namespace fovea::nn {
namespace {

std::string join(const std::string& path, const std::string& name) {
  if (path.empty()) return name;
  return name.empty() ? path : path + "." + name;
}

}  // namespace

void UnitImpl::record(const std::string& name, const at::Tensor& x) const {
  if (is_recorded(name)) forward_context().recorder->kept.emplace_back(join(path_, name), x);
}

bool UnitImpl::is_recorded(const std::string& name) const {
  const auto* recorder = forward_context().recorder;
  if (!recorder) return false;
  const auto full_name = join(path_, name);
  if (full_name.empty()) return false;  // the model's own output
  return recorder->wanted.empty() || recorder->wants_by_name(full_name);
}

kernels::DropKey UnitImpl::drop_key(const std::string& name) const {
  auto key = sample_drop_key(name);
  if (!drop_parts) return key;
  const auto parts = drop_parts->find(name);
  FOVEA_CHECK(parts != drop_parts->end(),
              "drop layer {} is not declared, and the tokens, heads or hidden features of its unit "
              "are shared out over processes, which then would draw masks of the wrong elements; "
              "expected declare_drop(\"{}\", DropOf::...) in the constructor of the unit, or "
              "sample_drop_key for one decision a sample",
              join(path_, name), name);
  key.parts = parts->second;
  return key;
}

kernels::DropKey UnitImpl::sample_drop_key(const std::string& name) const {
  const auto full_name = join(path_, name);
  const auto& step = forward_context().step;
  FOVEA_CHECK(step.has_value(),
              "drop layer {} runs in training outside a training step; expected a StepScope with "
              "the seed, the step and the rows of the batch, or eval()",
              full_name);
  return {.key = philox_key(step->seed, full_name),
          .step = step->step,
          .rows = step->rows,
          .offsets = step->offsets,
          .stamp = step->stamp,
          .host_stamp = step->host_stamp};
}

at::Tensor UnitImpl::dropout(const at::Tensor& x, double rate, const char* name) const {
  return is_training() && rate > 0 ? kernels::dropout(x, rate, drop_key(name)) : x;
}

at::Tensor UnitImpl::drop_path_mask(const at::Tensor& x, double rate, const char* name) const {
  if (!is_training() || rate == 0) return {};
  return kernels::drop_path_mask(x, rate, sample_drop_key(name));
}

bool UnitImpl::is_watched() const {
  return !before_forward.empty() || !after_forward.empty() || !on_output.empty() ||
         !around_forward.empty() || is_recorded("");
}

at::Tensor UnitImpl::run_around(UnitForward forward, const std::vector<at::Tensor>& inputs) const {
  for (const auto& around : around_forward) {
    forward = [&around, inner = std::move(forward)](const std::vector<at::Tensor>& given) {
      return around(inner, given);
    };
  }
  return forward(inputs);
}

UnitsByPath units_of(torch::nn::Module& root) {
  UnitsByPath units("Unit");
  if (auto* unit = dynamic_cast<UnitImpl*>(&root)) units.insert("", unit);
  for (const auto& item : root.named_modules(/*name_prefix=*/"", /*include_self=*/false)) {
    auto* unit = dynamic_cast<UnitImpl*>(item.value().get());
    if (unit) units.insert(item.key(), unit);
  }
  return units;
}

void assign_names(torch::nn::Module& root) {
  for (const auto& unit : units_of(root)) unit.value()->set_path(unit.key());
}

}  // namespace fovea::nn
