#include "fovea/data/pictures/preview.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace fovea::data {
namespace {

// Channel `channel` of the middle slice. -> [H, W]
std::span<const float> middle_slice(const Volume& volume, int64_t channel) {
  const auto pixels = static_cast<size_t>(volume.size.height * volume.size.width);
  const int64_t slice = channel * volume.size.depth + volume.size.depth / 2;
  return std::span(volume.values).subspan(static_cast<size_t>(slice) * pixels, pixels);
}

}  // namespace

Image preview_of(const Sample& sample) {
  if (sample.is<Image>()) return sample.image();
  const Volume& volume = sample.volume();
  const int64_t channels = volume.channels == 3 ? 3 : 1;
  float low = std::numeric_limits<float>::infinity(), high = -low;
  for (int64_t c = 0; c < channels; ++c) {
    for (const float value : middle_slice(volume, c)) {
      if (!std::isfinite(value)) continue;
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  const float scale = high > low ? 255.0f / (high - low) : 0.0f;
  Image image{volume.size.height, volume.size.width, channels, {}};
  image.pixels.resize(static_cast<size_t>(image.height * image.width * channels));
  for (int64_t c = 0; c < channels; ++c) {
    const auto values = middle_slice(volume, c);
    for (size_t i = 0; i < values.size(); ++i) {
      const float gray = std::isfinite(values[i]) ? (values[i] - low) * scale : 0.0f;
      image.pixels[i * static_cast<size_t>(channels) + static_cast<size_t>(c)] =
          static_cast<uint8_t>(std::lround(gray));
    }
  }
  return image;
}

}  // namespace fovea::data
