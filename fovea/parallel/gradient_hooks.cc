#include "fovea/parallel/gradient_hooks.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "fovea/core/error.h"

namespace fovea::parallel {

using torch::autograd::variable_list;

GradientHooks::~GradientHooks() {
  for (const auto& remove : removals_) remove();
}

void GradientHooks::add(const at::Tensor& param, const std::string& name,
                        std::function<void()> body) {
  auto accumulator = torch::autograd::impl::grad_accumulator(param);
  FOVEA_CHECK(accumulator != nullptr, "{} is no leaf that gets a gradient", name);
  const auto key =
      accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
          [body = std::move(body)](const variable_list& outputs, const variable_list&) {
            body();
            return outputs;
          }));
  removals_.push_back(
      [accumulator = std::move(accumulator), key] { accumulator->del_post_hook(key); });
}

}  // namespace fovea::parallel
