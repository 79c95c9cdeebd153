// A transform of images as the pipeline sees it: what it does to a size and to pixels. Pure
// functions of the image and the random stream. Sizes and their meanings are torchvision's.
#pragma once

#include <optional>
#include <string_view>

#include "fovea/config/fields.h"
#include "fovea/core/philox.h"
#include "fovea/data/image/image_view.h"
#include "fovea/data/stage_timer.h"
#include "fovea/data/transforms/any_transform.h"
#include "fovea/data/transforms/config_checks.h"
#include "fovea/data/transforms/image/first_crop.h"
#include "fovea/data/transforms/image/transform_scratch.h"

namespace fovea::data {

class ImageTransform : public Transform {
 public:
  static const ConfigAlternatives& alternatives();

  // Where its time is counted: geometry is resizing, what changes values, or warps, augments.
  virtual Stage stage() const = 0;
  virtual bool keeps_size() const = 0;
  // Size after the transform; nullopt = differs from image to image.
  virtual std::optional<ImageSize> output_size(std::optional<ImageSize> in) const = 0;
  // The result looks at `in`'s pixels or at a buffer of `scratch`.
  virtual ImageView apply(const ImageView& in, RandomStream& random,
                          TransformScratch& scratch) const = 0;

  // The pass of first_crop.h, of a transform that can stand at its beginning: what it makes of an
  // image of this size, with its draws. nullopt, and nothing drawn: it can not.
  virtual std::optional<FirstCrop> first_crop(ImageSize image, RandomStream& random) const = 0;
  // The same of one behind it: whether it is done in the same pass, with its draws.
  virtual bool join(FirstCrop& crop, RandomStream& random) const = 0;
};

// A config with draws() and apply(). Where the size changes it has output_size(); it may have
// kOfVolumes, first_crop() and join(). normalize and random_erasing, whose work is on the values
// that pixels become, have kIsOfValues in place of apply(): the pipeline takes them off the list.
template <class Config>
class ImageTransformOf final
    : public ConfigHolder<ImageTransform, Config, ImageTransformOf<Config>> {
 public:
  bool draws() const override { return this->config.draws(); }
  std::string_view counterpart() const override {
    if constexpr (requires { Config::kOfVolumes; }) return Config::kOfVolumes;
    return {};
  }
  Stage stage() const override { return kResizes || kJoins ? Stage::kResize : Stage::kAugment; }
  bool keeps_size() const override { return !kResizes; }
  std::optional<ImageSize> output_size(std::optional<ImageSize> in) const override {
    if constexpr (kResizes) return this->config.output_size(in);
    return in;
  }
  ImageView apply(const ImageView& in, [[maybe_unused]] RandomStream& random,
                  [[maybe_unused]] TransformScratch& scratch) const override {
    if constexpr (requires { Config::kIsOfValues; })
      return in;
    else
      return this->config.apply(in, random, scratch);
  }
  std::optional<FirstCrop> first_crop([[maybe_unused]] ImageSize image,
                                      [[maybe_unused]] RandomStream& random) const override {
    if constexpr (requires { &Config::first_crop; }) return this->config.first_crop(image, random);
    return std::nullopt;
  }
  bool join([[maybe_unused]] FirstCrop& crop,
            [[maybe_unused]] RandomStream& random) const override {
    if constexpr (kJoins) return this->config.join(crop, random);
    return false;
  }

 private:
  // By name alone: with another signature than that above it does not compile.
  static constexpr bool kResizes = requires { &Config::output_size; };
  static constexpr bool kJoins = requires { &Config::join; };
};

}  // namespace fovea::data
