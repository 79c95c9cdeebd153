#include "fovea/data/adaptive/region_detail.h"

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/data/adaptive/detail_values.h"
#include "fovea/data/adaptive/region_rows.h"

namespace fovea::data::patching {
namespace {

// Sums of a cell must stay below 2^32: squares of bytes, of up to 64 channels.
constexpr int64_t kLargestCell = 16;

int64_t cell_side(const AdaptivePatchingConfig& config) {
  return std::min(config.min_leaf, kLargestCell);
}

void start_cells(const ImageSize& size, const AdaptivePatchingConfig& config, int64_t count,
                 std::vector<CellSums>& cells) {
  const auto rows = cuts_of(size.height, cell_side(config));
  const auto columns = cuts_of(size.width, cell_side(config));
  cells.resize(static_cast<size_t>(count));
  for (CellSums& sums : cells) sums.start(rows, columns);
}

void add_noise(const ImageSize& size, RandomStream& random, CellSums& cells) {
  std::vector<uint16_t> row(static_cast<size_t>(size.width));
  for (int64_t y = 0; y < size.height; ++y) {
    for (uint16_t& value : row) value = draw_noise(random);
    cells.add_row(y, row.data(), 1);
  }
}

void add_squares(const ImageRows& rows, std::vector<CellSums>& cells) {
  std::vector<uint32_t> squares(static_cast<size_t>(rows.width));
  for (int64_t y = 0; y < rows.height; ++y) {
    const uint8_t* row = rows.row(y);
    std::fill(squares.begin(), squares.end(), 0u);
    for (int64_t i = 0; i < rows.width * rows.channels; ++i) {
      squares[static_cast<size_t>(i / rows.channels)] += uint32_t{row[i]} * row[i];
    }
    cells[0].add_row(y, squares.data(), 1);
    for (int64_t c = 0; c < rows.channels; ++c) {
      cells[static_cast<size_t>(c + 1)].add_row(y, row + c, rows.channels);
    }
  }
}

}  // namespace

int64_t region_detail_bytes(const RegionFormat& format, int64_t channels,
                            const AdaptivePatchingConfig& config, bool is_noise) {
  const auto& [height, width] = format.size;
  if (config.criterion == "canny" && !is_noise) return 2 * height * ((width + 63) / 64) * 8;
  const auto count = [&](int64_t size) {
    return static_cast<int64_t>(cuts_of(size, cell_side(config)).size()) - 1;
  };
  const int64_t tables = config.criterion == "variance" && !is_noise ? channels + 1 : 1;
  return tables * 4 * count(height) * count(width);
}

void RegionDetail::build(const RegionSource& source, int64_t channel,
                         const AdaptivePatchingConfig& config, const DetailDraw& draw,
                         RandomStream* random, int64_t band_bytes) {
  const ImageSize& size = source.format().size;
  // What is not made of bytes is blurred on its way to them.
  const bool is_bytes = source.format().type == ScalarType::kUint8;
  DetailRows detail_rows(source, channel, config, blur_size(draw), band_bytes);
  const ImageRows rows = {size.height, size.width, detail_rows.channels(),
                          [&](int64_t y) { return detail_rows.row(y); }};
  const int64_t blur = is_bytes ? blur_size(draw) : 1;
  if (draw.is_noise) {
    FOVEA_CHECK(random != nullptr, "a tree over noise, but no random stream was given");
    kind_ = Kind::kNoise;
    start_cells(size, config, 1, cells_);
    add_noise(size, *random, cells_[0]);
  } else if (config.criterion == "canny") {
    kind_ = Kind::kEdges;
    cells_.clear();
    const auto bits = canny(rows, canny_options(blur, draw), canny_);
    canny_.candidates = {};
    edges_.build(bits.data(), size.height, size.width);
  } else if (config.criterion == "gradient") {
    kind_ = Kind::kGradients;
    start_cells(size, config, 1, cells_);
    const auto take = [&](int64_t y, const int16_t* row) { cells_[0].add_row(y, row, 1); };
    gradient_magnitude(rows, blur, take, canny_);
  } else if (config.criterion == "variance") {
    kind_ = Kind::kVariance;
    start_cells(size, config, rows.channels + 1, cells_);
    add_squares(rows, cells_);
  } else {
    fail_for_images(config);
  }
  for (CellSums& sums : cells_) sums.finish();
}

int64_t RegionDetail::value(const Box& box) const {
  const auto sum = [&](const CellSums& cells) {
    return cells.sum(box.y, box.x, box.height, box.width);
  };
  switch (kind_) {
    case Kind::kEdges:
      return static_cast<int64_t>(
          edges_.sum({box.y, box.y + box.height, box.x, box.x + box.width}));
    case Kind::kGradients:
      return static_cast<int64_t>(sum(cells_[0]));
    case Kind::kNoise:
      return noise_value(sum(cells_[0]));
    case Kind::kVariance:
      break;
  }
  SquaredDeviation deviation(sum(cells_[0]), box.voxels());
  for (size_t i = 1; i < cells_.size(); ++i) deviation.add_channel(sum(cells_[i]));
  return deviation.value();
}

}  // namespace fovea::data::patching
