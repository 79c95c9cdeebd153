#include "fovea/data/adaptive/image_rows.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "fovea/data/adaptive/border.h"
#include "fovea/data/adaptive/smoothing.h"

namespace fovea::data::patching {
namespace {

constexpr int64_t kRowRing = 8;  // a blur of 5 needs 5

template <class T>
void take_every(const T* in, int64_t step, int64_t count, T* out) {
  for (int64_t x = 0; x < count; ++x) out[x] = in[x * step];
}

}  // namespace

ImageRows rows_of(const ImageView& image) {
  return {image.height, image.width, image.channels, [&image](int64_t y) { return image.row(y); }};
}

template <class T>
ChannelRows<T>::ChannelRows(const RegionSource& source, int64_t channel, int64_t band_bytes)
    : source_(source),
      rows_(source, band_bytes),
      first_(channel < 0 ? 0 : channel),
      last_(channel < 0 ? source.format().channels : channel + 1) {
  const RegionFormat& format = source.format();
  const auto width = static_cast<size_t>(format.size.width);
  if constexpr (std::is_same_v<T, float>) {
    floats_.resize(width * static_cast<size_t>(format.channels));
  }
  if (channels() < format.channels) chosen_.resize(width);
}

template <class T>
const T* ChannelRows<T>::row(int64_t y) {
  const RegionFormat& format = source_.format();
  const T* all = nullptr;
  if constexpr (std::is_same_v<T, float>) {
    if (loaded_ != y) row_to_floats(source_, y, rows_.row(y), floats_.data());
    all = floats_.data();
  } else {
    all = rows_.row(y);
  }
  if (chosen_.empty()) {
    loaded_ = y;
    return all;
  }
  if (loaded_ != y) take_every(all + first_, format.channels, format.size.width, chosen_.data());
  loaded_ = y;
  return chosen_.data();
}

template class ChannelRows<uint8_t>;
template class ChannelRows<float>;

FieldBytes::FieldBytes(const FieldRows& field, int64_t blur_size, double black, double white,
                       FieldScratch& scratch)
    : field_(field), blur_size_(blur_size), black_(black), white_(white), scratch_(scratch) {
  const auto width = static_cast<size_t>(field.width);
  const auto channels = static_cast<size_t>(field.channels);
  scratch.plane.resize(width);
  scratch.ring.resize(kRowRing * channels * width);
  scratch.bytes.resize(width);
  scratch.row.resize(channels * width);
}

ImageRows FieldBytes::rows() {
  return {field_.height, field_.width, field_.channels, [this](int64_t y) { return row(y); }};
}

float* FieldBytes::blurred_along(int64_t y, int64_t channel) {
  return scratch_.ring.data() + (y % kRowRing * field_.channels + channel) * field_.width;
}

void FieldBytes::load(int64_t y) {
  for (int64_t c = 0; c < field_.channels; ++c) {
    const auto [first, step] = field_.row(y, c);
    float* out = blurred_along(y, c);
    if (blur_size_ == 1) {
      take_every(first, step, field_.width, out);
      continue;
    }
    const float* values = first;
    if (step > 1) {
      take_every(first, step, field_.width, scratch_.plane.data());
      values = scratch_.plane.data();
    }
    gaussian_blur_along(values, field_.width, blur_size_, out);
  }
}

const uint8_t* FieldBytes::row(int64_t y) {
  const int64_t radius = blur_size_ / 2;
  for (; loaded_ <= std::min(y + radius, field_.height - 1); ++loaded_) load(loaded_);
  for (int64_t c = 0; c < field_.channels; ++c) {
    const float* values = blurred_along(y, c);
    if (blur_size_ > 1) {
      std::array<const float*, 5> around{};
      for (int64_t k = 0; k < blur_size_; ++k) {
        around[static_cast<size_t>(k)] =
            blurred_along(reflect101(y + k - radius, field_.height), c);
      }
      gaussian_blur_across(around.data(), field_.width, blur_size_, scratch_.plane.data());
      values = scratch_.plane.data();
    }
    uint8_t* bytes = field_.channels == 1 ? scratch_.row.data() : scratch_.bytes.data();
    to_bytes(values, field_.width, black_, white_, bytes);
    if (field_.channels == 1) break;
    uint8_t* out = scratch_.row.data() + c;
    const int64_t width = field_.width, step = field_.channels;
    for (int64_t x = 0; x < width; ++x) out[x * step] = bytes[x];
  }
  return scratch_.row.data();
}

}  // namespace fovea::data::patching
