#include "fovea/data/volume/dicom.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/printable.h"
#include "fovea/data/volume/dicom_rle.h"
#include "fovea/files/byte_reader.h"
#include "fovea/files/byte_source.h"

namespace fovea::data {
namespace {

constexpr size_t kPreambleBytes = 128;
constexpr uint32_t kUndefined = 0xFFFFFFFF;
constexpr int kMaxSequenceDepth = 16;
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 31;
constexpr uint64_t kUsualHeaderBytes = 8192;

constexpr uint32_t kItem = 0xFFFEE000, kItemEnd = 0xFFFEE00D, kSequenceEnd = 0xFFFEE0DD;
constexpr uint32_t kPixelData = 0x7FE00010;

constexpr std::string_view kImplicit = "1.2.840.10008.1.2", kExplicit = "1.2.840.10008.1.2.1";
constexpr std::string_view kRle = "1.2.840.10008.1.2.5";

// Names of what is refused: PS3.6, annex A.
struct Syntax {
  std::string_view uid, name;
};
constexpr std::array<Syntax, 19> kRefused = {{
    {"1.2.840.10008.1.2.1.99", "Deflated Explicit VR Little Endian"},
    {"1.2.840.10008.1.2.2", "Explicit VR Big Endian"},
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
    {"1.2.840.10008.1.2.4.112", "JPEG XL"},
    {"1.2.840.10008.1.2.4.201", "High-Throughput JPEG 2000 Lossless"},
    {"1.2.840.10008.1.2.4.203", "High-Throughput JPEG 2000"},
}};

struct DataElement {
  uint32_t tag = 0;
  char vr[2] = {};
  uint32_t bytes = 0;

  bool has_vr(std::string_view name) const { return std::string_view(vr, 2) == name; }
};

uint32_t read_tag(ByteReader& in) {
  const auto group = in.number<uint16_t>();
  return uint32_t{group} << 16 | in.number<uint16_t>();
}

DataElement read_element(ByteReader& in, bool is_explicit) {
  DataElement element;
  element.tag = read_tag(in);
  const bool is_delimiter = element.tag >> 16 == 0xFFFE;  // these have no VR
  if (!is_explicit || is_delimiter) {
    element.bytes = in.number<uint32_t>();
    return element;
  }
  std::memcpy(element.vr, in.text(2).data(), 2);
  for (const char c : element.vr) {
    if (c < 'A' || c > 'Z') {
      fail<DataError>("{}: a damaged element ({:04x},{:04x}) at offset {}", in.source(),
                      element.tag >> 16, element.tag & 0xFFFF, in.position());
    }
  }
  constexpr std::array<std::string_view, 13> kLong = {"OB", "OD", "OF", "OL", "OV", "OW", "SQ",
                                                      "SV", "UC", "UN", "UR", "UT", "UV"};
  if (std::find(kLong.begin(), kLong.end(), std::string_view(element.vr, 2)) != kLong.end()) {
    in.skip(2);
    element.bytes = in.number<uint32_t>();
  } else {
    element.bytes = in.number<uint16_t>();
  }
  return element;
}

void skip_sequence(ByteReader& in, bool is_explicit, int depth);

void skip_element(ByteReader& in, const DataElement& element, bool is_explicit, int depth) {
  if (element.bytes == kUndefined) {
    // The contents of UN are in implicit VR (PS3.5, 6.2.2).
    skip_sequence(in, is_explicit && !element.has_vr("UN"), depth + 1);
  } else {
    in.skip(element.bytes);
  }
}

// Items of undefined or stated length up to the sequence's end.
void skip_sequence(ByteReader& in, bool is_explicit, int depth) {
  if (depth > kMaxSequenceDepth)
    fail<DataError>("{}: sequences nested more than {} deep", in.source(), kMaxSequenceDepth);
  while (true) {
    const DataElement item = read_element(in, is_explicit);
    if (item.tag == kSequenceEnd) return;
    if (item.tag != kItem) {
      fail<DataError>("{}: ({:04x},{:04x}) at offset {}, where an item is expected; damaged",
                      in.source(), item.tag >> 16, item.tag & 0xFFFF, in.position());
    }
    if (item.bytes != kUndefined) {
      in.skip(item.bytes);
      continue;
    }
    for (DataElement inner = read_element(in, is_explicit); inner.tag != kItemEnd;
         inner = read_element(in, is_explicit)) {
      skip_element(in, inner, is_explicit, depth);
    }
  }
}

std::string_view stripped(std::string_view text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\0')) text.remove_suffix(1);
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  return text;
}

// What the parser collects from the elements; see DicomSlice for what it becomes.
class SliceParser {
 public:
  // file_bytes: nothing where `bytes` are the whole file, whose pixels are wanted.
  SliceParser(std::span<const uint8_t> bytes, const std::string& source,
              std::optional<uint64_t> file_bytes = {})
      : source_(source), in_(bytes, source_), file_bytes_(file_bytes) {}

