// Where on a slide there is tissue.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "fovea/data/image/image_view.h"
#include "fovea/data/large_image/slide.h"

namespace fovea::data {

// Of HSV, over 255: (largest - smallest) / largest of a pixel's colours, as Pillow rounds it, down.
uint8_t saturation(const uint8_t* rgb);

// Otsu's threshold of values 0 to 255, of each of which there are so many: the value above which
// the rest differs most from it, as scikit-image's threshold_otsu. Of one value only, that value.
int otsu_threshold(std::span<const int64_t> counts);

// Cells over a slide, row by row, and which of them are tissue: at least half of their pixels are.
struct TissueCells {
  ImageSize grid;                     // cells along each side, at most 512
  std::vector<uint32_t> tissue = {};  // numbers of cells, ascending

  // The part of the slide, [0, 1) along each side, where cell `cell` begins, and where it ends.
  double top(uint32_t cell) const;
  double left(uint32_t cell) const;
  double height() const { return 1.0 / static_cast<double>(grid.height); }
  double width() const { return 1.0 / static_cast<double>(grid.width); }
};

// Pixels of the slide's smallest level whose saturation is above Otsu's threshold are tissue:
// stained it has colour, glass has not. Reads that level once. Throws DataError.
TissueCells find_tissue(const std::shared_ptr<const Slide>& slide);

}  // namespace fovea::data
