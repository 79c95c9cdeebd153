// Operations on the values of 8-bit images, place by place: Pillow's ImageOps and ImageEnhance and
// torchvision's hue, with the same bytes. Every function takes [H, W, C] and gives [H, W, C]; `out`
// must not be the image that `in` looks at. Those that mix channels throw DataError unless C is 1
// or 3.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "fovea/data/image/image_view.h"

namespace fovea::data {

// What each byte becomes.
using ByteTable = std::array<uint8_t, 256>;

// out = table[in], for all channels.
void apply_table(const ImageView& in, const ByteTable& table, Image& out);
// out = tables[c][in].
void apply_tables(const ImageView& in, std::span<const ByteTable> tables, Image& out);

ByteTable invert_table();
// Values from the threshold on are inverted.
ByteTable solarize_table(double threshold);
// `add` goes to values below the threshold, up to 255.
ByteTable solarize_add_table(int add, int threshold = 128);
// Keeps the highest bits, 0 to 8.
ByteTable posterize_table(int bits);

// Stretches each channel to 0 and 255.
void auto_contrast(const ImageView& in, Image& out);
// Evens out each channel's histogram.
void equalize(const ImageView& in, Image& out);

// The enhancements: factor 1 is the image itself, 0 is black, the mean gray, the gray image and the
// smoothed image.
void adjust_brightness(const ImageView& in, double factor, Image& out);
void adjust_contrast(const ImageView& in, double factor, Image& out);
void adjust_saturation(const ImageView& in, double factor, Image& out);
void adjust_sharpness(const ImageView& in, double factor, Image& out);

// Pillow's Image.blend: `from` at alpha 0, `to` at 1, fractions cut off. Sizes must agree.
void blend_images(const ImageView& from, const ImageView& to, double alpha, Image& out);

// Turns the hue by `factor` of the circle, -0.5 to 0.5, in 8-bit HSV; gray images stay as they are.
void adjust_hue(const ImageView& in, double factor, Image& out);
// Luma in every channel.
void to_grayscale(const ImageView& in, Image& out);

void copy_image(const ImageView& in, Image& out);

}  // namespace fovea::data