  DicomSlice parse() {
    slice_.source = printable(source_);
    read_meta();
    bool has_pixels = false;
    while (!has_pixels && !in_.at_end()) {
      const DataElement element = read_element(in_, is_explicit_);
      if (element.tag == kPixelData) {
        read_pixels(element);
        has_pixels = true;
      } else if (element.bytes == kUndefined) {
        skip_element(in_, element, is_explicit_, 0);
      } else {
        read_value(element.tag, in_.take(element.bytes));
      }
    }
    if (!has_pixels) fail<DataError>("{}: no pixel data; expected an image", source_);
    return std::move(slice_);
  }

 private:
  // Group 2 is explicit little endian whatever follows, and states its own length first.
  void read_meta() {
    if (in_.left() < kPreambleBytes + 4) fail<DataError>("{}: too short for a DICOM file", source_);
    in_.skip(kPreambleBytes);
    if (in_.text(4) != "DICM")
      fail<DataError>("{}: not a DICOM file: it has no DICM at offset 128", source_);
    const DataElement length = read_element(in_, true);
    if (length.tag != 0x00020000 || length.bytes != 4)
      fail<DataError>("{}: the file's meta information has no length; damaged", source_);
    const auto meta_bytes = in_.number<uint32_t>();
    ByteReader meta(in_.take(meta_bytes), source_);
    while (!meta.at_end()) {
      const DataElement element = read_element(meta, true);
      const auto value = stripped(meta.text(element.bytes));
      if (element.tag == 0x00020010) syntax_ = printable(value.substr(0, 64));
    }
    is_explicit_ = syntax_ != kImplicit;
    if (syntax_ == kImplicit || syntax_ == kExplicit || syntax_ == kRle) return;
    const auto known = std::find_if(kRefused.begin(), kRefused.end(),
                                    [&](const Syntax& syntax) { return syntax.uid == syntax_; });
    fail<DataError>(
        "{}: transfer syntax {} ({}); expected uncompressed little endian or RLE: convert it, for "
        "example with dcmdjpeg, dcmdjpls, gdcmconv --raw or dcm2niix",
        source_, syntax_.empty() ? "is missing" : syntax_,
        known == kRefused.end() ? "unknown" : known->name);
  }

  int64_t unsigned_short(std::span<const uint8_t> value) const {
    return ByteReader(value, source_).number<uint16_t>();
  }

