// What a trained model sees in image files: predict RUN_DIR|WEIGHTS FILE...
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "fovea/fovea.h"

int main(int argc, char** argv) try {
  if (argc < 3) fovea::fail<fovea::ConfigError>("expected files: predict RUN_DIR FILE...");
  const auto inference = fovea::train::load_inference(argv[1]);
  const at::NoGradGuard no_grad;
  for (int i = 2; i < argc; ++i) {
    const auto samples = inference.open_files({argv[i]});
    const auto batch = inference.prepare(samples, 0, samples->size());
    const auto logits = fovea::train::forward(*inference.model, batch.tensors);  // [B, num_classes]
    const auto [scores, classes] = logits.to(at::kCPU, at::kFloat).softmax(1).max(1);
    for (int64_t b = 0; b < samples->size(); ++b) {
      const auto name = inference.class_name(classes[b].item<int64_t>());
      fmt::print("{}\t{}\t{}\n", argv[i], name, scores[b].item<double>());
    }
  }
} catch (const std::exception& error) {
  fmt::print(stderr, "error: {}\n", error.what());
  return 1;
}
