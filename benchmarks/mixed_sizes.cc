// Training steps on images of mixed sizes: packed into one sequence, and padded to the largest
// grid.
//
//   bench_mixed_sizes MODEL DTYPE THREADS BATCH MIN_PATCHES MAX_PATCHES ROUNDS STEPS
// Aspect ratios are drawn log-uniformly from 1:2 to 2:1, and for each image the number of patches
// it may have from MIN_PATCHES to MAX_PATCHES. Both ways see the same images of noise, by turns in
// one process. Prints one JSON object.
#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fovea/core/cpu_time.h"
#include "fovea/core/error.h"
#include "fovea/data/transforms/image/resize_to_patches.h"
#include "fovea/models/registry.h"
#include "fovea/optim/adamw.h"
#include "fovea/train/session.h"
#include "fovea/train/step/step.h"

namespace fovea::train {
namespace {

using nlohmann::json;

struct MixArguments {
  std::string model, dtype;
  int64_t threads = 0, batch = 0, min_patches = 0, max_patches = 0, rounds = 0, steps = 0;
};

// Noise of as many sizes as images: [1, C, H, W] each.
std::vector<at::Tensor> images_of(const MixArguments& arguments, const models::VitConfig& vit) {
  RandomStream random(philox_key(1, "mixed sizes"), 0);
  const auto patch = vit.patch_size[0];
  std::vector<at::Tensor> images;
  for (int64_t i = 0; i < arguments.batch; ++i) {
    const double stretch = std::exp2(random.uniform(-0.5, 0.5));
    const data::ImageSize photo{std::llround(1000 * stretch), std::llround(1000 / stretch)};
    const auto choices = static_cast<uint32_t>(arguments.max_patches - arguments.min_patches + 1);
    const auto grid = data::patch_grid({.patch_size = patch}, photo,
                                       arguments.min_patches + random.below(choices));
    images.push_back(at::randn({1, vit.in_chans, grid.height * patch, grid.width * patch}));
  }
  return images;
}

models::PackedImages packed_of(const std::vector<at::Tensor>& images, int64_t patch_size) {
  models::PackedImages packed;
  std::vector<at::Tensor> patches;
  for (const auto& image : images) {
    auto one = models::pack_images(image, patch_size);
    patches.push_back(one.patches);
    packed.grids.push_back(one.grids.front());
  }
  packed.patches = at::cat(patches, 1);
  return packed;
}

// Zeros below and to the right, up to the largest sides.
at::Tensor padded_of(const std::vector<at::Tensor>& images) {
  int64_t height = 0, width = 0;
  for (const auto& image : images) {
    height = std::max(height, image.size(2));
    width = std::max(width, image.size(3));
  }
  const auto count = static_cast<int64_t>(images.size());
  const auto padded = at::zeros({count, images.front().size(1), height, width});
  for (int64_t i = 0; i < count; ++i) {
    const auto& image = images[static_cast<size_t>(i)];
    padded[i].narrow(1, 0, image.size(2)).narrow(2, 0, image.size(3)).copy_(image[0]);
  }
  return padded;
}

// A training of one model on the same batch again and again.
class MixJob {
 public:
  MixJob(const MixArguments& arguments, bool is_packed) {
    config_.model = models::named_config(arguments.model);
    auto vit = *config_.model.get_if<models::VitConfig>();
    vit.patching = is_packed ? "packed" : "grid";
    vit.dynamic_img_size = true;
    config_.model = {vit};
    config_.optim = {optim::AdamWConfig{}};
    config_.device = {.type = "cpu", .dtype = arguments.dtype, .threads = arguments.threads};
    config_.trainer.max_grad_norm = 0;
    options_ = step_options(config_);
    model_ = make_model(config_, options_.compute);
    task_ = make_task(config_.task, *model_);
    optimizer_ = make_optimizer(config_, *model_);
    const auto images = images_of(arguments, vit);
    batch_.rows = batch_.indices = at::arange(arguments.batch);
    batch_.labels = at::arange(arguments.batch) % vit.num_classes;
    if (is_packed) {
      batch_.packed = packed_of(images, vit.patch_size[0]);
      batch_.packed.patches = batch_.packed.patches.to(options_.compute.dtype);
      tokens_ = batch_.packed.patches.size(1);
    } else {
      batch_.images = padded_of(images).to(options_.compute.dtype);
      const auto patch = vit.patch_size[0];
      tokens_ = batch_.images.size(2) / patch * (batch_.images.size(3) / patch) * arguments.batch;
    }
  }

  int64_t tokens() const { return tokens_; }

  // -> processor time of a step, in ms.
  double measure(int64_t steps) {
    const double start = cpu_seconds();
    for (int64_t i = 0; i < steps; ++i) {
      const StepParts parts{
          .model = *model_, .task = *task_, .optimizer = *optimizer_, .options = options_};
      const StepInput batch{.size = batch_.rows.size(0),
                            .position = 0,
                            .tensors = [this](int64_t, int64_t) { return batch_; }};
      apply_step(parts, prepare_step(parts, batch, step_++), /*lr=*/1e-3);
    }
    return 1e3 * (cpu_seconds() - start) / static_cast<double>(steps);
  }

 private:
  TrainConfig config_;
  StepOptions options_;
  models::ModelPtr model_;
  std::unique_ptr<Task> task_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  TensorBatch batch_;
  int64_t tokens_ = 0, step_ = 0;
};

MixArguments parse_mix(int argc, char** argv) {
  if (argc != 9) {
    fail<ConfigError>(
        "usage: {} MODEL DTYPE THREADS BATCH MIN_PATCHES MAX_PATCHES ROUNDS STEPS; found {} "
        "arguments",
        argv[0], argc - 1);
  }
  return {.model = argv[1],
          .dtype = argv[2],
          .threads = std::stoll(argv[3]),
          .batch = std::stoll(argv[4]),
          .min_patches = std::stoll(argv[5]),
          .max_patches = std::stoll(argv[6]),
          .rounds = std::stoll(argv[7]),
          .steps = std::stoll(argv[8])};
}

void measure_mix(const MixArguments& arguments) {
  MixJob packed(arguments, true), padded(arguments, false);
  packed.measure(1);
  padded.measure(1);
  json rounds = json::array();
  for (int64_t round = 0; round < arguments.rounds; ++round) {
    double packed_ms = 0, padded_ms = 0;
    if (round % 2 == 0) packed_ms = packed.measure(arguments.steps);
    padded_ms = padded.measure(arguments.steps);
    if (round % 2 == 1) packed_ms = packed.measure(arguments.steps);
    rounds.push_back({{"packed_cpu_ms", packed_ms}, {"padded_cpu_ms", padded_ms}});
  }
  std::cout << json{{"packed_tokens", packed.tokens()},
                    {"padded_tokens", padded.tokens()},
                    {"rounds", rounds}}
                   .dump()
            << std::endl;
}

}  // namespace
}  // namespace fovea::train

int main(int argc, char** argv) {
  try {
    fovea::train::measure_mix(fovea::train::parse_mix(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
