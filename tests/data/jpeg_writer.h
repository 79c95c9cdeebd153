// JPEG files of every kind that libjpeg can write, made up for tests.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>
// jpeglib.h needs <cstdio> first.
#include <jpeglib.h>

#include "fovea/data/image/image_view.h"

namespace fovea::data::testing {

struct JpegOptions {
  int channels = 3;  // 1, 3 or 4 (CMYK)
  int horizontal_sampling = 2;
  int vertical_sampling = 2;
  bool is_progressive = false;
  int quality = 85;
  bool is_smooth = false;
  uint8_t orientation = 1;  // EXIF
};

// Slopes, stripes and specks, so that neighbouring blocks differ in every channel; is_smooth:
// slopes alone.
inline std::vector<uint8_t> write_jpeg(ImageSize size, const JpegOptions& options) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long count = 0;  // NOLINT: libjpeg's type
  jpeg_mem_dest(&info, &bytes, &count);
  info.image_height = static_cast<JDIMENSION>(size.height);
  info.image_width = static_cast<JDIMENSION>(size.width);
  info.input_components = options.channels;
  info.in_color_space = options.channels == 1   ? JCS_GRAYSCALE
                        : options.channels == 3 ? JCS_RGB
                                                : JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, options.quality, TRUE);
  if (options.channels == 3) {
    info.comp_info[0].h_samp_factor = options.horizontal_sampling;
    info.comp_info[0].v_samp_factor = options.vertical_sampling;
  }
  if (options.is_progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  const uint8_t exif[] = {'E', 'x', 'i', 'f',  0,    0, 'M', 'M', 0, 42, 0, 0, 0,
                          8,   0,   1,   0x01, 0x12, 0, 3,   0,   0, 0,  1, 0, options.orientation,
                          0,   0,   0,   0,    0,    0};
  if (options.orientation != 1) jpeg_write_marker(&info, JPEG_APP0 + 1, exif, sizeof exif);
  std::vector<uint8_t> row(static_cast<size_t>(size.width * options.channels));
  for (int64_t y = 0; y < size.height; ++y) {
    for (int64_t x = 0; x < size.width; ++x) {
      for (int c = 0; c < options.channels; ++c) {
        if (options.is_smooth) {
          row[x * options.channels + c] =
              static_cast<uint8_t>(20 + x * (100 + 30 * c) / size.width + y * 90 / size.height);
          continue;
        }
        const int64_t speck = (x * 7919 + y * 104729 + c * 31) % 97;
        row[x * options.channels + c] =
            static_cast<uint8_t>(128 + (x * (c + 2) + y * (5 - c)) % 90 - (speck < 9 ? 60 : 0));
      }
    }
    JSAMPROW pointer = row.data();
    jpeg_write_scanlines(&info, &pointer, 1);
  }
  jpeg_finish_compress(&info);
  std::vector<uint8_t> result(bytes, bytes + count);
  jpeg_destroy_compress(&info);
  std::free(bytes);
  return result;
}

}  // namespace fovea::data::testing
