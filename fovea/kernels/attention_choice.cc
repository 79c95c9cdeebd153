#include "fovea/kernels/attention_choice.h"

#include <ATen/Context.h>

#include <array>
#include <atomic>
#include <string_view>
#include <utility>

#include "fovea/core/error.h"

namespace fovea::kernels {
namespace {

std::atomic<AttentionChoice> chosen_attention{AttentionChoice::kAuto};

constexpr std::array<std::pair<std::string_view, AttentionChoice>, 5> kAttentionNames = {{
    {"auto", AttentionChoice::kAuto},
    {"own", AttentionChoice::kOwn},
    {"flash", AttentionChoice::kFlash},
    {"cudnn", AttentionChoice::kCudnn},
    {"math", AttentionChoice::kMath},
}};

AttentionChoice choice_of(const std::string& name) {
  for (const auto& [known, choice] : kAttentionNames) {
    if (name == known) return choice;
  }
  fail<ConfigError>("attention '{}' is unknown; expected auto, own, flash, cudnn or math", name);
}

// libtorch's own choice on a GPU: of the kernels left in, the first that takes the shapes. Plain
// products take all.
void choose_in_libtorch(AttentionChoice choice) {
  auto& context = at::globalContext();
  const bool is_free = choice == AttentionChoice::kAuto;
  context.setSDPUseFlash(is_free || choice == AttentionChoice::kFlash);
  context.setSDPUseCuDNN(is_free || choice == AttentionChoice::kCudnn);
  context.setSDPUseMemEfficient(is_free);
  context.setSDPUseMath(true);
}

}  // namespace

void choose_attention(const std::string& name, const c10::Device& device) {
  const auto choice = choice_of(name);
  if (choice == AttentionChoice::kOwn && !device.is_cpu()) {
    fail<ConfigError>(
        "attention 'own' is there for the CPU alone, and the device is {}; expected auto, flash, "
        "cudnn or math",
        device.str());
  }
  if (choice == AttentionChoice::kCudnn && device.is_cpu()) {
    fail<ConfigError>(
        "attention 'cudnn' needs a GPU, and the device is cpu; expected auto, own, flash or math");
  }
  if (device.is_cuda()) choose_in_libtorch(choice);
  chosen_attention = choice;
}

AttentionChoice attention_choice() { return chosen_attention; }

}  // namespace fovea::kernels
