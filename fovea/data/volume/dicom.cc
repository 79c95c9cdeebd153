#include "fovea/data/volume/dicom.h"

#include <algorithm>
#include <cstring>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/printable.h"
#include "fovea/data/volume/dicom_elements.h"
#include "fovea/data/volume/dicom_pixels.h"
#include "fovea/data/volume/scan_header.h"
#include "fovea/files/byte_source.h"

namespace fovea::data {
namespace {

constexpr size_t kPreambleBytes = 128;
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 31;
constexpr uint64_t kUsualHeaderBytes = 8192;
constexpr uint32_t kPixelData = 0x7FE00010;
constexpr uint32_t kSharedGroups = 0x52009229, kPerFrameGroups = 0x52009230;
constexpr std::string_view kImplicit = "1.2.840.10008.1.2", kBigEndian = "1.2.840.10008.1.2.2";

// Decimal text, values divided by backslashes (VR DS and IS).
template <size_t N>
std::array<double, N> decimals(std::span<const uint8_t> value, std::string_view name,
                               const std::string& source) {
  std::string_view text(reinterpret_cast<const char*>(value.data()), value.size());
  std::array<double, N> numbers = {};
  for (size_t i = 0; i < N; ++i) {
    const size_t end = std::min(text.find('\\'), text.size());
    const auto number = decimal_number(stripped(text.substr(0, end)));
    const bool goes_on = i + 1 == N && end != text.size();
    if (!number || goes_on) fail<DataError>("{}: {} is not {} number(s)", source, name, N);
    numbers[i] = *number;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return numbers;
}

// What may differ from frame to frame; nothing: not said.
struct FrameFields {
  std::optional<std::array<double, 3>> position = {};
  std::optional<std::array<double, 6>> orientation = {};
  std::optional<std::array<double, 2>> pixel_spacing = {};
  std::optional<double> thickness = {}, slope = {}, intercept = {};

  // Whether the element was one of them.
  bool read(uint32_t tag, std::span<const uint8_t> value, const std::string& source) {
    const bool is_empty =
        stripped({reinterpret_cast<const char*>(value.data()), value.size()}).empty();
    switch (tag) {
      case 0x00180050:
        if (!is_empty) thickness = decimals<1>(value, "SliceThickness", source)[0];
        return true;
      case 0x00200032:
        if (!is_empty) position = decimals<3>(value, "ImagePositionPatient", source);
        return true;
      case 0x00200037:
        if (!is_empty) orientation = decimals<6>(value, "ImageOrientationPatient", source);
        return true;
      case 0x00280030:
        if (!is_empty) pixel_spacing = decimals<2>(value, "PixelSpacing", source);
        return true;
      case 0x00281052:
        if (!is_empty) intercept = decimals<1>(value, "RescaleIntercept", source)[0];
        return true;
      case 0x00281053:
        if (!is_empty) slope = decimals<1>(value, "RescaleSlope", source)[0];
        return true;
      default:
        return false;
    }
  }

  void write(DicomSlice& slice) const {
    if (position) slice.position = position;
    if (orientation) slice.orientation = orientation;
    slice.pixel_spacing = pixel_spacing.value_or(slice.pixel_spacing);
    slice.slice_thickness = thickness.value_or(slice.slice_thickness);
    slice.slope = slope.value_or(slice.slope);
    slice.intercept = intercept.value_or(slice.intercept);
  }
};

// The sequences within functional groups that hold those (PS3.3, C.7.6.16.2).
bool is_group_of_fields(uint32_t tag) {
  return tag == 0x00209113 || tag == 0x00209116 || tag == 0x00289110 || tag == 0x00289145;
}

// What the parser collects from the elements; see DicomSlice for what it becomes.
class SliceParser {
 public:
  // file_bytes: nothing where `bytes` are the whole file, whose pixels are wanted.
  SliceParser(std::span<const uint8_t> bytes, const std::string& source,
              std::optional<uint64_t> file_bytes = {})
      : source_(source), in_(bytes, source_), file_bytes_(file_bytes) {}

  std::vector<DicomSlice> parse() {
    slice_.source = printable(source_);
    read_meta();
    bool has_pixels = false;
    while (!has_pixels && !in_.at_end()) {
      const DataElement element = read_element(in_, is_explicit_);
      if (element.tag == kPixelData) {
        read_pixels(element);
        has_pixels = true;
      } else if (element.tag == kSharedGroups || element.tag == kPerFrameGroups) {
        read_groups(element);
      } else if (element.bytes == kUndefinedLength) {
        skip_element(in_, element, is_explicit_, 0);
      } else {
        read_value(element.tag, in_.take(element.bytes));
      }
    }
    if (!has_pixels) fail<DataError>("{}: no pixel data; expected an image", source_);
    return slices();
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
      if (element.tag == 0x00020010) pixels_.syntax = printable(value.substr(0, 64));
    }
    is_explicit_ = pixels_.syntax != kImplicit;
    if (pixels_.syntax == kBigEndian) in_.set_order(std::endian::big);
    if (is_read_syntax(pixels_.syntax)) return;
    fail<DataError>(
        "{}: transfer syntax {} ({}); expected an uncompressed one, RLE{}: convert it, for example "
        "with dcmdjpeg, dcmdjpls, gdcmconv --raw or dcm2niix",
        source_, pixels_.syntax.empty() ? "is missing" : pixels_.syntax,
        name_of_syntax(pixels_.syntax),
        has_gdcm() ? ", JPEG, JPEG-LS or JPEG 2000" : ", or in a build with libgdcm-dev JPEG");
  }

  int64_t unsigned_short(std::span<const uint8_t> value) const {
    return ByteReader(value, source_, in_.order()).number<uint16_t>();
  }

  // Fields for all frames, or for each.
  void read_groups(const DataElement& sequence) {
    const bool is_shared = sequence.tag == kSharedGroups;
    for_each_item(in_, sequence, is_explicit_, 1, [&](ByteReader item) {
      if (!is_shared) per_frame_.emplace_back();
      read_group(item, is_shared ? shared_ : per_frame_.back(), 1);
    });
  }

  void read_group(ByteReader& item, FrameFields& fields, int depth) {
    while (!item.at_end()) {
      const DataElement element = read_element(item, is_explicit_);
      if (is_group_of_fields(element.tag)) {
        for_each_item(item, element, is_explicit_, depth + 1,
                      [&](ByteReader inner) { read_group(inner, fields, depth + 1); });
      } else if (element.bytes == kUndefinedLength) {
        skip_element(item, element, is_explicit_, depth);
      } else {
        fields.read(element.tag, item.take(element.bytes), source_);
      }
    }
  }

  void read_value(uint32_t tag, std::span<const uint8_t> value) {
    const std::string_view text =
        stripped({reinterpret_cast<const char*>(value.data()), value.size()});
    const bool is_empty = text.empty();
    if (shared_.read(tag, value, source_)) return;
    switch (tag) {
      case 0x00180088:
        if (!is_empty)
          slice_.frame_spacing = decimals<1>(value, "SpacingBetweenSlices", source_)[0];
        break;
      case 0x0020000E:
        slice_.series_uid = printable(text.substr(0, 64));
        break;
      case 0x00200013:
        if (!is_empty) {
          const double number = decimals<1>(value, "InstanceNumber", source_)[0];
          if (std::fabs(number) > 0x1p31)
            fail<DataError>("{}: InstanceNumber {} is too large", source_, number);
          slice_.instance_number = static_cast<int64_t>(number);
        }
        break;
      case 0x00280008:
        if (!is_empty) read_frame_count(decimals<1>(value, "NumberOfFrames", source_)[0]);
        break;
      case 0x00280004:
        pixels_.photometric = printable(text.substr(0, 32));
        break;
      case 0x00280002:
        pixels_.form.samples = unsigned_short(value);
        break;
      case 0x00280006:
        pixels_.is_planar = unsigned_short(value) == 1;
        break;
      case 0x00280010:
        pixels_.form.rows = unsigned_short(value);
        break;
      case 0x00280011:
        pixels_.form.columns = unsigned_short(value);
        break;
      case 0x00280100:
        pixels_.form.bits_allocated = unsigned_short(value);
        break;
      case 0x00280101:
        pixels_.form.bits_stored = unsigned_short(value);
        break;
      case 0x00280102:
        high_bit_ = unsigned_short(value);
        break;
      case 0x00280103:
        pixels_.form.is_signed = unsigned_short(value) != 0;
        break;
      case 0x00281101:
      case 0x00281102:
      case 0x00281103:
        read_palette_form(value);
        break;
      case 0x00281201:
      case 0x00281202:
      case 0x00281203:
        colour_tables_[tag - 0x00281201] = value;
        break;
      default:
        break;
    }
  }

  void read_frame_count(double frames) {
    if (frames != std::floor(frames) || std::fabs(frames) > 0x1p31)
      fail<DataError>("{}: NumberOfFrames {}; expected a whole number", source_, frames);
    pixels_.frames = static_cast<int64_t>(frames);
  }

  // Entries (0: 65536), the number of the first, bits; the same for the three colours.
  void read_palette_form(std::span<const uint8_t> value) {
    ByteReader in(value, source_, in_.order());
    const int64_t entries = in.number<uint16_t>();
    palette_entries_ = entries == 0 ? 65536 : entries;
    const auto first = in.number<uint16_t>();
    pixels_.palette.first = first;
    pixels_.palette.bits = in.number<uint16_t>();
  }

  void read_palette() {
    DicomPalette& palette = pixels_.palette;
    if (palette.bits != 8 && palette.bits != 16) {
      fail<DataError>("{}: a colour table of {} bits; expected 8 or 16", source_, palette.bits);
    }
    for (size_t colour = 0; colour < 3; ++colour) {
      const auto& table = colour_tables_[colour];
      const auto entries = static_cast<size_t>(palette_entries_);
      // Entries of eight bits may fill words or not.
      const bool are_bytes = palette.bits == 8 && table.size() < 2 * entries;
      if (table.size() < (are_bytes ? entries : 2 * entries)) {
        fail<DataError>("{}: a colour table of {} bytes; expected {} entries of {} bits", source_,
                        table.size(), entries, palette.bits);
      }
      ByteReader in(table, source_, in_.order());
      for (size_t i = 0; i < entries; ++i)
        palette.colours[colour].push_back(are_bytes ? in.number<uint8_t>() : in.number<uint16_t>());
    }
  }

  void check_image() {
    const DicomPixelForm& form = pixels_.form;
    const int64_t bits = form.bits_allocated;
    const bool is_known = bits == 8 || bits == 16 || bits == 32;
    if (!is_known || form.bits_stored < 1 || form.bits_stored > bits ||
        high_bit_.value_or(form.bits_stored - 1) != form.bits_stored - 1) {
      fail<DataError>(
          "{}: {} bits allocated, {} stored, highest {}; expected 8, 16 or 32 bits with the stored "
          "ones lowest",
          source_, bits, form.bits_stored, high_bit_.value_or(form.bits_stored - 1));
    }
    if (pixels_.photometric == "PALETTE COLOR") read_palette();
    check_pixels(pixels_, source_);
    const size_t places = per_frame_.size();
    if (places != 0 && places != static_cast<size_t>(pixels_.frames)) {
      fail<DataError>("{}: {} frames, but functional groups of {}; some are missing", source_,
                      pixels_.frames, places);
    }
    if (pixels_.frames > 1 && places == 0 && shared_.position) {
      fail<DataError>(
          "{}: {} frames with one ImagePositionPatient; expected one for each, in functional "
          "groups, or none: convert it with dcm2niix",
          source_, pixels_.frames);
    }
  }

  void read_pixels(const DataElement& element) {
    check_image();
    if (!file_bytes_) {
      frames_ = read_frames(in_, element, pixels_, source_);
    } else if (!pixels_.is_encapsulated()) {
      const uint64_t expected = native_bytes(pixels_);
      if (element.bytes != expected && element.bytes != expected + expected % 2)
        read_frames(in_, element, pixels_, source_);  // says so
      check_room(element.bytes);
    }
  }

  void check_room(uint64_t wanted) const {
    const uint64_t left = *file_bytes_ - std::min<uint64_t>(in_.position(), *file_bytes_);
    if (wanted <= left) return;
    fail<DataError>("{}: ends within {} bytes of pixels at offset {}, {} are left; it is truncated",
                    source_, wanted, in_.position(), left);
  }

  static ScalarType type_of(const DicomPixelForm& form) {
    if (form.bits_allocated == 8) return form.is_signed ? ScalarType::kInt8 : ScalarType::kUint8;
    if (form.bits_allocated == 16) return form.is_signed ? ScalarType::kInt16 : ScalarType::kUint16;
    return form.is_signed ? ScalarType::kInt32 : ScalarType::kUint32;
  }

  // One for each frame.
  std::vector<DicomSlice> slices() {
    const DicomPixelForm form = pixels_.read_form();
    slice_.syntax = pixels_.syntax;
    slice_.rows = form.rows;
    slice_.columns = form.columns;
    slice_.samples = form.samples;
    slice_.type = type_of(form);
    slice_.bits_stored = form.bits_stored;
    slice_.frames = pixels_.frames;
    shared_.write(slice_);
    std::vector<DicomSlice> all(static_cast<size_t>(pixels_.frames), slice_);
    for (size_t frame = 0; frame < all.size(); ++frame) {
      DicomSlice& slice = all[frame];
      if (frame < per_frame_.size()) per_frame_[frame].write(slice);
      if (frame < frames_.size()) slice.pixels = std::move(frames_[frame]);
      if (pixels_.frames > 1) slice.source += fmt::format("[{}]", frame);
      if (!(slice.pixel_spacing[0] > 0 && slice.pixel_spacing[1] > 0)) {
        fail<DataError>("{}: PixelSpacing {} and {}; expected more than 0", slice.source,
                        slice.pixel_spacing[0], slice.pixel_spacing[1]);
      }
    }
    return all;
  }

  const std::string& source_;
  ByteReader in_;
  std::optional<uint64_t> file_bytes_;
  DicomSlice slice_;
  DicomPixels pixels_;
  FrameFields shared_;
  std::vector<FrameFields> per_frame_;
  std::vector<std::vector<uint8_t>> frames_;
  std::array<std::span<const uint8_t>, 3> colour_tables_ = {};
  int64_t palette_entries_ = 0;
  bool is_explicit_ = true;
  std::optional<int64_t> high_bit_;
};

}  // namespace

std::vector<DicomSlice> parse_dicom(std::span<const uint8_t> bytes, const std::string& source) {
  return SliceParser(bytes, source).parse();
}

std::vector<DicomSlice> parse_dicom_header(std::span<const uint8_t> start, uint64_t file_bytes,
                                           const std::string& source) {
  return SliceParser(start, source, file_bytes).parse();
}

std::vector<DicomSlice> read_dicom_header(const std::string& path) {
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

std::vector<DicomSlice> read_dicom(const std::string& path) {
  const std::string bytes = read_file(path, kMaxFileBytes);
  return parse_dicom({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, path);
}

}  // namespace fovea::data
