// timm's crops that keep the aspect ratio, for training (rkrc, rkrr) and evaluation, and the
// windows with borders below them (timm 1.0.31, transforms.py, transforms_factory.py).
#pragma once

#include <optional>
#include <string_view>

#include "fovea/core/philox.h"
#include "fovea/data/transforms/image/augment_configs.h"
#include "fovea/data/transforms/image/geometry.h"

namespace fovea::data {

// What pixels outside of an image hold.
enum class PadMode { kConstant, kEdge, kReflect };
// "constant", "edge" or "reflect"; throws ConfigError otherwise.
PadMode pad_mode_from_name(std::string_view name);

// One value for all channels, or one for each of three.
FillColor fill_color(const std::vector<int64_t>& fill);

// The rectangle [top, top + size.height) x [left, left + size.width), which may reach outside.
// Reflection leaves the edge pixel single and goes back and forth where it must.
ImageView crop_or_pad(const ImageView& in, int64_t top, int64_t left, ImageSize size, PadMode mode,
                      const FillColor& fill, TransformScratch& scratch);

// The size that timm's ResizeKeepRatio.get_params gives, with its draws.
ImageSize draw_keep_ratio_size(const ResizeKeepRatioConfig& config, ImageSize image,
                               RandomStream& random);

std::optional<ImageSize> output_size(const ResizeKeepRatioConfig& config,
                                     std::optional<ImageSize> in);
std::optional<ImageSize> output_size(const CenterCropOrPadConfig& config,
                                     std::optional<ImageSize> in);
std::optional<ImageSize> output_size(const RandomCropOrPadConfig& config,
                                     std::optional<ImageSize> in);
std::optional<ImageSize> output_size(const RkrcConfig& config, std::optional<ImageSize> in);
std::optional<ImageSize> output_size(const RkrrConfig& config, std::optional<ImageSize> in);
std::optional<ImageSize> output_size(const EvalCropConfig& config, std::optional<ImageSize> in);

// The results look at `in`'s pixels or at a buffer of `scratch`.
ImageView apply(const ResizeKeepRatioConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch);
ImageView apply(const CenterCropOrPadConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch);
ImageView apply(const RandomCropOrPadConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch);
ImageView apply(const RkrcConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch);
ImageView apply(const RkrrConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch);
ImageView apply(const EvalCropConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch);

}  // namespace fovea::data