  // Decimal text, values divided by backslashes (VR DS and IS).
  template <size_t N>
  std::array<double, N> decimals(std::span<const uint8_t> value, std::string_view name) const {
    std::string_view text(reinterpret_cast<const char*>(value.data()), value.size());
    std::array<double, N> numbers = {};
    for (size_t i = 0; i < N; ++i) {
      const size_t end = std::min(text.find('\\'), text.size());
      auto part = stripped(text.substr(0, end));
      if (!part.empty() && part.front() == '+') part.remove_prefix(1);
      const auto [last, error] =
          std::from_chars(part.data(), part.data() + part.size(), numbers[i]);
      const bool is_number = error == std::errc() && last == part.data() + part.size();
      const bool goes_on = i + 1 == N && end != text.size();
      if (!is_number || !std::isfinite(numbers[i]) || goes_on)
        fail<DataError>("{}: {} is not {} number(s)", source_, name, N);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return numbers;
  }

  void read_value(uint32_t tag, std::span<const uint8_t> value) {
    const std::string_view text =
        stripped({reinterpret_cast<const char*>(value.data()), value.size()});
    const bool is_empty = text.empty();
    switch (tag) {
      case 0x00180050:
        if (!is_empty) slice_.slice_thickness = decimals<1>(value, "SliceThickness")[0];
        break;
      case 0x0020000E:
        slice_.series_uid = printable(text.substr(0, 64));
        break;
      case 0x00200013:
        if (!is_empty) {
          const double number = decimals<1>(value, "InstanceNumber")[0];
          if (std::fabs(number) > 0x1p31)
            fail<DataError>("{}: InstanceNumber {} is too large", source_, number);
          slice_.instance_number = static_cast<int64_t>(number);
        }
        break;
      case 0x00200032:
        if (!is_empty) slice_.position = decimals<3>(value, "ImagePositionPatient");
        break;
      case 0x00200037:
        if (!is_empty) slice_.orientation = decimals<6>(value, "ImageOrientationPatient");
        break;
      case 0x00280030:
        if (!is_empty) slice_.pixel_spacing = decimals<2>(value, "PixelSpacing");
        break;
      case 0x00281052:
        if (!is_empty) slice_.intercept = decimals<1>(value, "RescaleIntercept")[0];
        break;
      case 0x00281053:
        if (!is_empty) slice_.slope = decimals<1>(value, "RescaleSlope")[0];
        break;
      case 0x00280008:
        if (!is_empty) frames_ = decimals<1>(value, "NumberOfFrames")[0];
        break;
      case 0x00280004:
        photometric_ = printable(text.substr(0, 32));
        break;
      case 0x00280002:
        samples_ = unsigned_short(value);
        break;
      case 0x00280010:
        slice_.rows = unsigned_short(value);
        break;
      case 0x00280011:
        slice_.columns = unsigned_short(value);
        break;
      case 0x00280100:
        bits_allocated_ = unsigned_short(value);
        break;
      case 0x00280101:
        slice_.bits_stored = unsigned_short(value);
        break;
      case 0x00280102:
        high_bit_ = unsigned_short(value);
        break;
      case 0x00280103:
        is_signed_ = unsigned_short(value) != 0;
        break;
      default:
        break;
    }
  }

  void check_image() {
    if (slice_.rows < 1 || slice_.columns < 1)
      fail<DataError>("{}: {} rows and {} columns", source_, slice_.rows, slice_.columns);
    if (!(slice_.pixel_spacing[0] > 0 && slice_.pixel_spacing[1] > 0)) {
      fail<DataError>("{}: PixelSpacing {} and {}; expected more than 0", source_,
                      slice_.pixel_spacing[0], slice_.pixel_spacing[1]);
    }
    if (samples_ != 1 || !photometric_.starts_with("MONOCHROME")) {
      fail<DataError>("{}: {} samples a pixel, {}; expected one, MONOCHROME1 or MONOCHROME2",
                      source_, samples_, photometric_.empty() ? "no color space" : photometric_);
    }
    if (frames_ != 1) {
      fail<DataError>("{}: {} frames; expected one a file: split it, or convert it with dcm2niix",
                      source_, frames_);
    }
    const bool is_known = bits_allocated_ == 8 || bits_allocated_ == 16 || bits_allocated_ == 32;
    if (!is_known || slice_.bits_stored < 1 || slice_.bits_stored > bits_allocated_ ||
        high_bit_.value_or(slice_.bits_stored - 1) != slice_.bits_stored - 1) {
      fail<DataError>(
          "{}: {} bits allocated, {} stored, highest {}; expected 8, 16 or 32 bits with the stored "
          "ones lowest",
          source_, bits_allocated_, slice_.bits_stored, high_bit_.value_or(slice_.bits_stored - 1));
    }
    if (bits_allocated_ == 8) slice_.type = is_signed_ ? ScalarType::kInt8 : ScalarType::kUint8;
    if (bits_allocated_ == 16) slice_.type = is_signed_ ? ScalarType::kInt16 : ScalarType::kUint16;
    if (bits_allocated_ == 32) slice_.type = is_signed_ ? ScalarType::kInt32 : ScalarType::kUint32;
  }

  void read_pixels(const DataElement& element) {
    check_image();
    const int64_t pixels = slice_.rows * slice_.columns;
    const auto expected = static_cast<uint64_t>(pixels * bits_allocated_ / 8);
    if (syntax_ == kRle) {
      if (file_bytes_) return;
      slice_.pixels =
          decode_dicom_rle(single_fragment(element), pixels, bits_allocated_ / 8, source_);
    } else {
      const bool is_right = element.bytes == expected || element.bytes == expected + expected % 2;
      if (!is_right || element.bytes == kUndefined) {
        fail<DataError>("{}: {} bytes of pixels; expected {} for {} x {} of {} bits", source_,
                        element.bytes, expected, slice_.rows, slice_.columns, bits_allocated_);
      }
      if (file_bytes_) return check_room(element.bytes);
      const auto bytes = in_.take(element.bytes).first(expected);
      slice_.pixels.assign(bytes.begin(), bytes.end());
    }
    if (slice_.bits_stored < bits_allocated_) clear_unused_bits();
  }

  void check_room(uint64_t wanted) const {
    const uint64_t left = *file_bytes_ - std::min<uint64_t>(in_.position(), *file_bytes_);
    if (wanted <= left) return;
    fail<DataError>("{}: ends within {} bytes of pixels at offset {}, {} are left; it is truncated",
                    source_, wanted, in_.position(), left);
  }

  // An offset table, one fragment, the end (PS3.5, A.4).
  std::span<const uint8_t> single_fragment(const DataElement& element) {
    if (element.bytes != kUndefined)
      fail<DataError>("{}: RLE pixels of a stated length; damaged", source_);
    const DataElement table = read_element(in_, true);
    if (table.tag == kItem) in_.skip(table.bytes);
    const DataElement fragment = read_element(in_, true);
    if (table.tag != kItem || fragment.tag != kItem)
      fail<DataError>("{}: RLE pixels without a fragment; damaged", source_);
    const auto bytes = in_.take(fragment.bytes);
    if (read_element(in_, true).tag != kSequenceEnd)
      fail<DataError>("{}: RLE pixels in several fragments; expected one", source_);
    return bytes;
  }

  // Bits above the stored ones may hold overlays of old files.
  void clear_unused_bits() {
    const int64_t bytes = bits_allocated_ / 8, unused = 32 - slice_.bits_stored;
    for (size_t at = 0; at < slice_.pixels.size(); at += static_cast<size_t>(bytes)) {
      uint32_t value = 0;
      std::memcpy(&value, slice_.pixels.data() + at, static_cast<size_t>(bytes));
      value <<= unused;
      value = is_signed_ ? static_cast<uint32_t>(static_cast<int32_t>(value) >> unused)
                         : value >> unused;
      std::memcpy(slice_.pixels.data() + at, &value, static_cast<size_t>(bytes));
    }
  }

  const std::string& source_;
  ByteReader in_;
  std::optional<uint64_t> file_bytes_;
  DicomSlice slice_;
  std::string syntax_, photometric_;
  bool is_explicit_ = true, is_signed_ = false;
  int64_t samples_ = 0, bits_allocated_ = 0;
  std::optional<int64_t> high_bit_;
  double frames_ = 1;
};

}  // namespace

DicomSlice parse_dicom(std::span<const uint8_t> bytes, const std::string& source) {
  return SliceParser(bytes, source).parse();
}

DicomSlice parse_dicom_header(std::span<const uint8_t> start, uint64_t file_bytes,
                              const std::string& source) {
  return SliceParser(start, source, file_bytes).parse();
}

DicomSlice read_dicom_header(const std::string& path) {
  const FileSource file(path);
  if (file.size() > kMaxFileBytes) {
    fail<DataError>("{}: {} bytes; expected at most {}", file.name(), file.size(), kMaxFileBytes);
  }
  std::vector<uint8_t> start;
  for (uint64_t wanted = kUsualHeaderBytes;; wanted *= 8) {
    const size_t done = start.size();
    start.resize(std::min(wanted, file.size()));
    file.read(done, std::span(start).subspan(done));
    // What ends too early here, such as a long private element, may be whole in the file.
    try {
      return parse_dicom_header(start, file.size(), path);
    } catch (const DataError&) {
      if (start.size() == file.size()) throw;
    }
  }
}

DicomSlice read_dicom(const std::string& path) {
  const std::string bytes = read_file(path, kMaxFileBytes);
  return parse_dicom({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, path);
}

}  // namespace fovea::data
