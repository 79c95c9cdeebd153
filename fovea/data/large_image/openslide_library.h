// OpenSlide, loaded when the first slide is opened: it stands on some forty libraries (cairo, GLib,
// ICU ...), which every start of a program that is linked with it would wait for.
#pragma once

#include <openslide.h>

#include <cstdint>

namespace fovea::data {

// Its functions, under their names without "openslide_".
struct OpenSlideLibrary {
  decltype(&openslide_open) open;
  decltype(&openslide_close) close;
  decltype(&openslide_get_error) get_error;
  decltype(&openslide_get_level_count) get_level_count;
  decltype(&openslide_get_level_dimensions) get_level_dimensions;
  decltype(&openslide_get_level_downsample) get_level_downsample;
  decltype(&openslide_get_property_value) get_property_value;
  decltype(&openslide_read_region) read_region;
};

// Thread-safe. Throws ConfigError: this machine does not have the library that the build had.
const OpenSlideLibrary& openslide_library();

}  // namespace fovea::data
