#include "fovea/kernels/attention/attention_choice.h"

#include <ATen/core/grad_mode.h>

#include <array>
#include <string_view>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/kernels/attention/attention_state.h"

namespace fovea::kernels {
namespace {

constexpr std::array<std::pair<std::string_view, AttentionChoice>, 6> kAttentionNames = {{
    {"auto", AttentionChoice::kAuto},
    {"own", AttentionChoice::kOwn},
    {"flash", AttentionChoice::kFlash},
    {"cudnn", AttentionChoice::kCudnn},
    {"efficient", AttentionChoice::kEfficient},
    {"math", AttentionChoice::kMath},
}};

AttentionChoice choice_of(const std::string& name) {
  for (const auto& [known, choice] : kAttentionNames) {
    if (name == known) return choice;
  }
  fail<ConfigError>(
      "attention '{}' is unknown; expected auto, own, flash, cudnn, efficient or math", name);
}

}  // namespace

void choose_attention(const std::string& name, const c10::Device& device) {
  const auto choice = choice_of(name);
  if (choice == AttentionChoice::kOwn && !device.is_cpu()) {
    fail<ConfigError>(
        "attention 'own' is there for the CPU alone, and the device is {}; expected auto, flash, "
        "cudnn, efficient or math",
        device.str());
  }
  const bool is_of_gpu = choice == AttentionChoice::kCudnn || choice == AttentionChoice::kEfficient;
  if (is_of_gpu && device.is_cpu()) {
    fail<ConfigError>(
        "attention '{}' needs a GPU, and the device is cpu; expected auto, own, flash or math",
        name);
  }
  attention_state().choice = choice;
}

AttentionChoice attention_choice() { return attention_state().choice; }

bool gradients_are_to_come(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           bool runs_again) {
  const bool takes_them = q.requires_grad() || k.requires_grad() || v.requires_grad();
  return runs_again || (at::GradMode::is_enabled() && takes_them);
}

}  // namespace fovea::kernels
