#include "fovea/data/transforms/pipeline.h"

#include <cstring>
#include <type_traits>

#include "fovea/core/error.h"
#include "fovea/data/transforms/augment.h"
#include "fovea/data/transforms/color_ops.h"
#include "fovea/data/transforms/keep_ratio.h"
#include "fovea/data/transforms/random_erasing.h"

namespace fovea::data {
namespace {

double channel_value(const std::vector<double>& values, const char* key, int64_t channel,
                     int64_t in_chans) {
  if (values.size() == 1) return values[0];
  if (static_cast<int64_t>(values.size()) == in_chans) return values[static_cast<size_t>(channel)];
  fail<ConfigError>(
      "normalize.{} has {} values, but the model takes {} channel(s); give one value, or {}", key,
      values.size(), in_chans, in_chans);
}

ImageView to_channels(const Image& image, int64_t channels, TransformScratch& scratch) {
  const ImageView in(image);
  if (in.channels == channels) return in;
  const bool is_gray_to_colour = in.channels == 1 && channels == 3;
  if (!is_gray_to_colour && !(in.channels == 3 && channels == 1)) {
    fail<DataError>(
        "an image with {} channel(s) cannot become one with {}; set the model's in_chans to {}",
        in.channels, channels, in.channels);
  }
  Image& out = scratch.next_image();
  reshape(out, in.size(), channels);
  const int64_t count = in.height * in.width;
  if (is_gray_to_colour) {
    for (int64_t i = 0; i < count; ++i) std::memset(out.pixels.data() + 3 * i, in.pixels[i], 3);
  } else {
    for (int64_t i = 0; i < count; ++i) out.pixels[i] = luma_of(in.pixels + 3 * i);
  }
  return ImageView(out);
}

template <class F>
void visit_image_transform(const TransformConfig& transform, F&& f) {
  transform.visit_value([&](const auto& config) {
    using Config = std::decay_t<decltype(config)>;
    if constexpr (!std::is_same_v<Config, NormalizeConfig> &&
                  !std::is_same_v<Config, RandomErasingConfig>) {
      f(config);
    }
  });
}

}  // namespace

TransformPipeline::TransformPipeline(std::vector<TransformConfig> transforms, int64_t in_chans)
    : transforms_(std::move(transforms)), in_chans_(in_chans) {
  FOVEA_CHECK(in_chans > 0, "in_chans={}; expected a number above 0", in_chans);
  NormalizeConfig normalize{.mean = {0.0}, .std = {1.0}};
  if (!transforms_.empty() && transforms_.back().get_if<RandomErasingConfig>() != nullptr) {
    erasing_ = *transforms_.back().get_if<RandomErasingConfig>();
    transforms_.pop_back();
  }
  for (size_t i = 0; i < transforms_.size(); ++i) {
    if (transforms_[i].get_if<RandomErasingConfig>() != nullptr) {
      fail<ConfigError>(
          "random_erasing is number {} of the transforms; it must be the last, after "
          "normalize",
          i + 1);
    }
    const auto* found = transforms_[i].get_if<NormalizeConfig>();
    if (found == nullptr) continue;
    if (i + 1 != transforms_.size()) {
      fail<ConfigError>(
          "normalize is number {} of {} transforms; it must be the last but for random_erasing, as "
          "it leaves floats",
          i + 1, transforms_.size() + (erasing_ ? 1 : 0));
    }
    normalize = *found;
    transforms_.pop_back();
    break;
  }
  byte_values_.resize(static_cast<size_t>(in_chans));
  for (int64_t c = 0; c < in_chans; ++c) {
    const auto mean = static_cast<float>(channel_value(normalize.mean, "mean", c, in_chans));
    const auto std = static_cast<float>(channel_value(normalize.std, "std", c, in_chans));
    for (int value = 0; value < 256; ++value) {
      byte_values_[c][value] = (static_cast<float>(value) / 255.0f - mean) / std;
    }
  }
}

std::optional<ImageSize> TransformPipeline::output_size(std::optional<ImageSize> in) const {
  for (const auto& transform : transforms_) {
    visit_image_transform(transform,
                          [&](const auto& config) { in = data::output_size(config, in); });
  }
  return in;
}

ImageView TransformPipeline::apply_to_pixels(const Image& image, RandomStream random,
                                             TransformScratch& scratch) const {
  return transform_pixels(image, random, scratch);
}

ImageView TransformPipeline::transform_pixels(const Image& image, RandomStream& random,
                                              TransformScratch& scratch) const {
  scratch.geometry = SampleGeometry({image.height, image.width});
  ImageView view = to_channels(image, in_chans_, scratch);
  for (const auto& transform : transforms_) {
    visit_image_transform(
        transform, [&](const auto& config) { view = data::apply(config, view, random, scratch); });
  }
  return view;
}

void TransformPipeline::apply(const Image& image, RandomStream random, std::span<float> out,
                              TransformScratch& scratch) const {
  const ImageView view = transform_pixels(image, random, scratch);
  const int64_t plane = view.height * view.width;
  FOVEA_CHECK(static_cast<int64_t>(out.size()) == in_chans_ * plane,
              "room for {} floats; expected {}x{}x{}", out.size(), in_chans_, view.height,
              view.width);
  for (int64_t c = 0; c < in_chans_; ++c) {
    const auto& values = byte_values_[c];
    float* target = out.data() + c * plane;
    for (int64_t y = 0; y < view.height; ++y) {
      const uint8_t* pixel = view.row(y) + c;
      for (int64_t x = 0; x < view.width; ++x, pixel += in_chans_) *target++ = values[*pixel];
    }
  }
  if (erasing_) erase_randomly(*erasing_, view.size(), random, out);
}

RandomStream augmentation_stream(uint64_t seed, int64_t epoch, int64_t index) {
  return RandomStream(philox_key(seed, "augment"), static_cast<uint64_t>(index),
                      static_cast<uint32_t>(epoch));
}

}  // namespace fovea::data
