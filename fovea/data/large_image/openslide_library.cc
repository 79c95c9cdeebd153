#ifdef FOVEA_OPENSLIDE_LIBRARY
#include "fovea/data/large_image/openslide_library.h"

#include "fovea/core/loaded_library.h"

namespace fovea::data {
namespace {

constexpr const char* kExpected = "the OpenSlide that this program was built with";

OpenSlideLibrary load() {
  const LoadedLibrary library(FOVEA_OPENSLIDE_LIBRARY);
  library.check_there(
      "whole-slide images are read",
      "install OpenSlide (Debian: libopenslide0), or save the level that you need as a tiled TIFF");
  OpenSlideLibrary found{};
  library.require("openslide_open", kExpected, found.open);
  library.require("openslide_close", kExpected, found.close);
  library.require("openslide_get_error", kExpected, found.get_error);
  library.require("openslide_get_level_count", kExpected, found.get_level_count);
  library.require("openslide_get_level_dimensions", kExpected, found.get_level_dimensions);
  library.require("openslide_get_level_downsample", kExpected, found.get_level_downsample);
  library.require("openslide_get_property_value", kExpected, found.get_property_value);
  library.require("openslide_read_region", kExpected, found.read_region);
  return found;
}

}  // namespace

const OpenSlideLibrary& openslide_library() {
  static const OpenSlideLibrary library = load();
  return library;
}

}  // namespace fovea::data
#endif
