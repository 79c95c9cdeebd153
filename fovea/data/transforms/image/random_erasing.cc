#include "fovea/data/transforms/image/random_erasing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "fovea/core/error.h"
#include "fovea/data/transforms/distributions.h"

namespace fovea::data {
namespace {

constexpr int kTries = 10;

void erase_box(const RandomErasingConfig& config, const PixelBox& box, ImageSize size,
               RandomStream& random, std::span<float> image) {
  const int64_t plane = size.height * size.width;
  const int64_t channels = static_cast<int64_t>(image.size()) / plane;
  for (int64_t c = 0; c < channels; ++c) {
    const auto color = config.mode == "rand" ? static_cast<float>(draw_normal(random)) : 0.0f;
    for (int64_t y = 0; y < box.size.height; ++y) {
      float* row = image.data() + c * plane + (box.top + y) * size.width + box.left;
      if (config.mode == "pixel") {
        std::generate_n(row, box.size.width,
                        [&] { return static_cast<float>(draw_normal(random)); });
      } else {
        std::fill_n(row, box.size.width, color);
      }
    }
  }
}

}  // namespace

std::optional<PixelBox> draw_erasing_box(const RandomErasingConfig& config, ImageSize size,
                                         double share, RandomStream& random) {
  const auto area = static_cast<double>(size.height * size.width);
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const double target = random.uniform(config.scale[0], config.scale[1]) * area * share;
    const double aspect =
        std::exp(random.uniform(std::log(config.ratio[0]), std::log(config.ratio[1])));
    const auto height = static_cast<int64_t>(std::nearbyint(std::sqrt(target * aspect)));
    const auto width = static_cast<int64_t>(std::nearbyint(std::sqrt(target / aspect)));
    if (height >= size.height || width >= size.width) continue;
    const int64_t top = random.below(static_cast<uint32_t>(size.height - height + 1));
    const int64_t left = random.below(static_cast<uint32_t>(size.width - width + 1));
    return PixelBox{top, left, {height, width}};
  }
  return std::nullopt;
}

void erase_randomly(const RandomErasingConfig& config, ImageSize size, RandomStream& random,
                    std::span<float> image) {
  const int64_t plane = size.height * size.width;
  FOVEA_CHECK(plane > 0 && static_cast<int64_t>(image.size()) % plane == 0,
              "{} values are no channels of {}x{} pixels", image.size(), size.height, size.width);
  if (random.uniform(0.0, 1.0) > config.p) return;
  const auto choices = static_cast<uint32_t>(config.max_count - config.min_count + 1);
  const int64_t count = config.min_count + random.below(choices);
  for (int64_t i = 0; i < count; ++i) {
    const auto box = draw_erasing_box(config, size, 1.0 / static_cast<double>(count), random);
    if (box) erase_box(config, *box, size, random, image);
  }
}

void RandomErasingConfig::validate(ConfigIssues& issues) const {
  check_interval("scale", scale, issues);
  check_interval("ratio", ratio, issues);
  if (max_count < min_count) {
    issues.add("max_count", {"min_count"},
               fmt::format("{}; expected at least min_count={}", max_count, min_count));
  }
}

}  // namespace fovea::data
