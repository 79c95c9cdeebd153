// The transforms of a recipe as one function from stored pixels to the model's input.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "fovea/core/philox.h"
#include "fovea/data/dataset.h"
#include "fovea/data/image/image_view.h"
#include "fovea/data/transforms/image/pixel_writer.h"
#include "fovea/data/transforms/image/random_erasing.h"
#include "fovea/data/transforms/image/resize_to_patches.h"

namespace fovea::data {

// Immutable after construction: one pipeline serves all threads, each with its own scratch.
class TransformPipeline {
 public:
  // in_chans: channels that come out. Gray images are repeated into 3 channels and colour ones
  // weighted into 1 before the first transform. Throws ConfigError: normalize elsewhere than last
  // but for random_erasing, its lists not fitting in_chans.
  TransformPipeline(std::vector<TransformConfig> transforms, int64_t in_chans);

  int64_t in_chans() const { return in_chans_; }
  // [height, width] that comes out of an image of size `in`; nullopt in: of any image, and nullopt
  // out: they differ.
  std::optional<ImageSize> output_size(std::optional<ImageSize> in) const;

  // Writes [C, H, W] floats; out must hold in_chans * output_size(image). Throws DataError:
  // channels that cannot be converted, an image too small for a crop.
  void apply(const ImageView& image, RandomStream random, std::span<float> out,
             TransformScratch& scratch) const;
  void apply(const Image& image, RandomStream random, std::span<float> out,
             TransformScratch& scratch) const {
    apply(ImageView(image), random, out, scratch);
  }
  // The bytes before `normalize`, [C, H, W]: for a device that normalises with mean() and std().
  // Throws ConfigError where the list ends with random_erasing, which works on floats.
  void apply(const ImageView& image, RandomStream random, std::span<uint8_t> out,
             TransformScratch& scratch) const;
  void apply(const Image& image, RandomStream random, std::span<uint8_t> out,
             TransformScratch& scratch) const {
    apply(ImageView(image), random, out, scratch);
  }
  bool gives_bytes() const { return !erasing_; }
  // The same from an image file that is not decoded yet: of a JPEG only what the first transforms
  // need is decoded. Throws DataError also where the file is damaged.
  void apply_file(std::span<const uint8_t> file, RandomStream random, std::span<float> out,
                  TransformScratch& scratch) const;
  void apply_file(std::span<const uint8_t> file, RandomStream random, std::span<uint8_t> out,
                  TransformScratch& scratch) const;

  // The same for images that have different sizes after the transforms: sizes `out` -> [H, W].
  ImageSize apply_any_size(const ImageView& image, RandomStream random, std::vector<float>& out,
                           TransformScratch& scratch) const;

  // The resize_to_patches that says the size of what comes out; null: there is none.
  const ResizeToPatchesConfig* to_patches() const;

  // What `normalize` subtracts from and divides a byte / 255 by; [C].
  const std::vector<float>& mean() const { return writer_.mean(); }
  const std::vector<float>& std() const { return writer_.std(); }
  // All but the steps on floats: the pixels that the model sees, [H, W, C] (for reports). The view
  // looks at `image` or `scratch`.
  ImageView apply_to_pixels(const Image& image, RandomStream random,
                            TransformScratch& scratch) const;

 private:
  ImageView apply_from(size_t first, ImageView view, RandomStream& random,
                       TransformScratch& scratch) const;
  void apply_planes(const ImageView& image, RandomStream& random, PixelPlanes out,
                    TransformScratch& scratch) const;
  void apply_file_planes(std::span<const uint8_t> file, RandomStream& random, PixelPlanes out,
                         TransformScratch& scratch) const;
  template <class Crop>
  void finish_crop(const FirstCrop& first, size_t used, RandomStream& random, PixelPlanes out,
                   TransformScratch& scratch, Crop&& crop) const;
  void write(const ImageView& view, PixelPlanes out, StageTimer* timer) const;
  void check_room(ImageSize size, PixelPlanes out) const;
  void erase(RandomStream& random, std::span<float> out, const TransformScratch& scratch) const;
  void check_bytes() const;

  std::vector<TransformConfig> transforms_;  // without normalize and random_erasing
  std::optional<RandomErasingConfig> erasing_;
  int64_t in_chans_;
  PixelWriter writer_;
};

}  // namespace fovea::data
