// Gray to colour and back, pixel by pixel: what images of another number of channels go through.
#pragma once

#include <cstdint>

namespace fovea::data {

// ITU-R 601 luma in fixed point, 0 to 255, as Pillow's conversion to gray.
inline int32_t luma(int32_t r, int32_t g, int32_t b) {
  return (r * 19595 + g * 38470 + b * 7471 + 0x8000) >> 16;
}
inline uint8_t luma(const uint8_t* rgb) {
  return static_cast<uint8_t>(luma(rgb[0], rgb[1], rgb[2]));
}

// rgb: [count, 3], gray: [count].
inline void rgb_to_gray(const uint8_t* rgb, int64_t count, uint8_t* gray) {
  for (int64_t i = 0; i < count; ++i) gray[i] = luma(rgb + 3 * i);
}

// gray: [count], rgb: [count, 3].
inline void gray_to_rgb(const uint8_t* gray, int64_t count, uint8_t* rgb) {
  for (int64_t i = 0; i < count; ++i, rgb += 3) rgb[0] = rgb[1] = rgb[2] = gray[i];
}

// cmyk: [count, 4], rgb: [count, 3]. The conversion is the plain one, without a colour profile,
// with Pillow's rounding. is_inverted: the bytes are 255 - ink, as Adobe's programs store them.
inline void cmyk_to_rgb(const uint8_t* cmyk, int64_t count, bool is_inverted, uint8_t* rgb) {
  const uint8_t flip = is_inverted ? 255 : 0;
  for (int64_t i = 0; i < count; ++i, cmyk += 4, rgb += 3) {
    const int light = 255 - (cmyk[3] ^ flip);
    for (int c = 0; c < 3; ++c) {
      const int product = (cmyk[c] ^ flip) * light + 128;
      rgb[c] = static_cast<uint8_t>(light - ((product + (product >> 8)) >> 8));
    }
  }
}

}  // namespace fovea::data
