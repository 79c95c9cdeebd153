#include "fovea/data/sample.h"

#include "fovea/data/image/decode.h"

namespace fovea::data {

VolumeSize Sample::size() const {
  if (is<Volume>()) return volume().size;
  if (is<Image>()) return {1, image().height, image().width};
  const auto& stored = as<StoredImage>();
  return {1, stored.height, stored.width};
}

int64_t Sample::channels() const {
  if (is<Volume>()) return volume().channels;
  return is<Image>() ? image().channels : as<StoredImage>().channels;
}

void decode(Sample& sample) {
  if (sample.is<EncodedImage>()) {
    const auto bytes = sample.as<EncodedImage>().bytes;
    decode_image(bytes, sample.become<Image>());
  } else if (sample.is<StoredImage>()) {
    const auto& stored = sample.as<StoredImage>();
    Image& image = sample.become<Image>();
    image.height = stored.height;
    image.width = stored.width;
    image.channels = stored.channels;
    image.pixels.assign(stored.pixels.begin(), stored.pixels.end());
  }
}

}  // namespace fovea::data
