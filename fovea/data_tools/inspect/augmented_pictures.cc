#include "fovea/data_tools/inspect/augmented_pictures.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "fovea/core/error.h"
#include "fovea/data/order/augmentation_stream.h"
#include "fovea/data/transforms/image/pipeline.h"
#include "fovea/data/transforms/volume/volume_pipeline.h"

namespace fovea::data {
namespace {

// [C, H, W] floats that `normalize` made, as the bytes before it.
Image undo_normalize(const TransformPipeline& pipeline, const std::vector<float>& values,
                     ImageSize size) {
  Image image;
  const int64_t channels = pipeline.in_chans();
  const int64_t plane = size.height * size.width;
  reshape(image, size, channels);
  for (int64_t c = 0; c < channels; ++c) {
    const auto at = static_cast<size_t>(c);
    const float mean = pipeline.mean()[at], std = pipeline.std()[at];
    for (int64_t i = 0; i < plane; ++i) {
      const float byte = (values[static_cast<size_t>(c * plane + i)] * std + mean) * 255.0f;
      image.pixels[static_cast<size_t>(i * channels + c)] =
          static_cast<uint8_t>(std::clamp(std::round(byte), 0.0f, 255.0f));
    }
  }
  return image;
}

// As the loader does: where the transforms settle the size, a JPEG is not decoded as a whole.
Sample transform_image(const TransformPipeline& pipeline, const Dataset& dataset, int64_t index,
                       RandomStream random) {
  Sample sample;
  dataset.read(index, sample);
  auto size = pipeline.output_size(std::nullopt);
  if (!size) {
    decode(sample);
    size = pipeline.output_size(view_of(sample).size());
  }
  TransformScratch scratch;
  std::vector<float> values;
  if (!size) {  // the transforms draw it
    size = pipeline.apply_any_size(view_of(sample), random, values, scratch);
  } else {
    values.resize(static_cast<size_t>(pipeline.in_chans() * size->height * size->width));
    if (sample.is<EncodedImage>()) {
      pipeline.apply_file(sample.as<EncodedImage>().bytes, random, values, scratch);
    } else {
      pipeline.apply(view_of(sample), random, values, scratch);
    }
  }
  Sample result;
  result.label = sample.label;
  result.become<Image>() = undo_normalize(pipeline, values, *size);
  if (!sample.mask.classes.empty()) apply_geometry(scratch.geometry, sample.mask, result.mask);
  return result;
}

Sample transform_volume(const VolumePipeline& pipeline, const Dataset& dataset, int64_t index,
                        RandomStream random) {
  Sample sample;
  read_decoded(dataset, index, sample);
  VolumeScratch scratch;
  const VolumeItem& item = pipeline.run(sample, random, scratch);
  Sample result;
  result.label = sample.label;
  Volume& volume = result.become<Volume>();
  volume = {item.values.channels, size_of(item.values.size), item.spacing, {}};
  volume.values.resize(static_cast<size_t>(item.values.channels * voxels_of(item.values.size)));
  copy_voxels(item.values, volume.values.data());
  if (item.has_mask()) {
    result.mask.size = volume.size;
    result.mask.classes.resize(static_cast<size_t>(volume.size.voxels()));
    copy_voxels(item.classes, result.mask.classes.data());
  }
  return result;
}

Sample transform_sample(const Dataset& dataset, const SampleTransforms& transforms, int64_t index,
                        RandomStream random) {
  if (const auto* images = std::get_if<std::shared_ptr<const TransformPipeline>>(&transforms)) {
    return transform_image(**images, dataset, index, random);
  }
  return transform_volume(*std::get<std::shared_ptr<const VolumePipeline>>(transforms), dataset,
                          index, random);
}

// A volume of depth 1 with three channels is a colour picture made of floats.
Image color_field_picture(const Volume& volume) {
  const GrayWindow window = gray_window(volume.values);
  Image rgb;
  for (int64_t c = 0; c < 3; ++c) {
    const Image plane = slice_picture(volume, c, {}, {}, window);
    if (c == 0) rgb = plane;
    for (size_t i = static_cast<size_t>(c); i < rgb.pixels.size(); i += 3) {
      rgb.pixels[i] = plane.pixels[i];
    }
  }
  return rgb;
}

Image one_picture(const Sample& sample, const AugmentedOptions& options) {
  if (sample.is<Image>())
    return masked_picture(to_rgb(ImageView(sample.image())), sample.mask, options.side);
  const Volume& volume = sample.volume();
  if (volume.size.depth == 1 && volume.channels == 3) {
    return masked_picture(color_field_picture(volume), sample.mask, options.side);
  }
  const auto planes = middle_planes(volume.size, options.layout);
  const SlicePlane& plane =
      options.layout == SliceLayout::kCartesian ? planes.back() : planes.front();
  const auto voxels = static_cast<size_t>(volume.size.voxels());
  const GrayWindow window = gray_window(std::span(volume.values).first(voxels));
  const ImageSize unit = slice_size(volume, plane, 1.0);
  const double scale = static_cast<double>(options.side) /
                       static_cast<double>(std::max<int64_t>({unit.height, unit.width, 1}));
  return fit_exactly(slice_picture(volume, 0, sample.mask, plane, window),
                     slice_size(volume, plane, scale));
}

}  // namespace

Image masked_picture(Image rgb, const LabelMap& mask, int64_t side) {
  if (!mask.classes.empty()) tint(mask, rgb);
  return fit(rgb, side);
}

std::vector<Image> augmented_pictures(const Dataset& dataset, const SampleTransforms& transforms,
                                      int64_t index, const AugmentedOptions& options) {
  std::vector<Image> pictures;
  Sample stored;
  read_decoded(dataset, index, stored);
  pictures.push_back(one_picture(stored, options));
  for (int64_t draw = 0; draw < options.draws; ++draw) {
    pictures.push_back(one_picture(transform_sample(dataset, transforms, index,
                                                    augmentation_stream(options.seed, draw, index)),
                                   options));
  }
  return pictures;
}

Sample transformed_sample(const Dataset& dataset, const SampleTransforms& transforms, int64_t index,
                          uint64_t seed) {
  return transform_sample(dataset, transforms, index, augmentation_stream(seed, 0, index));
}

}  // namespace fovea::data
