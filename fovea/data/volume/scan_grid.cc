#include "fovea/data/volume/scan_grid.h"

#include "fovea/core/error.h"

namespace fovea::data {

void lay_out(const ScanGrid& grid, const ScanOptions& options, StoredVolume& stored) {
  const bool is_flat = grid.sizes.size() <= 2;
  std::vector<int64_t> sizes = grid.sizes, strides = grid.strides;
  sizes.resize(3, 1);
  strides.resize(3, 1);
  stored.channels = grid.channels;
  stored.size = {sizes[0], sizes[1], sizes[2]};
  stored.strides = {grid.channel_stride, strides[0], strides[1], strides[2]};
  stored.spacing = grid.spacing;
  if (is_flat) {
    stored.size = {1, sizes[0], sizes[1]};
    stored.strides = {grid.channel_stride, 1, strides[0], strides[1]};
    stored.spacing = {1, grid.spacing[0], grid.spacing[1]};
  }
  if (options.frame) {
    if (*options.frame < 0 || *options.frame >= grid.channels) {
      fail<DataError>(
          "{}: frame {} is wanted, but there are {}; files must not change during a run",
          stored.source, *options.frame, grid.channels);
    }
    stored.first = *options.frame * grid.channel_stride;
    stored.channels = 1;
  }
  stored.affine = grid.affine;
  if (!grid.has_orientation || is_flat) return;
  stored.orientation = orientation_of(grid.affine);
  if (options.canonical) make_canonical(stored);
}

}  // namespace fovea::data
