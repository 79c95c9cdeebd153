#include "fovea/data/volume/dicom_rle.h"

#include <algorithm>
#include <array>

#include "fovea/core/error.h"
#include "fovea/files/byte_reader.h"

namespace fovea::data {
namespace {

constexpr size_t kRleHeaderBytes = 64, kMaxSegments = 15;

// One byte of every value: PackBits (PS3.5, G.3.1). Bytes behind the last value are padding.
void decode_segment(std::span<const uint8_t> segment, uint8_t* out, int64_t stride, int64_t pixels,
                    const std::string& source) {
  ByteReader in(segment, source);
  for (int64_t done = 0; done < pixels;) {
    const int control = in.number<int8_t>();
    if (control == -128) continue;
    const int64_t count =
        std::min<int64_t>(control >= 0 ? control + 1 : 1 - control, pixels - done);
    if (control >= 0) {
      const auto literal = in.take(static_cast<uint64_t>(count));
      for (int64_t i = 0; i < count; ++i) out[(done + i) * stride] = literal[i];
    } else {
      const auto value = in.number<uint8_t>();
      for (int64_t i = 0; i < count; ++i) out[(done + i) * stride] = value;
    }
    done += count;
  }
}

}  // namespace

std::vector<uint8_t> decode_dicom_rle(std::span<const uint8_t> frame, const DicomPixelForm& form,
                                      const std::string& source) {
  const int64_t pixels = form.pixels(), bytes = form.bits_allocated / 8;
  ByteReader in(frame, source);
  ByteReader header(in.take(kRleHeaderBytes), source);
  const auto segments = header.number<uint32_t>();
  if (segments != static_cast<uint64_t>(bytes * form.samples) || segments > kMaxSegments) {
    fail<DataError>("{}: {} RLE segments; expected {}, one for each byte of a pixel", source,
                    segments, bytes * form.samples);
  }
  std::array<uint64_t, kMaxSegments + 1> offsets = {};
  for (size_t i = 0; i < segments; ++i) offsets[i] = header.number<uint32_t>();
  offsets[segments] = frame.size();
  // PackBits makes at most 128 bytes of two.
  if (static_cast<uint64_t>(pixels) / 64 > frame.size())
    fail<DataError>("{}: {} bytes of RLE are too few for {} pixels", source, frame.size(), pixels);
  std::vector<uint8_t> out(static_cast<size_t>(form.frame_bytes()));
  for (size_t i = 0; i < segments; ++i) {
    if (offsets[i] < kRleHeaderBytes || offsets[i] > offsets[i + 1] ||
        offsets[i + 1] > frame.size()) {
      fail<DataError>("{}: RLE segment {} at bytes {} to {} of {}; the file is damaged", source, i,
                      offsets[i], offsets[i + 1], frame.size());
    }
    const auto segment = frame.subspan(offsets[i], offsets[i + 1] - offsets[i]);
    // Sample after sample, the highest byte of each first.
    const auto place = static_cast<int64_t>(i);
    uint8_t* start = out.data() + place / bytes * bytes + (bytes - 1 - place % bytes);
    decode_segment(segment, start, segments, pixels, source);
  }
  return out;
}

}  // namespace fovea::data
