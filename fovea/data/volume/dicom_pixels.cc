#include "fovea/data/volume/dicom_pixels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "fovea/core/error.h"
#include "fovea/data/volume/dicom_rle.h"
#include "fovea/data/volume/stored_volume.h"
#include "fovea/files/unpack_limit.h"

namespace fovea::data {
namespace {

constexpr int64_t kMaxFrames = 1 << 16;
constexpr std::string_view kRleLossless = "1.2.840.10008.1.2.5";

// PS3.6, annex A.
struct SyntaxName {
  std::string_view uid, name;
};
constexpr std::array<SyntaxName, 24> kSyntaxes = {{
    {"1.2.840.10008.1.2", "Implicit VR Little Endian"},
    {"1.2.840.10008.1.2.1", "Explicit VR Little Endian"},
    {"1.2.840.10008.1.2.1.99", "Deflated Explicit VR Little Endian"},
    {"1.2.840.10008.1.2.2", "Explicit VR Big Endian"},
    {kRleLossless, "RLE Lossless"},
    {"1.2.840.10008.1.2.4.50", "JPEG Baseline"},
    {"1.2.840.10008.1.2.4.51", "JPEG Extended"},
    {"1.2.840.10008.1.2.4.57", "JPEG Lossless, Non-Hierarchical"},
    {"1.2.840.10008.1.2.4.70", "JPEG Lossless, First-Order Prediction"},
    {"1.2.840.10008.1.2.4.80", "JPEG-LS Lossless"},
    {"1.2.840.10008.1.2.4.81", "JPEG-LS Near-Lossless"},
    {"1.2.840.10008.1.2.4.90", "JPEG 2000 Lossless"},
    {"1.2.840.10008.1.2.4.91", "JPEG 2000"},
    {"1.2.840.10008.1.2.4.92", "JPEG 2000 Multi-component Lossless"},
    {"1.2.840.10008.1.2.4.93", "JPEG 2000 Multi-component"},
    {"1.2.840.10008.1.2.4.100", "MPEG2 Main Profile"},
    {"1.2.840.10008.1.2.4.102", "MPEG-4 AVC"},
    {"1.2.840.10008.1.2.4.107", "HEVC"},
    {"1.2.840.10008.1.2.4.110", "JPEG XL Lossless"},
    {"1.2.840.10008.1.2.4.111", "JPEG XL JPEG Recompression"},
    {"1.2.840.10008.1.2.4.112", "JPEG XL"},
    {"1.2.840.10008.1.2.4.201", "High-Throughput JPEG 2000 Lossless"},
    {"1.2.840.10008.1.2.4.202", "High-Throughput JPEG 2000 RPCL"},
    {"1.2.840.10008.1.2.4.203", "High-Throughput JPEG 2000"},
}};

bool is_native_syntax(std::string_view uid) {
  return uid == "1.2.840.10008.1.2" || uid == "1.2.840.10008.1.2.1" || uid == "1.2.840.10008.1.2.2";
}

using Bytes = std::span<const uint8_t>;

// The fragments of encapsulated pixels, behind the table of offsets.
struct Fragments {
  std::vector<uint32_t>
      offsets;  // of the frames, from the first fragment's header on; may be empty
  std::vector<Bytes> pieces;
};

Fragments fragments_of(ByteReader& in, const DataElement& element, const std::string& source) {
  if (element.bytes != kUndefinedLength)
    fail<DataError>("{}: compressed pixels of a stated length; damaged", source);
  Fragments fragments;
  const DataElement table = read_element(in, true);
  if (table.tag != kItem)
    fail<DataError>("{}: compressed pixels without a table of offsets; damaged", source);
  ByteReader offsets(in.take(table.bytes), source);
  while (offsets.left() >= 4) fragments.offsets.push_back(offsets.number<uint32_t>());
  for (DataElement item = read_element(in, true); item.tag != kSequenceEnd;
       item = read_element(in, true)) {
    if (item.tag != kItem)
      fail<DataError>("{}: compressed pixels with something else among the fragments", source);
    fragments.pieces.push_back(in.take(item.bytes));
  }
  return fragments;
}

// Whether a stream of one of the JPEG family begins here.
bool begins_frame(Bytes piece) {
  return piece.size() > 1 && piece[0] == 0xFF && (piece[1] == 0xD8 || piece[1] == 0x4F);
}

// Where each frame's fragments begin.
std::vector<size_t> frame_starts(const Fragments& fragments, int64_t frames) {
  const auto& pieces = fragments.pieces;
  std::vector<size_t> starts;
  if (frames == 1) return {0};
  if (static_cast<int64_t>(pieces.size()) == frames) {
    for (size_t i = 0; i < pieces.size(); ++i) starts.push_back(i);
    return starts;
  }
  uint64_t place = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto& offsets = fragments.offsets;
    const bool is_listed = std::find(offsets.begin(), offsets.end(), place) != offsets.end();
    if (offsets.empty() ? begins_frame(pieces[i]) : is_listed) starts.push_back(i);
    place += 8 + pieces[i].size();
  }
  return starts;
}

std::vector<std::vector<uint8_t>> encoded_frames(const Fragments& fragments, int64_t frames,
                                                 const std::string& source) {
  auto starts = frame_starts(fragments, frames);
  if (fragments.pieces.empty() || static_cast<int64_t>(starts.size()) != frames ||
      starts.front() != 0) {
    fail<DataError>(
        "{}: {} frame(s) in the header, but {} in its {} fragment(s) of pixels; some are missing",
        source, frames, fragments.pieces.empty() ? 0 : starts.size(), fragments.pieces.size());
  }
  starts.push_back(fragments.pieces.size());
  std::vector<std::vector<uint8_t>> encoded(static_cast<size_t>(frames));
  for (size_t frame = 0; frame < encoded.size(); ++frame) {
    for (size_t i = starts[frame]; i < starts[frame + 1]; ++i) {
      const Bytes piece = fragments.pieces[i];
      encoded[frame].insert(encoded[frame].end(), piece.begin(), piece.end());
    }
  }
  return encoded;
}

// Bits above the stored ones may hold overlays of old files.
void clear_unused_bits(const DicomPixelForm& form, std::vector<uint8_t>& pixels) {
  const int64_t unused = 32 - form.bits_stored;
  const auto bytes = static_cast<size_t>(form.bits_allocated / 8);
  for (size_t at = 0; at + bytes <= pixels.size(); at += bytes) {
    uint32_t value = 0;
    std::memcpy(&value, pixels.data() + at, bytes);
    value <<= unused;
    value = form.is_signed ? static_cast<uint32_t>(static_cast<int32_t>(value) >> unused)
                           : value >> unused;
    std::memcpy(pixels.data() + at, &value, bytes);
  }
}

// Words of `bytes`, the other way round.
void swap_words(std::vector<uint8_t>& pixels, size_t bytes) {
  for (size_t at = 0; at + bytes <= pixels.size(); at += bytes)
    std::reverse(pixels.begin() + static_cast<ptrdiff_t>(at),
                 pixels.begin() + static_cast<ptrdiff_t>(at + bytes));
}

// Planes of red, green and blue to pixels of three.
std::vector<uint8_t> interleaved(const std::vector<uint8_t>& planes, const DicomPixelForm& form) {
  const auto bytes = static_cast<size_t>(form.bits_allocated / 8);
  const size_t plane = static_cast<size_t>(form.pixels()) * bytes;
  std::vector<uint8_t> pixels(planes.size());
  for (size_t sample = 0; sample < 3; ++sample) {
    for (size_t at = 0; at < plane; ++at)
      pixels[(at / bytes * 3 + sample) * bytes + at % bytes] = planes[sample * plane + at];
  }
  return pixels;
}

// "Y Y Cb Cr" of each two pixels of a row.
std::vector<uint8_t> from_half_colours(Bytes halves) {
  std::vector<uint8_t> pixels;
  pixels.reserve(halves.size() / 4 * 6);
  for (size_t at = 0; at + 4 <= halves.size(); at += 4) {
    for (const size_t pixel : {at, at + 1})
      pixels.insert(pixels.end(), {halves[pixel], halves[at + 2], halves[at + 3]});
  }
  return pixels;
}

// PS3.3, C.7.6.3.1.2, of eight bits; in float, as pydicom.
void ybr_to_rgb(std::vector<uint8_t>& pixels) {
  const auto byte = [](float value) {
    return static_cast<uint8_t>(std::clamp(std::floor(value + 0.5F), 0.0F, 255.0F));
  };
  for (size_t at = 0; at + 3 <= pixels.size(); at += 3) {
    const float y = pixels[at], b = static_cast<float>(pixels[at + 1]) - 128,
                r = static_cast<float>(pixels[at + 2]) - 128;
    pixels[at] = byte(y + 1.402F * r);
    pixels[at + 1] = byte(y - 0.114F * 1.772F / 0.587F * b - 0.299F * 1.402F / 0.587F * r);
    pixels[at + 2] = byte(y + 1.772F * b);
  }
}

// The colours of a table for each number.
std::vector<uint8_t> coloured(const std::vector<uint8_t>& numbers, const DicomPixels& pixels) {
  const DicomPalette& palette = pixels.palette;
  const auto bytes = static_cast<size_t>(pixels.form.bits_allocated / 8);
  const auto last = static_cast<int64_t>(palette.colours[0].size()) - 1;
  std::vector<uint8_t> out;
  for (size_t at = 0; at + bytes <= numbers.size(); at += bytes) {
    uint16_t number = 0;
    std::memcpy(&number, numbers.data() + at, bytes);
    const int64_t entry = std::clamp<int64_t>(number - palette.first, 0, last);
    for (const auto& colour : palette.colours) {
      const uint16_t value = colour[static_cast<size_t>(entry)];
      out.push_back(static_cast<uint8_t>(value & 0xFF));
      if (palette.bits == 16) out.push_back(static_cast<uint8_t>(value >> 8));
    }
  }
  return out;
}

bool has_half_colours(const DicomPixels& pixels) {
  return pixels.photometric == "YBR_FULL_422" && !pixels.is_encapsulated();
}

// A frame as it lies in the file to one as it is handed out.
std::vector<uint8_t> finished(std::vector<uint8_t> frame, const DicomPixels& pixels, bool is_ybr) {
  const DicomPixelForm& form = pixels.form;
  if (has_half_colours(pixels)) frame = from_half_colours(frame);
  if (pixels.is_planar && form.samples == 3 && !pixels.is_encapsulated())
    frame = interleaved(frame, form);
  if (form.bits_stored < form.bits_allocated) clear_unused_bits(form, frame);
  if (is_ybr) ybr_to_rgb(frame);
  if (!pixels.palette.colours[0].empty()) frame = coloured(frame, pixels);
  return frame;
}

std::vector<std::vector<uint8_t>> read_native(ByteReader& in, const DataElement& element,
                                              const DicomPixels& pixels,
                                              const std::string& source) {
  const auto& form = pixels.form;
  const uint64_t expected = native_bytes(pixels);
  const bool is_right = element.bytes == expected || element.bytes == expected + expected % 2;
  if (!is_right || element.bytes == kUndefinedLength) {
    fail<DataError>("{}: {} bytes of pixels; expected {} for {} frame(s) of {} x {} of {} bits",
                    source, element.bytes, expected, pixels.frames, form.rows, form.columns,
                    form.bits_allocated * form.samples);
  }
  const auto bytes = in.take(element.bytes);  // with what makes their number even
  const auto frame_bytes = static_cast<size_t>(expected / static_cast<uint64_t>(pixels.frames));
  // Bytes stand in words of two where their VR says so.
  const size_t word = form.bits_allocated > 8 ? static_cast<size_t>(form.bits_allocated / 8)
                      : element.has_vr("OW")  ? 2
                                              : 1;
  const bool is_ybr = pixels.photometric.starts_with("YBR_FULL");
  std::vector<uint8_t> all(bytes.begin(), bytes.end());
  if (in.order() == std::endian::big && word > 1) swap_words(all, word);
  all.resize(expected);
  std::vector<std::vector<uint8_t>> frames;
  for (size_t at = 0; at < all.size(); at += frame_bytes) {
    const auto start = all.begin() + static_cast<ptrdiff_t>(at);
    frames.push_back(
        finished({start, start + static_cast<ptrdiff_t>(frame_bytes)}, pixels, is_ybr));
  }
  return frames;
}

// A few kilobytes of a blank stack fill any memory.
void check_unpacked(const Fragments& fragments, const DicomPixels& pixels,
                    const std::string& source) {
  uint64_t packed = 0;
  for (const Bytes piece : fragments.pieces) packed += piece.size();
  const auto unpacked = static_cast<uint64_t>(pixels.frames * pixels.form.frame_bytes());
  const auto most = std::max<uint64_t>(kDefaultUnpackedBytes, packed * kMaxUnpackRatio);
  if (unpacked <= most) return;
  fail<DataError>("{}: {} compressed bytes for {} bytes of pixels; expected at most {}", source,
                  packed, unpacked, most);
}

std::vector<std::vector<uint8_t>> read_encapsulated(ByteReader& in, const DataElement& element,
                                                    const DicomPixels& pixels,
                                                    const std::string& source) {
  const Fragments fragments = fragments_of(in, element, source);
  check_unpacked(fragments, pixels, source);
  std::vector<std::vector<uint8_t>> frames;
  for (const auto& encoded : encoded_frames(fragments, pixels.frames, source)) {
    DecodedFrame decoded;
    if (pixels.syntax == kRleLossless) {
      decoded.pixels = decode_dicom_rle(encoded, pixels.form, source);
    } else {
      decoded = decode_with_gdcm(encoded, pixels.syntax, pixels.form, source);
    }
    const bool is_said = pixels.photometric.starts_with("YBR_FULL");
    const bool is_ybr = pixels.form.samples == 3 && decoded.is_ybr.value_or(is_said);
    frames.push_back(finished(std::move(decoded.pixels), pixels, is_ybr));
  }
  return frames;
}

}  // namespace

