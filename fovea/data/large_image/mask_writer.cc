// H, W sides of the mask; h, w of its overview; K classes.
#include "fovea/data/large_image/mask_writer.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "fovea/core/error.h"
#include "fovea/data/image/png.h"
#include "fovea/data/pictures/pictures.h"
#include "fovea/files/atomic_file.h"

namespace fovea::data {
namespace {

constexpr int64_t kMostByteClasses = 256;
constexpr int64_t kMostClasses = 65536;

ScalarType type_of_classes(int64_t num_classes) {
  if (num_classes < 1 || num_classes > kMostClasses) {
    fail<ConfigError>("a mask of {} classes; a TIFF mask holds 1 to {}", num_classes, kMostClasses);
  }
  return num_classes <= kMostByteClasses ? ScalarType::kUint8 : ScalarType::kUint16;
}

}  // namespace

MaskWriter::MaskWriter(const std::string& path, const MaskWriterOptions& options)
    : options_(options),
      tiff_(path, {options.size, 1, type_of_classes(options.num_classes), options.compression}),
      pixels_of_classes_(static_cast<size_t>(options.num_classes)),
      overview_size_(shrunk_size(options.size, options.overview_side)),
      counts_(static_cast<size_t>(overview_size_.width * options.num_classes)) {
  overview_.reserve(static_cast<size_t>(overview_size_.height * overview_size_.width));
}

void MaskWriter::write_rows(std::span<const int32_t> classes, int64_t count) {
  const int64_t width = options_.size.width;
  FOVEA_CHECK(count > 0 && static_cast<int64_t>(classes.size()) == count * width,
              "{} classes for {} rows of {}", classes.size(), count, width);
  FOVEA_CHECK(next_row_ + count <= options_.size.height, "more than {} rows", options_.size.height);
  const int64_t row_bytes = width * bytes_of(type_of_classes(options_.num_classes));
  stored_.resize(static_cast<size_t>(row_bytes));
  for (int64_t y = 0; y < count; ++y) {
    count_row(classes.data() + y * width);
    store_row(classes.data() + y * width, stored_.data());
    tiff_.write_rows(stored_, 1);
  }
}

void MaskWriter::count_row(const int32_t* classes) {
  const auto num_classes = static_cast<uint32_t>(options_.num_classes);
  int32_t* counts = counts_.data();
  for (int64_t column = 0; column < overview_size_.width; ++column, counts += num_classes) {
    const auto [first, end] = shrunk_part(column, overview_size_.width, options_.size.width);
    for (int64_t x = first; x < end; ++x) {
      const auto label = static_cast<uint32_t>(classes[x]);
      FOVEA_CHECK(label < num_classes, "class {} at row {}, column {}; expected 0 to {}",
                  classes[x], next_row_, x, num_classes - 1);
      ++counts[label];
    }
  }
  const auto row = static_cast<int64_t>(overview_.size()) / overview_size_.width;
  const auto part = shrunk_part(row, overview_size_.height, options_.size.height);
  if (++next_row_ == part.end) end_overview_row();
}

void MaskWriter::end_overview_row() {
  const auto num_classes = static_cast<size_t>(options_.num_classes);
  for (auto counts = counts_.begin(); counts != counts_.end();
       counts += static_cast<int64_t>(num_classes)) {
    const auto end = counts + static_cast<int64_t>(num_classes);
    overview_.push_back(static_cast<int32_t>(std::max_element(counts, end) - counts));
    for (size_t label = 0; label < num_classes; ++label) pixels_of_classes_[label] += counts[label];
  }
  std::fill(counts_.begin(), counts_.end(), 0);
}

void MaskWriter::store_row(const int32_t* classes, uint8_t* out) const {
  const int64_t width = options_.size.width;
  if (options_.num_classes <= kMostByteClasses) {
    for (int64_t x = 0; x < width; ++x) out[x] = static_cast<uint8_t>(classes[x]);
    return;
  }
  for (int64_t x = 0; x < width; ++x) {
    const auto label = static_cast<uint16_t>(classes[x]);
    std::memcpy(out + 2 * x, &label, sizeof(label));
  }
}

Image MaskWriter::finish(const std::string& overview, const Image& picture) {
  std::optional<AtomicFile> png;
  Image tinted;
  if (!overview.empty()) {
    const auto& [height, width] = overview_size_;
    FOVEA_CHECK(picture.height == height && picture.width == width,
                "an overview of {}x{} over a picture of {}x{}", height, width, picture.height,
                picture.width);
    FOVEA_CHECK(next_row_ == options_.size.height, "{} rows of {}", next_row_,
                options_.size.height);
    tinted = to_rgb(ImageView(picture));
    tint({{1, height, width}, overview_}, tinted);
    const auto bytes = encode_png(tinted);
    png.emplace(overview);
    png->write(std::as_bytes(std::span(bytes)));
  }
  tiff_.finish();
  if (png) png->commit();
  return tinted;
}

}  // namespace fovea::data
