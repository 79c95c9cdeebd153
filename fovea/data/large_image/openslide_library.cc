#ifdef FOVEA_OPENSLIDE_LIBRARY
#include "fovea/data/large_image/openslide_library.h"

#include <dlfcn.h>

#include "fovea/core/error.h"

namespace fovea::data {
namespace {

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function != nullptr) return;
  fail<ConfigError>("{} has no {}; expected the OpenSlide that this program was built with",
                    FOVEA_OPENSLIDE_LIBRARY, name);
}

OpenSlideLibrary load() {
  void* const library = dlopen(FOVEA_OPENSLIDE_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fail<ConfigError>(
        "whole-slide images are read with {}, which cannot be loaded ({}); install OpenSlide "
        "(Debian: libopenslide0), or save the level that you need as a tiled TIFF",
        FOVEA_OPENSLIDE_LIBRARY, dlerror());
  }
  OpenSlideLibrary found{};
  find(library, "openslide_open", found.open);
  find(library, "openslide_close", found.close);
  find(library, "openslide_get_error", found.get_error);
  find(library, "openslide_get_level_count", found.get_level_count);
  find(library, "openslide_get_level_dimensions", found.get_level_dimensions);
  find(library, "openslide_get_level_downsample", found.get_level_downsample);
  find(library, "openslide_get_property_value", found.get_property_value);
  find(library, "openslide_read_region", found.read_region);
  return found;
}

}  // namespace

const OpenSlideLibrary& openslide_library() {
  static const OpenSlideLibrary library = load();
  return library;
}

}  // namespace fovea::data
#endif
