#include "fovea/data/image/tiff_colours.h"

#include <algorithm>
#include <cstring>

#include "fovea/core/error.h"
#include "fovea/data/image/gray_and_colour.h"

namespace fovea::data {
namespace {

constexpr uint16_t kBytePalette = 256;  // entries below it in all: an old program's, of bytes

std::string name_of_compression(uint16_t compression) {
  const TIFFCodec* codec = TIFFFindCODEC(compression);
  return codec == nullptr ? std::to_string(compression) : codec->name;
}

}  // namespace

TiffColours::TiffColours(const TiffHandle& handle) {
  TIFF* tiff = handle.get();
  bits_ = tiff_tag<uint16_t>(tiff, TIFFTAG_BITSPERSAMPLE, 1);
  samples_ = tiff_tag<uint16_t>(tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
  is_planar_ = samples_ > 1 && tiff_tag<uint16_t>(tiff, TIFFTAG_PLANARCONFIG,
                                                  PLANARCONFIG_CONTIG) == PLANARCONFIG_SEPARATE;
  const auto format = tiff_tag<uint16_t>(tiff, TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT);
  const bool is_unsigned = format == SAMPLEFORMAT_UINT || format == SAMPLEFORMAT_VOID;
  const bool has_bits = bits_ == 1 || bits_ == 2 || bits_ == 4 || bits_ == 8 || bits_ == 16;
  if (!is_unsigned || !has_bits) {
    fail<DataError>(
        "a TIFF of {} bits a sample{}; an image has 1, 2, 4, 8 or 16 bits, unsigned: convert it, "
        "or "
        "read it as an array (format: npy)",
        bits_,
        format == SAMPLEFORMAT_IEEEFP ? " of floating point"
        : is_unsigned                 ? ""
                                      : ", signed");
  }
  read_compression(tiff);
  read_kind(handle);
}

void TiffColours::read_compression(TIFF* tiff) {
  const auto compression = tiff_tag<uint16_t>(tiff, TIFFTAG_COMPRESSION, COMPRESSION_NONE);
  if (TIFFIsCODECConfigured(compression) != 0) return;
  fail<DataError>(
      "a TIFF of compression {}, which the libtiff of this machine does not have; save it with "
      "deflate, LZW or JPEG",
      name_of_compression(compression));
}

void TiffColours::read_kind(const TiffHandle& handle) {
  TIFF* tiff = handle.get();
  const auto compression = tiff_tag<uint16_t>(tiff, TIFFTAG_COMPRESSION, COMPRESSION_NONE);
  const auto photometric = tiff_tag<uint16_t>(
      tiff, TIFFTAG_PHOTOMETRIC, samples_ >= 3 ? PHOTOMETRIC_RGB : PHOTOMETRIC_MINISBLACK);
  switch (photometric) {
    case PHOTOMETRIC_MINISBLACK:
    case PHOTOMETRIC_MINISWHITE:
      kind_ = photometric == PHOTOMETRIC_MINISBLACK ? Kind::kGray : Kind::kInvertedGray;
      return check_extra_samples(tiff, 1);
    case PHOTOMETRIC_PALETTE:
      kind_ = Kind::kPalette;
      channels_ = 3;
      read_palette(handle);
      return check_extra_samples(tiff, 1);
    case PHOTOMETRIC_RGB:
      kind_ = Kind::kRgb;
      channels_ = 3;
      return check_extra_samples(tiff, 3);
    case PHOTOMETRIC_SEPARATED:
      if (samples_ != 4 || tiff_tag<uint16_t>(tiff, TIFFTAG_INKSET, INKSET_CMYK) != INKSET_CMYK)
        break;
      kind_ = Kind::kCmyk;
      channels_ = 3;
      return;
    case PHOTOMETRIC_YCBCR:
      if (samples_ != 3 || bits_ != 8) break;
      kind_ = Kind::kRgb;
      channels_ = 3;
      if (compression == COMPRESSION_JPEG && !is_planar_) {
        TIFFSetField(tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
        return;
      }
      // It turns pixels by itself otherwise.
      TIFFSetField(tiff, TIFFTAG_ORIENTATION, ORIENTATION_TOPLEFT);
      needs_whole_blocks_ = true;
      return;
    default:
      break;
  }
  fail<DataError>(
      "a TIFF of photometric interpretation {} with {} samples a pixel; expected gray, palette, "
      "RGB, "
      "CMYK or YCbCr: convert it",
      photometric, samples_);
}

// An alpha channel is dropped, and the fourth sample of RGB whatever it is called, as Pillow does;
// more are measurements, which must not vanish without a word.
void TiffColours::check_extra_samples(TIFF* tiff, int64_t colours) {
  uint16_t count = 0;
  const uint16_t* kinds = nullptr;
  if (TIFFGetFieldDefaulted(tiff, TIFFTAG_EXTRASAMPLES, &count, &kinds) != 1) count = 0;
  const int64_t extra = samples_ - colours;
  const uint16_t kind = count > 0 && kinds != nullptr ? kinds[0] : EXTRASAMPLE_UNSPECIFIED;
  const bool is_alpha = kind == EXTRASAMPLE_ASSOCALPHA || kind == EXTRASAMPLE_UNASSALPHA;
  if (extra < 0 || extra > 1 || (extra == 1 && colours == 1 && !is_alpha)) {
    fail<DataError>(
        "a TIFF of {} samples a pixel; an image is gray or RGB, with an alpha channel at most: "
        "save "
        "the channels as an array and read it with format: npy",
        samples_);
  }
  if (extra == 1 && kind == EXTRASAMPLE_ASSOCALPHA && kind_ == Kind::kRgb)
    kind_ = Kind::kPremultipliedRgb;
}

void TiffColours::read_palette(const TiffHandle& handle) {
  uint16_t *red = nullptr, *green = nullptr, *blue = nullptr;
  if (bits_ > 8 || samples_ > 2 ||
      TIFFGetField(handle.get(), TIFFTAG_COLORMAP, &red, &green, &blue) != 1) {
    handle.fail_at("a TIFF with a palette that cannot be read");
  }
  const size_t count = size_t{1} << bits_;
  palette_.resize(count);
  const auto is_byte = [count](const uint16_t* values) {
    return std::all_of(values, values + count, [](uint16_t value) { return value < kBytePalette; });
  };
  const int shift = is_byte(red) && is_byte(green) && is_byte(blue) ? 0 : 8;
  for (size_t i = 0; i < count; ++i) {
    palette_[i] = {static_cast<uint8_t>(red[i] >> shift), static_cast<uint8_t>(green[i] >> shift),
                   static_cast<uint8_t>(blue[i] >> shift)};
  }
}

void TiffColours::unpack(const uint8_t* raw, int64_t count, uint8_t* out, int64_t stride) const {
  if (bits_ == 8) {
    if (stride == 1) {
      std::memcpy(out, raw, static_cast<size_t>(count));
      return;
    }
    for (int64_t i = 0; i < count; ++i) out[i * stride] = raw[i];
    return;
  }
  if (bits_ == 16) {  // libtiff has made them the machine's
    for (int64_t i = 0; i < count; ++i) {
      uint16_t value = 0;
      std::memcpy(&value, raw + 2 * i, sizeof(value));
      out[i * stride] = static_cast<uint8_t>(value >> 8);
    }
    return;
  }
  const int most = (1 << bits_) - 1;
  const int scale = kind_ == Kind::kPalette ? 1 : 255 / most;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t bit = i * bits_;
    const int value = raw[bit / 8] >> (8 - bits_ - bit % 8) & most;
    out[i * stride] = static_cast<uint8_t>(value * scale);
  }
}

void TiffColours::write(const uint8_t* samples, int64_t count, uint8_t* out) const {
  const int64_t stride = needs_whole_blocks_ ? 3 : samples_;
  switch (kind_) {
    case Kind::kGray:
      for (int64_t i = 0; i < count; ++i) out[i] = samples[i * stride];
      return;
    case Kind::kInvertedGray:
      for (int64_t i = 0; i < count; ++i) out[i] = static_cast<uint8_t>(255 - samples[i * stride]);
      return;
    case Kind::kPalette:
      for (int64_t i = 0; i < count; ++i)
        std::memcpy(out + 3 * i, palette_[samples[i * stride]].data(), 3);
      return;
    case Kind::kRgb:
      if (stride == 3) {
        std::memcpy(out, samples, static_cast<size_t>(3 * count));
        return;
      }
      for (int64_t i = 0; i < count; ++i) std::memcpy(out + 3 * i, samples + i * stride, 3);
      return;
    case Kind::kPremultipliedRgb:  // as Pillow divides
      for (int64_t i = 0; i < count; ++i, samples += stride) {
        const int alpha = samples[3];
        for (int c = 0; c < 3; ++c) {
          out[3 * i + c] = alpha == 0
                               ? uint8_t{0}
                               : static_cast<uint8_t>(std::min(255, samples[c] * 255 / alpha));
        }
      }
      return;
    case Kind::kCmyk:
      cmyk_to_rgb(samples, count, /*is_inverted=*/false, out);
      return;
  }
}

}  // namespace fovea::data
