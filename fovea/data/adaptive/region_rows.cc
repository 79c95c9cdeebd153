#include "fovea/data/adaptive/region_rows.h"

#include <algorithm>
#include <array>

#include "fovea/data/adaptive/border.h"

namespace fovea::data::patching {
namespace {

constexpr int64_t kRowRing = 8;  // a blur of 5 needs 5

}  // namespace

DetailRows::DetailRows(const RegionSource& source, int64_t channel,
                       const AdaptivePatchingConfig& config, int64_t blur_size, int64_t band_bytes)
    : source_(source),
      config_(config),
      rows_(source, band_bytes),
      first_(channel < 0 ? 0 : channel),
      last_(channel < 0 ? source.format().channels : channel + 1),
      blur_size_(blur_size) {
  const RegionFormat& format = source.format();
  const auto width = static_cast<size_t>(format.size.width);
  const auto count = width * static_cast<size_t>(channels());
  if (format.type == ScalarType::kUint8) {
    if (channels() < format.channels) out_.resize(count);
    return;
  }
  values_.resize(width * static_cast<size_t>(format.channels));
  plane_.resize(width);
  ring_.resize(kRowRing * count);
  bytes_.resize(width);
  out_.resize(count);
}

const uint8_t* DetailRows::row(int64_t y) {
  const RegionFormat& format = source_.format();
  const int64_t width = format.size.width;
  if (format.type == ScalarType::kUint8) {
    const uint8_t* row = rows_.row(y);
    if (channels() == format.channels) return row;
    for (int64_t x = 0; x < width; ++x) {
      out_[static_cast<size_t>(x)] = row[x * format.channels + first_];
    }
    return out_.data();
  }
  const int64_t radius = blur_size_ / 2;
  for (; loaded_ <= std::min(y + radius, format.size.height - 1); ++loaded_) load(loaded_);
  for (int64_t c = 0; c < channels(); ++c) {
    std::array<const float*, 5> rows{};
    for (int64_t k = 0; k < blur_size_; ++k) {
      rows[static_cast<size_t>(k)] =
          blurred_along(reflect101(y + k - radius, format.size.height), c);
    }
    const float* values = rows[0];
    if (blur_size_ > 1) {
      gaussian_blur_across(rows.data(), width, blur_size_, plane_.data());
      values = plane_.data();
    }
    to_bytes(values, width, config_.value_range[0], config_.value_range[1], bytes_.data());
    for (int64_t x = 0; x < width; ++x) {
      out_[static_cast<size_t>(x * channels() + c)] = bytes_[static_cast<size_t>(x)];
    }
  }
  return out_.data();
}

const float* DetailRows::blurred_along(int64_t y, int64_t channel) {
  const int64_t width = source_.format().size.width;
  return ring_.data() + (y % kRowRing * channels() + channel) * width;
}

void DetailRows::load(int64_t y) {
  const RegionFormat& format = source_.format();
  const int64_t width = format.size.width;
  row_to_floats(source_, y, rows_.row(y), values_.data());
  for (int64_t c = 0; c < channels(); ++c) {
    float* out = ring_.data() + (y % kRowRing * channels() + c) * width;
    float* values = blur_size_ > 1 ? plane_.data() : out;
    for (int64_t x = 0; x < width; ++x) {
      values[x] = values_[static_cast<size_t>(x * format.channels + first_ + c)];
    }
    if (blur_size_ > 1) gaussian_blur_along(values, width, blur_size_, out);
  }
}

}  // namespace fovea::data::patching
