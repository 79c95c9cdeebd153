// Times a list of volume transforms on one thread, for volume_transforms.py:
//   bench_volume_transforms YAML SIZE CHANNELS HAS_MASK STEPS
// YAML is the list, as in a recipe. What is timed is VolumePipeline::apply: the check for NaN, the
// transforms, and the copy into the batch. Prints the milliseconds of each step as a JSON list.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/data/order/augmentation_stream.h"
#include "fovea/data/transforms/image/pipeline.h"
#include "fovea/data/transforms/volume/volume_pipeline.h"
#include "fovea/data/transforms/volume/volume_view.h"

namespace {

using fovea::data::Sample;

struct TransformList {
  std::vector<fovea::data::VolumeTransformConfig> transforms = {};
  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("transforms", self.transforms, "what is timed");
  }
};

// Noise on a slope, and a block of foreground in the middle.
Sample make_sample(int64_t side, int64_t channels, bool has_mask) {
  Sample sample;
  sample.become<fovea::data::Volume>() = {channels, {side, side, side}, {1, 1, 1}, {}};
  fovea::RandomStream random(fovea::philox_key(1, "benchmark"), 0);
  const int64_t voxels = side * side * side;
  for (int64_t i = 0; i < channels * voxels; ++i) {
    sample.volume().values.push_back(random.uniform() + static_cast<float>(i % side) * 0.01f);
  }
  if (!has_mask) return sample;
  sample.mask.size = sample.volume().size;
  for (int64_t i = 0; i < voxels; ++i) {
    const int64_t z = i / (side * side), x = i % side;
    sample.mask.classes.push_back(z > side / 3 && z < side / 2 && x > side / 3 && x < side / 2);
  }
  return sample;
}

std::vector<double> time_steps(const fovea::data::VolumePipeline& pipeline, const Sample& sample,
                               int64_t steps) {
  using Clock = std::chrono::steady_clock;
  fovea::data::VolumeScratch scratch;
  const auto random_of = [](int64_t i) { return fovea::data::augmentation_stream(1, 0, i); };
  const auto known = pipeline.output_size(sample.volume().size);
  const auto size =
      known ? *known
            : fovea::data::size_of(pipeline.run(sample, random_of(0), scratch).values.size);
  std::vector<float> out(static_cast<size_t>(pipeline.in_chans() * size.voxels()));
  std::vector<int32_t> mask(sample.mask.classes.empty() ? 0 : static_cast<size_t>(size.voxels()));
  std::vector<double> milliseconds;
  for (int64_t step = -1; step < steps; ++step) {  // the first one warms up
    const auto start = Clock::now();
    pipeline.apply(sample, random_of(step + 1), size, out, mask, scratch);
    const std::chrono::duration<double, std::milli> taken = Clock::now() - start;
    if (step >= 0) milliseconds.push_back(taken.count());
  }
  return milliseconds;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 6) {
    fmt::print(stderr, "usage: bench_volume_transforms YAML SIZE CHANNELS HAS_MASK STEPS\n");
    return 2;
  }
  const auto list =
      fovea::parse_config<TransformList>(std::string("transforms: ") + argv[1], "transforms");
  const int64_t channels = std::stoll(argv[3]);
  const fovea::data::VolumePipeline pipeline(list.transforms, channels);
  const Sample sample = make_sample(std::stoll(argv[2]), channels, std::stoll(argv[4]) != 0);
  fmt::print("[{:.4f}]\n", fmt::join(time_steps(pipeline, sample, std::stoll(argv[5])), ", "));
  return 0;
} catch (const fovea::Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return static_cast<int>(error.exit_code());
}
