// Crops of JPEG files: any bytes give the pixels of the whole image, or a DataError.
#include <algorithm>
#include <span>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/data/transforms/image/first_crop.h"
#include "fovea/data/transforms/image/resample.h"

// The first four bytes say which box; the rest is the file.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace fovea::data;
  static FirstCropScratch scratch;
  static Image out;
  if (size < 4) return 0;
  try {
    scratch.reader.open({bytes + 4, size - 4});
    const ImageSize image = scratch.reader.size();
    if (image.height * image.width > 1'000'000) return 0;
    FirstCrop crop;
    crop.box.top = bytes[0] * image.height / 256;
    crop.box.left = bytes[1] * image.width / 256;
    crop.box.size = {std::max<int64_t>(bytes[2] * (image.height - crop.box.top) / 256, 1),
                     std::max<int64_t>(bytes[3] * (image.width - crop.box.left) / 256, 1)};
    crop.resized = crop.window.size = {1 + bytes[2] % 31, 1 + bytes[3] % 31};
    crop.may_scale = bytes[0] % 2 == 0;
    crop.is_mirrored = bytes[1] % 2 == 0;
    const int64_t channels = bytes[2] % 2 == 0 ? 1 : 3;
    reshape(out, crop.window.size, channels);
    ImageSink sink(out);
    crop_jpeg(crop, channels, scratch, sink);
  } catch (const fovea::DataError&) {
  }
  return 0;
}
