// Images of mixed sizes as rows of a batch, in patches.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "fovea/core/philox.h"
#include "fovea/data/batch.h"
#include "fovea/data/image/image_view.h"
#include "fovea/data/loader_options.h"
#include "fovea/data/transforms/image/transform_scratch.h"

namespace fovea::data {

// Immutable. Every image has room for as many patches as its transforms give at most.
class ImagePatchFiller {
 public:
  // images: null where the samples are volumes. Throws ConfigError: transforms that do not end with
  // resize_to_patches to patches of options.packed_patch_size (but for what keeps sizes); options
  // that need images of one size.
  ImagePatchFiller(std::shared_ptr<const TransformPipeline> images, const LoaderOptions& options);

  // Sizes batch.image_patches for the rows that batch.image_shape tells of.
  void open(Batch& batch) const;
  // values: what one thread keeps from image to image.
  void fill(Batch& batch, int64_t row, const ImageView& image, RandomStream random,
            TransformScratch& scratch, std::vector<float>& values) const;
  // One patch of zeros.
  void clear(Batch& batch, int64_t row) const;

 private:
  std::shared_ptr<const TransformPipeline> images_;
  int64_t patch_size_ = 0, max_patches_ = 0;
};

// Images in memory as a batch of packed ones: values [B, C, H, W], shape: theirs, whole patches.
Batch image_patches_of(std::span<const float> values, const std::vector<int64_t>& shape,
                       int64_t patch_size);

}  // namespace fovea::data
