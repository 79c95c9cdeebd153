#include "fovea/data/transforms/image/pipeline.h"

#include "fovea/core/error.h"
#include "fovea/data/image/decode.h"
#include "fovea/data/image/exif.h"
#include "fovea/data/image/gray_and_colour.h"
#include "fovea/data/transforms/image/first_crop.h"

namespace fovea::data {
namespace {

ImageView to_channels(const ImageView& in, int64_t channels, TransformScratch& scratch) {
  if (in.channels == channels) return in;
  const bool is_gray_to_colour = in.channels == 1 && channels == 3;
  if (!is_gray_to_colour && !(in.channels == 3 && channels == 1)) {
    fail<DataError>(
        "an image with {} channel(s) cannot become one with {}; set the model's in_chans to {}",
        in.channels, channels, in.channels);
  }
  Image& out = scratch.next_image();
  reshape(out, in.size(), channels);
  uint8_t* row = out.pixels.data();
  for (int64_t y = 0; y < in.height; ++y, row += in.width * channels) {
    if (is_gray_to_colour) {
      gray_to_rgb(in.row(y), in.width, row);
    } else {
      rgb_to_gray(in.row(y), in.width, row);
    }
  }
  return ImageView(out);
}

// Takes `random_erasing` off the end of the list.
std::optional<RandomErasingConfig> take_erasing(std::vector<TransformConfig>& transforms) {
  for (size_t i = 0; i < transforms.size(); ++i) {
    const auto* found = transforms[i].get_if<RandomErasingConfig>();
    if (found == nullptr) continue;
    if (i + 1 != transforms.size()) {
      fail<ConfigError>(
          "random_erasing is number {} of {} transforms; it must be the last, after normalize",
          i + 1, transforms.size());
    }
    const RandomErasingConfig erasing = *found;
    transforms.pop_back();
    return erasing;
  }
  return std::nullopt;
}

// Takes `normalize` off the end of the list.
NormalizeConfig take_normalize(std::vector<TransformConfig>& transforms, bool has_erasing) {
  for (size_t i = 0; i < transforms.size(); ++i) {
    const auto* found = transforms[i].get_if<NormalizeConfig>();
    if (found == nullptr) continue;
    if (i + 1 != transforms.size()) {
      fail<ConfigError>(
          "normalize is number {} of {} transforms; it must be the last but for random_erasing, as "
          "it leaves floats",
          i + 1, transforms.size() + (has_erasing ? 1 : 0));
    }
    const NormalizeConfig normalize = *found;
    transforms.pop_back();
    return normalize;
  }
  return {.mean = {0.0}, .std = {1.0}};
}

int64_t checked_channels(int64_t in_chans) {
  FOVEA_CHECK(in_chans > 0, "in_chans={}; expected a number above 0", in_chans);
  return in_chans;
}

void note_geometry(const FirstCrop& crop, SampleGeometry& geometry) {
  geometry.append_resize(static_cast<double>(crop.box.left), static_cast<double>(crop.box.top),
                         crop.box.size, crop.resized);
  geometry.append_crop(static_cast<double>(crop.window.left), static_cast<double>(crop.window.top),
                       crop.window.size);
  if (crop.is_mirrored) geometry.append_horizontal_flip();
}

PixelPlanes planes_of(std::span<float> out) {
  return {.floats = out.data(), .size = static_cast<int64_t>(out.size())};
}

PixelPlanes planes_of(std::span<uint8_t> out) {
  return {.bytes = out.data(), .size = static_cast<int64_t>(out.size())};
}

}  // namespace

TransformPipeline::TransformPipeline(std::vector<TransformConfig> transforms, int64_t in_chans)
    : transforms_(std::move(transforms)),
      erasing_(take_erasing(transforms_)),
      in_chans_(checked_channels(in_chans)),
      writer_(take_normalize(transforms_, erasing_.has_value()), in_chans_) {}

std::optional<ImageSize> TransformPipeline::output_size(std::optional<ImageSize> in) const {
  for (const auto& transform : transforms_) in = transform->output_size(in);
  return in;
}

ImageView TransformPipeline::apply_from(size_t first, ImageView view, RandomStream& random,
                                        TransformScratch& scratch) const {
  for (size_t i = first; i < transforms_.size(); ++i) {
    const StageScope scope(scratch.timer(), transforms_[i]->stage());
    view = transforms_[i]->apply(view, random, scratch);
  }
  return view;
}

ImageView TransformPipeline::apply_to_pixels(const Image& image, RandomStream random,
                                             TransformScratch& scratch) const {
  scratch.geometry.reset({image.height, image.width});
  return apply_from(0, to_channels(ImageView(image), in_chans_, scratch), random, scratch);
}

void TransformPipeline::check_room(ImageSize size, PixelPlanes out) const {
  FOVEA_CHECK(out.size == in_chans_ * size.height * size.width,
              "room for {} values; expected {}x{}x{}", out.size, in_chans_, size.height,
              size.width);
}

void TransformPipeline::erase(RandomStream& random, std::span<float> out,
                              const TransformScratch& scratch) const {
  if (!erasing_) return;
  const StageScope scope(scratch.timer(), Stage::kAugment);
  erase_randomly(*erasing_, scratch.geometry.out_size(), random, out);
}

void TransformPipeline::check_bytes() const {
  if (erasing_) {
    fail<ConfigError>(
        "random_erasing works on normalised values, but bytes are asked for; take it "
        "off the transforms, or let the loader normalise");
  }
}

void TransformPipeline::write(const ImageView& view, PixelPlanes out, StageTimer* timer) const {
  const StageScope scope(timer, Stage::kWrite);
  check_room(view.size(), out);
  for (int64_t y = 0; y < view.height; ++y) writer_.write_row(view.row(y), y, view.size(), out);
}

// Runs `crop` with the sink for its rows: the output itself where the list ends here, else an image
// that the rest of the list goes on with.
template <class Crop>
void TransformPipeline::finish_crop(const FirstCrop& first, size_t used, RandomStream& random,
                                    PixelPlanes out, TransformScratch& scratch, Crop&& crop) const {
  note_geometry(first, scratch.geometry);
  if (used == transforms_.size()) {
    check_room(first.window.size, out);
    PlaneSink sink(writer_, first.window.size, out, scratch.timer());
    return crop(sink);
  }
  Image& image = scratch.next_image();
  reshape(image, first.window.size, in_chans_);
  ImageSink sink(image);
  crop(sink);
  write(apply_from(used, ImageView(image), random, scratch), out, scratch.timer());
}

void TransformPipeline::apply_planes(const ImageView& image, RandomStream& random, PixelPlanes out,
                                     TransformScratch& scratch) const {
  const ImageView in = to_channels(image, in_chans_, scratch);
  scratch.geometry.reset(in.size());
  size_t used = 0;
  const auto first = plan_first_crop(transforms_, in.size(), random, used);
  if (!first) return write(apply_from(0, in, random, scratch), out, scratch.timer());
  finish_crop(*first, used, random, out, scratch,
              [&](RowSink& sink) { crop_image(*first, in, scratch.first_crop, sink); });
}

void TransformPipeline::apply_file_planes(std::span<const uint8_t> file, RandomStream& random,
                                          PixelPlanes out, TransformScratch& scratch) const {
  if (is_jpeg(file) && (in_chans_ == 1 || in_chans_ == 3)) {
    JpegReader& reader = scratch.first_crop.reader;
    {
      const StageScope scope(scratch.timer(), Stage::kDecode);
      reader.open(file);
    }
    scratch.geometry.reset(reader.size());
    size_t used = 0;
    const auto first = plan_first_crop(transforms_, reader.size(), random, used);
    if (first) {
      return finish_crop(*first, used, random, out, scratch, [&](RowSink& sink) {
        crop_jpeg(*first, in_chans_, scratch.first_crop, sink);
      });
    }
  }
  {
    const StageScope scope(scratch.timer(), Stage::kDecode);
    decode_image(file, scratch.decoded);
  }
  apply_planes(ImageView(scratch.decoded), random, out, scratch);
}

void TransformPipeline::apply(const ImageView& image, RandomStream random, std::span<float> out,
                              TransformScratch& scratch) const {
  apply_planes(image, random, planes_of(out), scratch);
  erase(random, out, scratch);
}

ImageSize TransformPipeline::apply_any_size(const ImageView& image, RandomStream random,
                                            std::vector<float>& out,
                                            TransformScratch& scratch) const {
  const ImageView in = to_channels(image, in_chans_, scratch);
  scratch.geometry.reset(in.size());
  const ImageView view = apply_from(0, in, random, scratch);
  out.resize(static_cast<size_t>(in_chans_ * view.height * view.width));
  write(view, planes_of(std::span(out)), scratch.timer());
  erase(random, out, scratch);
  return view.size();
}

const ResizeToPatchesConfig* TransformPipeline::to_patches() const {
  for (auto transform = transforms_.rbegin(); transform != transforms_.rend(); ++transform) {
    if (const auto* found = transform->get_if<ResizeToPatchesConfig>()) return found;
    if (!(*transform)->keeps_size()) return nullptr;
  }
  return nullptr;
}

void TransformPipeline::apply(const ImageView& image, RandomStream random, std::span<uint8_t> out,
                              TransformScratch& scratch) const {
  check_bytes();
  apply_planes(image, random, planes_of(out), scratch);
}

void TransformPipeline::apply_file(std::span<const uint8_t> file, RandomStream random,
                                   std::span<float> out, TransformScratch& scratch) const {
  apply_file_planes(file, random, planes_of(out), scratch);
  erase(random, out, scratch);
}

void TransformPipeline::apply_file(std::span<const uint8_t> file, RandomStream random,
                                   std::span<uint8_t> out, TransformScratch& scratch) const {
  check_bytes();
  apply_file_planes(file, random, planes_of(out), scratch);
}

}  // namespace fovea::data