bool DicomPixels::is_encapsulated() const { return !is_native_syntax(syntax); }

DicomPixelForm DicomPixels::read_form() const {
  DicomPixelForm read = form;
  if (palette.colours[0].empty()) return read;
  read.samples = 3;
  read.bits_allocated = read.bits_stored = palette.bits;
  return read;
}

bool is_read_syntax(const std::string& uid) {
  return is_native_syntax(uid) || uid == kRleLossless || (has_gdcm() && is_gdcm_syntax(uid));
}

std::string_view name_of_syntax(const std::string& uid) {
  const auto known = std::find_if(kSyntaxes.begin(), kSyntaxes.end(),
                                  [&](const SyntaxName& syntax) { return syntax.uid == uid; });
  return known == kSyntaxes.end() ? "unknown" : known->name;
}

void check_pixels(const DicomPixels& pixels, const std::string& source) {
  const DicomPixelForm& form = pixels.form;
  if (form.rows < 1 || form.columns < 1)
    fail<DataError>("{}: {} rows and {} columns", source, form.rows, form.columns);
  if (pixels.frames < 1 || pixels.frames > kMaxFrames)
    fail<DataError>("{}: NumberOfFrames {}; expected 1 to {}", source, pixels.frames, kMaxFrames);
  const std::string& colours = pixels.photometric;
  const bool is_gray = colours.starts_with("MONOCHROME") || colours == "PALETTE COLOR";
  const bool is_colour = colours == "RGB" || colours.starts_with("YBR_FULL") ||
                         colours == "YBR_RCT" || colours == "YBR_ICT";
  if (form.samples != (is_gray ? 1 : 3) || (!is_gray && !is_colour)) {
    fail<DataError>(
        "{}: {} samples a pixel, {}; expected one of MONOCHROME1, MONOCHROME2 or PALETTE COLOR, or "
        "three of RGB, YBR_FULL, YBR_FULL_422, YBR_RCT or YBR_ICT",
        source, form.samples, colours.empty() ? "no color space" : colours);
  }
  if (colours == "PALETTE COLOR" &&
      (pixels.palette.colours[0].empty() || form.is_signed || form.bits_allocated > 16)) {
    fail<DataError>("{}: PALETTE COLOR of {} bits without a colour table, or signed; damaged",
                    source, form.bits_allocated);
  }
  if (colours.starts_with("YBR_FULL") && (form.bits_allocated != 8 || form.is_signed)) {
    fail<DataError>("{}: {} of {} bits; expected 8, unsigned", source, colours,
                    form.bits_allocated);
  }
  if (has_half_colours(pixels) && form.columns % 2 != 0)
    fail<DataError>("{}: YBR_FULL_422 of {} columns; expected an even number", source,
                    form.columns);
  const std::array<int64_t, 4> sizes = {form.samples, pixels.frames, form.rows, form.columns};
  if (checked_voxels(sizes) < 0) {
    fail<DataError>("{}: {} values; expected at most {}", source, fmt::join(sizes, " x "),
                    kMaxVolumeValues);
  }
}

uint64_t native_bytes(const DicomPixels& pixels) {
  const auto bytes = static_cast<uint64_t>(pixels.frames * pixels.form.frame_bytes());
  return has_half_colours(pixels) ? bytes / 3 * 2 : bytes;
}

std::vector<std::vector<uint8_t>> read_frames(ByteReader& in, const DataElement& element,
                                              const DicomPixels& pixels,
                                              const std::string& source) {
  return pixels.is_encapsulated() ? read_encapsulated(in, element, pixels, source)
                                  : read_native(in, element, pixels, source);
}

}  // namespace fovea::data
