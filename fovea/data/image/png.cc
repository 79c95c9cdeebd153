#include "fovea/data/image/png.h"

#include <spng.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <memory>

#include "fovea/core/error.h"
#include "fovea/data/image/decode.h"
#include "fovea/data/image/exif.h"

namespace fovea::data {
namespace {

constexpr std::array<uint8_t, 8> kSignature = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
constexpr uint32_t kMaxSide = std::numeric_limits<int32_t>::max();  // what the format allows
constexpr size_t kMaxChunkBytes = size_t{16} << 20;  // of what is not pixels: profiles, texts

// Bytes out of a byte in, at most. A header that promises more belongs to a cut or hostile file;
// nothing is allocated for it.
constexpr int64_t kMaxDeflateRatio = 1032;

struct ContextFree {
  void operator()(spng_ctx* context) const { spng_ctx_free(context); }
};
using Context = std::unique_ptr<spng_ctx, ContextFree>;

Context make_context(int flags) {
  Context context(spng_ctx_new(flags));
  if (!context) throw std::bad_alloc();
  return context;
}

void check_read(int code) {
  if (code == 0) return;
  if (code == SPNG_EMEM) throw std::bad_alloc();
  if (code == SPNG_IO_EOF || code == SPNG_EIDAT_TOO_SHORT) {
    fail<DataError>("the PNG is truncated; fetch the file again or remove it");
  }
  fail<DataError>("damaged PNG ({}); fetch the file again or remove it", spng_strerror(code));
}

int64_t samples_per_pixel(uint8_t color_type) {
  if (color_type == SPNG_COLOR_TYPE_TRUECOLOR_ALPHA) return 4;
  if (color_type == SPNG_COLOR_TYPE_TRUECOLOR) return 3;
  return color_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA ? 2 : 1;
}

bool has_one_channel(uint8_t color_type) {
  return color_type == SPNG_COLOR_TYPE_GRAYSCALE || color_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA;
}

}  // namespace

bool is_png(std::span<const uint8_t> bytes) {
  return bytes.size() >= kSignature.size() &&
         std::equal(kSignature.begin(), kSignature.end(), bytes.begin());
}

void decode_png(std::span<const uint8_t> bytes, Image& image) {
  const Context context = make_context(0);
  check_read(spng_set_image_limits(context.get(), kMaxSide, kMaxSide));
  check_read(spng_set_chunk_limits(context.get(), kMaxChunkBytes, kMaxChunkBytes));
  check_read(spng_set_png_buffer(context.get(), bytes.data(), bytes.size()));
  spng_ihdr header{};
  check_read(spng_get_ihdr(context.get(), &header));
  const int64_t pixels = int64_t{header.width} * header.height;
  check_announced_pixels(header.width, header.height);
  // Without rows for their filters and interlacing: at least this much comes out of the stream.
  const int64_t bits = pixels * samples_per_pixel(header.color_type) * header.bit_depth;
  if (bits / 8 / kMaxDeflateRatio > static_cast<int64_t>(bytes.size()))
    check_read(SPNG_EIDAT_TOO_SHORT);
  const bool is_gray = has_one_channel(header.color_type);
  // libspng makes one channel of plain gray only; other gray images come out as RGB and are thinned
  // afterwards.
  const bool is_thinned =
      is_gray && (header.color_type != SPNG_COLOR_TYPE_GRAYSCALE || header.bit_depth == 16);
  image.height = header.height;
  image.width = header.width;
  image.channels = is_gray ? 1 : 3;
  image.pixels.resize(static_cast<size_t>(pixels * (is_gray && !is_thinned ? 1 : 3)));
  check_read(spng_decode_image(context.get(), image.pixels.data(), image.pixels.size(),
                               is_gray && !is_thinned ? SPNG_FMT_G8 : SPNG_FMT_RGB8, 0));
  // Pixels are whole before their last chunk is: only reading on to the end sees its checksum.
  check_read(spng_decode_chunks(context.get()));
  if (is_thinned) {
    for (int64_t i = 1; i < pixels; ++i) image.pixels[i] = image.pixels[3 * i];
    image.pixels.resize(static_cast<size_t>(pixels));
  }
  spng_exif exif{};
  if (spng_get_exif(context.get(), &exif) == 0) {
    Image scratch;
    orient(image, exif_orientation({reinterpret_cast<const uint8_t*>(exif.data), exif.length}),
           scratch);
  }
}

std::vector<uint8_t> encode_png(const Image& image) {
  constexpr std::array<uint8_t, 4> kColorTypes = {
      SPNG_COLOR_TYPE_GRAYSCALE, SPNG_COLOR_TYPE_GRAYSCALE_ALPHA, SPNG_COLOR_TYPE_TRUECOLOR,
      SPNG_COLOR_TYPE_TRUECOLOR_ALPHA};
  FOVEA_CHECK(image.channels >= 1 && image.channels <= 4, "a PNG of {} channels; expected 1 to 4",
              image.channels);
  FOVEA_CHECK(
      image.height > 0 && image.width > 0 && image.height <= kMaxSide && image.width <= kMaxSide &&
          static_cast<int64_t>(image.pixels.size()) == image.height * image.width * image.channels,
      "a PNG of {}x{}x{} from {} bytes", image.height, image.width, image.channels,
      image.pixels.size());
  const Context context = make_context(SPNG_CTX_ENCODER);
  spng_set_option(context.get(), SPNG_ENCODE_TO_BUFFER, 1);
  spng_ihdr header{};
  header.height = static_cast<uint32_t>(image.height);
  header.width = static_cast<uint32_t>(image.width);
  header.bit_depth = 8;
  header.color_type = kColorTypes[static_cast<size_t>(image.channels - 1)];
  int code = spng_set_ihdr(context.get(), &header);
  if (code == 0) {
    code = spng_encode_image(context.get(), image.pixels.data(), image.pixels.size(), SPNG_FMT_PNG,
                             SPNG_ENCODE_FINALIZE);
  }
  size_t size = 0;
  std::unique_ptr<uint8_t, decltype(&std::free)> bytes(nullptr, &std::free);
  if (code == 0)
    bytes.reset(static_cast<uint8_t*>(spng_get_png_buffer(context.get(), &size, &code)));
  if (code != 0) fail("cannot encode a PNG ({})", spng_strerror(code));
  return {bytes.get(), bytes.get() + size};
}

}  // namespace fovea::data
