#include "fovea/data/large_image/tissue.h"

#include <algorithm>
#include <array>
#include <memory>

#include "fovea/core/error.h"

namespace fovea::data {
namespace {

constexpr int64_t kMostCells = 512;  // along a side
constexpr int64_t kTissueBandBytes = int64_t{16} << 20;

template <class TakeRow>
void walk_level(const RegionSource& level, const TakeRow& take_row) {
  RegionRows rows(level, kTissueBandBytes);
  for (int64_t y = 0; y < level.format().size.height; ++y) take_row(y, rows.row(y));
}

}  // namespace

uint8_t saturation(const uint8_t* rgb) {
  const int most = std::max({rgb[0], rgb[1], rgb[2]});
  const int least = std::min({rgb[0], rgb[1], rgb[2]});
  return most == 0 ? uint8_t{0} : static_cast<uint8_t>((most - least) * 255 / most);
}

int otsu_threshold(std::span<const int64_t> counts) {
  double all = 0, sum = 0;
  for (size_t value = 0; value < counts.size(); ++value) {
    all += static_cast<double>(counts[value]);
    sum += static_cast<double>(value) * static_cast<double>(counts[value]);
  }
  int best = 0;
  double best_variance = -1, below = 0, sum_below = 0;
  for (size_t value = 0; value < counts.size(); ++value) {
    below += static_cast<double>(counts[value]);
    sum_below += static_cast<double>(value) * static_cast<double>(counts[value]);
    if (counts[value] == 0) continue;
    const double above = all - below;
    const double difference = above > 0 ? sum_below / below - (sum - sum_below) / above : 0;
    const double variance = below * above * difference * difference;
    if (variance > best_variance) {
      best_variance = variance;
      best = static_cast<int>(value);
    }
  }
  return best;
}

double TissueCells::top(uint32_t cell) const {
  return static_cast<double>(static_cast<int64_t>(cell) / grid.width) /
         static_cast<double>(grid.height);
}

double TissueCells::left(uint32_t cell) const {
  return static_cast<double>(static_cast<int64_t>(cell) % grid.width) /
         static_cast<double>(grid.width);
}

TissueCells find_tissue(const std::shared_ptr<const Slide>& slide) {
  const auto level = open_slide_level(slide, std::ssize(slide->levels()) - 1);
  const ImageSize size = level->format().size;
  const int64_t height = size.height, width = size.width;
  std::array<int64_t, 256> counts = {};
  walk_level(*level, [&](int64_t /*y*/, const uint8_t* rgb) {
    for (int64_t x = 0; x < width; ++x) ++counts[saturation(rgb + 3 * x)];
  });
  const int threshold = otsu_threshold(counts);
  TissueCells cells{.grid = {std::min(height, kMostCells), std::min(width, kMostCells)}};
  const auto num_cells = static_cast<size_t>(cells.grid.height * cells.grid.width);
  std::vector<int32_t> tissue(num_cells), all(num_cells);
  walk_level(*level, [&](int64_t y, const uint8_t* rgb) {
    const int64_t row = y * cells.grid.height / height * cells.grid.width;
    for (int64_t x = 0; x < width; ++x) {
      const auto cell = static_cast<size_t>(row + x * cells.grid.width / width);
      ++all[cell];
      tissue[cell] += saturation(rgb + 3 * x) > threshold;
    }
  });
  for (size_t cell = 0; cell < num_cells; ++cell) {
    if (tissue[cell] > 0 && 2 * tissue[cell] >= all[cell]) {
      cells.tissue.push_back(static_cast<uint32_t>(cell));
    }
  }
  return cells;
}

}  // namespace fovea::data
