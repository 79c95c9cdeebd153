// Mixup and cutmix of whole batches with timm's formulas (timm 1.0.31, mixup.py), planned on the
// global batch: what happens to a row is a function of (seed, position, row) alone, so that every
// number of ranks and every micro-batch gives the same result.
//
// Row r of a global batch of B rows is mixed with row B - 1 - r. That row may belong to another
// rank. No pixels are exchanged: the plan names the partner's row, and with the loader's order
// (position + row -> sample) and augmentation_stream the rank reads and transforms the partner's
// sample itself, then calls `mixup_row` with both. A rank that holds both rows uses `mixup_batch`.
// With `timm_local` partners come from the rank's own rows, in reverse order, as in timm, and no
// sample is read twice.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fovea/data/batch.h"
#include "fovea/data/transforms/image/transform_scratch.h"
#include "fovea/data/transforms/mixup_config.h"

namespace fovea::data {

// What becomes of one row. Pixels: mixup gives lam * row + (1 - lam) * partner; cutmix takes `box`
// from the partner. Targets: lam and 1 - lam.
struct RowMixup {
  int64_t row = 0;      // in the global batch
  int64_t partner = 0;  // in the global batch
  double lam = 1;       // timm's float32 values but in mode batch
  bool is_cutmix = false;
  PixelBox box = {};

  // Whether the partner's pixels are needed.
  bool is_mixed() const {
    return lam != 1.0 || (is_cutmix && box.size.height * box.size.width > 0);
  }
};

// The box of timm's rand_bbox for `lam` around pixel (y, x), cut off at the edges.
PixelBox cutmix_box(ImageSize size, double lam, int64_t y, int64_t x);
// The same around a uniform centre.
PixelBox draw_cutmix_box(ImageSize size, double lam, RandomStream& random);
// The box of timm's rand_bbox_minmax: sides from shares, inside the image.
PixelBox draw_cutmix_box_minmax(ImageSize size, double least, double largest, RandomStream& random);

// Immutable; serves all threads.
class BatchMixup {
 public:
  // size: [H, W] of the images. Throws ConfigError: nothing to mix with, shares that leave no side.
  BatchMixup(const MixupConfig& config, uint64_t seed, ImageSize size);

  // Row `row` of the global batch that starts at `position` and has `num_rows` rows.
  RowMixup plan_row(int64_t position, int64_t row, int64_t num_rows) const;
  // All rows of this process, in its order; partners as the config says.
  std::vector<RowMixup> plan(int64_t position, int64_t num_rows,
                             const BatchShare& share = {}) const;

 private:
  RowMixup draw(RandomStream random, bool is_batch) const;
  RowMixup plan_in(PhiloxKey key, int64_t position, int64_t row, int64_t num_rows) const;

  MixupConfig config_;
  uint64_t seed_;
  ImageSize size_;
};

// row, partner: [C, H, W], not mixed yet; row is changed in place.
void mixup_row(const RowMixup& mixup, ImageSize size, std::span<const float> partner,
               std::span<float> row);

// images: [B, C, H, W] of the rows of `plan`, all partners among them; changed in place.
// scratch: kept from call to call. Throws Error: a partner that is not there.
void mixup_batch(std::span<const RowMixup> plan, ImageSize size, std::span<float> images,
                 std::vector<float>& scratch);

// Soft targets [B, num_classes]: label and partner's label with smoothing (off = smoothing /
// num_classes, on = 1 - smoothing + off), weighted by lam and 1 - lam. labels, partner_labels: [B].
// Throws DataError: a label outside [0, num_classes).
void mixup_targets(std::span<const RowMixup> plan, std::span<const int64_t> labels,
                   std::span<const int64_t> partner_labels, int64_t num_classes, double smoothing,
                   std::span<float> targets);

}  // namespace fovea::data
