// Headerless binary images, read by region.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fovea/data/large_image/region_source.h"

namespace fovea::data {

struct RawRegionLayout {
  ScalarType type = ScalarType::kUint8;
  std::vector<int64_t> shape = {};  // sizes, the last one fastest
  std::string axes = "HW";          // what they are: HW, HWC or CHW
  uint64_t offset = 0;              // where the numbers begin, in bytes
  std::endian order = std::endian::little;
};

// The file is read at offsets and never mapped: mapped pages would count as memory of the process.
// Throws DataError: no such file; its size is not offset + numbers; ConfigError: axes or sizes that
// cannot be.
std::unique_ptr<RegionSource> open_raw_regions(const std::string& path,
                                               const RawRegionLayout& layout);

}  // namespace fovea::data
