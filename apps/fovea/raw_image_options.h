// The options that say what a file without a header holds.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/fovea/command_line.h"
#include "fovea/data/large_image/region_source.h"

namespace fovea::app {

struct RawImageArguments {
  std::string dtype;  // empty: the file has a header
  std::vector<int64_t> shape;
  std::string axes = "HW";
  uint64_t offset = 0;
  bool big_endian = false;

  bool is_given() const { return !dtype.empty(); }
};

// --dtype, --shape, --axes, --offset and --big-endian, with `prefix` before their words where these
// mean something else to the command.
void add_raw_image_options(Command command, RawImageArguments& arguments,
                           const std::string& prefix = {});

// An image file or a slide, or a raw file where the options say what it holds. Throws DataError,
// ConfigError.
std::unique_ptr<data::RegionSource> open_large_image(const std::string& path,
                                                     const RawImageArguments& arguments,
                                                     const data::SlideScale& scale = {});

}  // namespace fovea::app
