#include "fovea/data/image/webp.h"

#include <webp/decode.h>
#include <webp/demux.h>

#include <array>
#include <cstring>
#include <memory>
#include <string_view>

#include "fovea/core/error.h"
#include "fovea/data/image/decode.h"
#include "fovea/data/image/exif.h"
#include "fovea/data/image/image_view.h"
#include "fovea/files/byte_reader.h"

namespace fovea::data {
namespace {

struct DemuxerFree {
  void operator()(WebPDemuxer* demuxer) const { WebPDemuxDelete(demuxer); }
};

[[noreturn]] void fail_as_damaged_webp() {
  fail<DataError>("the WebP is truncated or damaged; fetch the file again or remove it");
}

bool is_text(std::span<const uint8_t> bytes, size_t at, std::string_view text) {
  return bytes.size() >= at + text.size() &&
         std::memcmp(bytes.data() + at, text.data(), text.size()) == 0;
}

// A frame into its place on the canvas.
void decode_frame(const WebPIterator& frame, Image& image) {
  const int64_t stride = 3 * image.width;
  const int64_t offset = frame.y_offset * stride + 3 * int64_t{frame.x_offset};
  if (frame.x_offset + frame.width > image.width || frame.y_offset + frame.height > image.height)
    fail_as_damaged_webp();
  const auto room = static_cast<size_t>(std::ssize(image.pixels) - offset);
  if (!frame.complete ||
      WebPDecodeRGBInto(frame.fragment.bytes, frame.fragment.size, image.pixels.data() + offset,
                        room, static_cast<int>(stride)) == nullptr) {
    fail_as_damaged_webp();
  }
}

int orientation_in(const WebPDemuxer* demuxer) {
  WebPChunkIterator chunk{};
  int orientation = 1;
  if (WebPDemuxGetChunk(demuxer, "EXIF", 1, &chunk) != 0) {
    std::span<const uint8_t> exif(chunk.chunk.bytes, chunk.chunk.size);
    if (is_text(exif, 0, std::string_view("Exif\0\0", 6))) exif = exif.subspan(6);
    orientation = exif_orientation(exif);
  }
  WebPDemuxReleaseChunkIterator(&chunk);
  return orientation;
}

}  // namespace

bool is_webp(std::span<const uint8_t> bytes) {
  return is_text(bytes, 0, "RIFF") && is_text(bytes, 8, "WEBP");
}

void decode_webp(std::span<const uint8_t> bytes, Image& image) {
  const WebPData data{bytes.data(), bytes.size()};
  WebPDemuxState state = WEBP_DEMUX_PARSE_ERROR;
  const std::unique_ptr<WebPDemuxer, DemuxerFree> demuxer(WebPDemuxPartial(&data, &state));
  if (!demuxer || state == WEBP_DEMUX_PARSE_ERROR || state == WEBP_DEMUX_PARSING_HEADER)
    fail_as_damaged_webp();
  const int64_t width = WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_WIDTH);
  const int64_t height = WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_HEIGHT);
  if (width < 1 || height < 1) fail_as_damaged_webp();
  check_announced_pixels(width, height);
  WebPIterator frame{};
  const bool has_frame = WebPDemuxGetFrame(demuxer.get(), 1, &frame) != 0;
  const std::unique_ptr<WebPIterator, decltype(&WebPDemuxReleaseIterator)> release(
      &frame, &WebPDemuxReleaseIterator);
  if (!has_frame || state != WEBP_DEMUX_DONE) fail_as_damaged_webp();
  reshape(image, {height, width}, 3);
  const bool is_whole = frame.width == width && frame.height == height;
  if (!is_whole) std::memset(image.pixels.data(), 0, image.pixels.size());
  decode_frame(frame, image);
  Image scratch;
  orient(image, orientation_in(demuxer.get()), scratch);
}

std::optional<ImageSize> webp_file_size(const HeaderFile& file) {
  constexpr uint8_t kHasExif = 0x08;
  std::array<uint8_t, 30> head = {};
  if (!file.read(0, head)) return std::nullopt;
  const auto number = [&](size_t at, int bytes) {
    int64_t value = 0;
    for (int i = bytes; i-- > 0;) value = value << 8 | head[at + static_cast<size_t>(i)];
    return value;
  };
  if (is_text(head, 12, "VP8X")) {
    if ((head[20] & kHasExif) != 0) return std::nullopt;
    return ImageSize{number(27, 3) + 1, number(24, 3) + 1};
  }
  if (is_text(head, 12, "VP8L") && head[20] == 0x2F) {
    const int64_t bits = number(21, 4);
    return ImageSize{(bits >> 14 & 0x3FFF) + 1, (bits & 0x3FFF) + 1};
  }
  if (is_text(head, 12, "VP8 ") && is_text(head, 23, "\x9D\x01\x2A"))
    return ImageSize{number(28, 2) & 0x3FFF, number(26, 2) & 0x3FFF};
  return std::nullopt;
}

}  // namespace fovea::data
