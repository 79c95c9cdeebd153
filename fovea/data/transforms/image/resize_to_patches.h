// Images in whole patches, as many as a limit allows, in their own aspect ratio (Dehghani et al.
// 2023, NaViT).
#pragma once

#include <optional>

#include "fovea/core/philox.h"
#include "fovea/data/transforms/configs.h"
#include "fovea/data/transforms/image/geometry.h"

namespace fovea::data {

// Rows and columns of patches of an image of this size, together at most `limit`: the grid whose
// aspect ratio is near that of the image, at most as large as it but for rounding, or, with
// config.enlarge, as large as the limit allows. At least one patch.
ImageSize patch_grid(const ResizeToPatchesConfig& config, ImageSize image, int64_t limit);

std::optional<ImageSize> output_size(const ResizeToPatchesConfig& config,
                                     std::optional<ImageSize> in);

// The result looks at `in`'s pixels or at a buffer of `scratch`.
ImageView apply(const ResizeToPatchesConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch);

}  // namespace fovea::data
