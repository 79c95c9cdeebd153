#include "fovea/data/volume/dicom_codec.h"

#include <algorithm>
#include <array>

#include "fovea/core/error.h"

#ifdef FOVEA_GDCM
#include <gdcmFragment.h>
#include <gdcmJPEG2000Codec.h>
#include <gdcmJPEGCodec.h>
#include <gdcmJPEGLSCodec.h>
#include <gdcmSequenceOfFragments.h>
#include <gdcmTrace.h>

#include <mutex>

#include "fovea/files/byte_reader.h"
#endif

namespace fovea::data {
namespace {

constexpr std::array<std::string_view, 8> kGdcmSyntaxes = {
    "1.2.840.10008.1.2.4.50", "1.2.840.10008.1.2.4.51", "1.2.840.10008.1.2.4.57",
    "1.2.840.10008.1.2.4.70", "1.2.840.10008.1.2.4.80", "1.2.840.10008.1.2.4.81",
    "1.2.840.10008.1.2.4.90", "1.2.840.10008.1.2.4.91"};

}  // namespace

bool is_gdcm_syntax(std::string_view uid) {
  return std::find(kGdcmSyntaxes.begin(), kGdcmSyntaxes.end(), uid) != kGdcmSyntaxes.end();
}

#ifdef FOVEA_GDCM

namespace {

enum class Codec { kJpeg, kJpegLs, kJpeg2000 };

Codec codec_of(std::string_view syntax) {
  if (syntax.starts_with("1.2.840.10008.1.2.4.9")) return Codec::kJpeg2000;
  return syntax.starts_with("1.2.840.10008.1.2.4.8") ? Codec::kJpegLs : Codec::kJpeg;
}

// A compressed frame, and what it says of itself.
struct Stream {
  int64_t rows = 0, columns = 0, samples = 0, bits = 0;
  bool is_lossless_jpeg = false;
  std::optional<bool> is_ybr = {};
  std::vector<uint8_t> bytes;
};

[[noreturn]] void fail_as_damaged(const std::string& source) {
  fail<DataError>("{}: its compressed pixels are damaged", source);
}

// Segments up to the scan (ISO 10918-1, B.1; 14495-1, C.1). Those of applications and comments are
// left out: GDCM ends the program where one of them is odd, and needs none.
// What JFIF's segment and Adobe's say of the colours.
void note_colours(int code, std::span<const uint8_t> body, Stream& stream) {
  const std::string_view text(reinterpret_cast<const char*>(body.data()), body.size());
  if (code == 0xE0 && text.starts_with(std::string_view("JFIF\0", 5)) && !stream.is_ybr)
    stream.is_ybr = true;
  if (code == 0xEE && text.starts_with("Adobe") && body.size() >= 12) stream.is_ybr = body[11] != 0;
}

Stream jpeg_stream(std::span<const uint8_t> frame, bool is_ls, const std::string& source) {
  ByteReader in(frame, source, std::endian::big);
  Stream stream;
  if (in.left() < 4 || in.number<uint16_t>() != 0xFFD8) fail_as_damaged(source);
  stream.bytes = {0xFF, 0xD8};
  while (true) {
    if (in.number<uint8_t>() != 0xFF) fail_as_damaged(source);
    int code = in.number<uint8_t>();
    while (code == 0xFF) code = in.number<uint8_t>();
    const int64_t length = in.number<uint16_t>();
    if (length < 2) fail_as_damaged(source);
    const auto body = in.take(static_cast<uint64_t>(length - 2));
    const bool is_frame = is_ls ? code == 0xF7 : code == 0xC0 || code == 0xC1 || code == 0xC3;
    const bool is_table = code == 0xC4 || code == 0xDB || code == 0xDD || code == 0xF8;
    const bool is_note = (code >= 0xE0 && code <= 0xEF) || code == 0xFE;
    const bool is_scan = code == 0xDA;
    if (is_scan ? stream.rows == 0 : !is_frame && !is_table && !is_note) fail_as_damaged(source);
    if (is_frame) {
      ByteReader fields(body, source, std::endian::big);
      if (stream.rows != 0) fail_as_damaged(source);
      stream.bits = fields.number<uint8_t>();
      stream.rows = fields.number<uint16_t>();
      stream.columns = fields.number<uint16_t>();
      stream.samples = fields.number<uint8_t>();
      stream.is_lossless_jpeg = code == 0xC3;
    }
    if (is_note) {
      note_colours(code, body, stream);
    } else {
      const std::array<int64_t, 4> start = {0xFF, code, length >> 8, length & 0xFF};
      for (const int64_t byte : start) stream.bytes.push_back(static_cast<uint8_t>(byte));
      stream.bytes.insert(stream.bytes.end(), body.begin(), body.end());
    }
    if (is_scan) break;
  }
  const auto scan = in.take(in.left());
  stream.bytes.insert(stream.bytes.end(), scan.begin(), scan.end());
  return stream;
}

// The SIZ segment, which comes first (ISO 15444-1, A.5.1). Samples that are not one for each pixel
// are refused.
Stream jpeg2000_stream(std::span<const uint8_t> frame, const std::string& source) {
  ByteReader in(frame, source, std::endian::big);
  if (in.number<uint16_t>() != 0xFF4F || in.number<uint16_t>() != 0xFF51) fail_as_damaged(source);
  in.skip(4);  // length, capabilities
  const int64_t right = in.number<uint32_t>(), bottom = in.number<uint32_t>();
  const int64_t left = in.number<uint32_t>(), top = in.number<uint32_t>();
  const int64_t tile_width = in.number<uint32_t>(), tile_height = in.number<uint32_t>();
  in.skip(8);
  Stream stream;
  stream.rows = bottom;
  stream.columns = right;
  stream.samples = in.number<uint16_t>();
  if (tile_width < 1 || tile_height < 1 || left != 0 || top != 0) fail_as_damaged(source);
  for (int64_t i = 0; i < stream.samples; ++i) {
    const int64_t bits = (in.number<uint8_t>() & 0x7F) + 1;
    if ((i > 0 && bits != stream.bits) || in.number<uint16_t>() != 0x0101) fail_as_damaged(source);
    stream.bits = bits;
  }
  stream.bytes.assign(frame.begin(), frame.end());
  return stream;
}

// Nothing that is allocated is larger than what the header of the file announced, which was held
// against the limits. A frame that is cut off lacks its end.
Stream checked_stream(std::span<const uint8_t> frame, Codec codec, const DicomPixelForm& form,
                      const std::string& source) {
  Stream stream = codec == Codec::kJpeg2000 ? jpeg2000_stream(frame, source)
                                            : jpeg_stream(frame, codec == Codec::kJpegLs, source);
  auto& bytes = stream.bytes;
  constexpr std::array<uint8_t, 2> kEnd = {0xFF, 0xD9};
  constexpr ptrdiff_t kMaxPadding = 16;  // to an even length, with whatever bytes
  const auto end = std::find_end(bytes.end() - std::min(std::ssize(bytes), kMaxPadding),
                                 bytes.end(), kEnd.begin(), kEnd.end());
  if (end == bytes.end())
    fail<DataError>("{}: compressed pixels without an end; the file is truncated", source);
  bytes.erase(end + 2, bytes.end());
  if (stream.rows != form.rows || stream.columns != form.columns ||
      stream.samples != form.samples || stream.bits < 1 || stream.bits > form.bits_allocated) {
    fail<DataError>(
        "{}: compressed pixels of {} x {}, {} sample(s) of {} bits; expected {} x {}, {} of at "
        "most {}, as the header says",
        source, stream.rows, stream.columns, stream.samples, stream.bits, form.rows, form.columns,
        form.samples, form.bits_allocated);
  }
  return stream;
}

// GDCM writes to the terminal by itself. What it says is "it did not work".
void silence_gdcm() {
  static std::once_flag once;
  std::call_once(once, [] {
    gdcm::Trace::DebugOff();
    gdcm::Trace::WarningOff();
    gdcm::Trace::ErrorOff();
  });
}

gdcm::DataElement fragment_of(const Stream& stream) {
  gdcm::Fragment fragment;
  fragment.SetByteValue(reinterpret_cast<const char*>(stream.bytes.data()),
                        gdcm::VL(static_cast<uint32_t>(stream.bytes.size())));
  const gdcm::SmartPointer<gdcm::SequenceOfFragments> fragments = gdcm::SequenceOfFragments::New();
  fragments->AddFragment(fragment);
  gdcm::DataElement pixels(gdcm::Tag(0x7FE0, 0x0010));
  pixels.SetVR(gdcm::VR::OB);
  pixels.SetValue(*fragments);
  return pixels;
}

template <class T>
gdcm::DataElement decode_as(const Stream& stream, const DicomPixelForm& form,
                            const gdcm::PixelFormat& format, const std::string& source) {
  const std::array<unsigned, 3> sides = {static_cast<unsigned>(form.columns),
                                         static_cast<unsigned>(form.rows), 1};
  T codec;
  codec.SetNumberOfDimensions(2);
  codec.SetDimensions(sides.data());
  codec.SetPlanarConfiguration(0);
  codec.SetPhotometricInterpretation(form.samples == 3
                                         ? gdcm::PhotometricInterpretation::RGB
                                         : gdcm::PhotometricInterpretation::MONOCHROME2);
  codec.SetPixelFormat(format);
  gdcm::DataElement out;
  if (!codec.Decode(fragment_of(stream), out)) fail_as_damaged(source);
  return out;
}

// bytes: of each number that comes out.
gdcm::DataElement decode(Codec codec, const Stream& stream, const DicomPixelForm& form,
                         int64_t bytes, const std::string& source) {
  // The decoder of JPEG is chosen by the bits that are said to be allocated: 8, 12 or 16.
  int64_t allocated = 8 * bytes;
  if (codec == Codec::kJpeg && !stream.is_lossless_jpeg && stream.bits == 12) allocated = 12;
  const auto number = [](int64_t value) { return static_cast<unsigned short>(value); };
  const gdcm::PixelFormat format(number(form.samples), number(allocated), number(stream.bits),
                                 number(stream.bits - 1), form.is_signed ? 1 : 0);
  switch (codec) {
    case Codec::kJpegLs:
      return decode_as<gdcm::JPEGLSCodec>(stream, form, format, source);
    case Codec::kJpeg2000:
      return decode_as<gdcm::JPEG2000Codec>(stream, form, format, source);
    case Codec::kJpeg:
      break;
  }
  return decode_as<gdcm::JPEGCodec>(stream, form, format, source);
}

// Numbers of `bytes` each as those that the header announces, little endian.
std::vector<uint8_t> widened(std::span<const uint8_t> values, int64_t bytes,
                             const DicomPixelForm& form) {
  const int64_t wide = form.bits_allocated / 8;
  if (wide == bytes) return {values.begin(), values.end()};
  std::vector<uint8_t> out(static_cast<size_t>(form.frame_bytes()));
  for (size_t i = 0; i < out.size(); ++i) {
    const auto place = static_cast<int64_t>(i);
    const int64_t number = place / wide, byte = place % wide;
    const uint8_t last = values[static_cast<size_t>(number * bytes + bytes - 1)];
    const uint8_t sign = form.is_signed && last >= 0x80 ? 0xFF : 0;
    out[i] = byte < bytes ? values[static_cast<size_t>(number * bytes + byte)] : sign;
  }
  return out;
}

}  // namespace

bool has_gdcm() { return true; }

DecodedFrame decode_with_gdcm(std::span<const uint8_t> frame, std::string_view syntax,
                              const DicomPixelForm& form, const std::string& source) {
  silence_gdcm();
  const Codec codec = codec_of(syntax);
  const Stream stream = checked_stream(frame, codec, form, source);
  const int64_t bytes = stream.bits <= 8 ? 1 : stream.bits <= 16 ? 2 : 4;
  try {
    const gdcm::DataElement out = decode(codec, stream, form, bytes, source);
    const gdcm::ByteValue* values = out.GetByteValue();
    const auto expected = static_cast<size_t>(form.pixels() * form.samples * bytes);
    if (values == nullptr || values->GetLength() < expected) fail_as_damaged(source);
    const auto* start = reinterpret_cast<const uint8_t*>(values->GetPointer());
    return {widened({start, expected}, bytes, form), stream.is_ybr};
  } catch (const DataError&) {
    throw;
  } catch (const std::exception& error) {
    fail<DataError>("{}: its compressed pixels are damaged ({})", source, error.what());
  }
}

#else

bool has_gdcm() { return false; }

DecodedFrame decode_with_gdcm(std::span<const uint8_t> /*frame*/, std::string_view /*syntax*/,
                              const DicomPixelForm& /*form*/, const std::string& source) {
  fail<DataError>(
      "{}: compressed pixels, and this fovea was built without GDCM; install libgdcm-dev and build "
      "again, or convert it with gdcmconv --raw or dcm2niix",
      source);
}

#endif

}  // namespace fovea::data
