#include "fovea/data/volume/nifti.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "fovea/core/error.h"
#include "fovea/files/byte_reader.h"

namespace fovea::data {
namespace {

constexpr size_t kHeader1Bytes = 348, kHeader2Bytes = kNiftiHeaderBytes;

struct TypeCode {
  int64_t code;
  ScalarType type;
};
constexpr std::array<TypeCode, 10> kTypeCodes = {{{2, ScalarType::kUint8},
                                                  {4, ScalarType::kInt16},
                                                  {8, ScalarType::kInt32},
                                                  {16, ScalarType::kFloat32},
                                                  {64, ScalarType::kFloat64},
                                                  {256, ScalarType::kInt8},
                                                  {512, ScalarType::kUint16},
                                                  {768, ScalarType::kUint32},
                                                  {1024, ScalarType::kInt64},
                                                  {1280, ScalarType::kUint64}}};

std::string_view name_of_code(int64_t code) {
  switch (code) {
    case 1:
      return "one bit";
    case 32:
      return "complex64";
    case 128:
      return "RGB";
    case 1536:
      return "float128";
    case 1792:
      return "complex128";
    case 2048:
      return "complex256";
    case 2304:
      return "RGBA";
    default:
      return "unknown";
  }
}

// The fields of both versions, as they stand in the file.
struct Fields {
  std::array<int64_t, 8> dim = {};
  std::array<double, 8> pixdim = {};
  int64_t datatype = 0;
  double vox_offset = 0, slope = 0, intercept = 0;
  int64_t qform_code = 0, sform_code = 0;
  std::array<double, 3> quaternion = {}, q_offset = {};  // b, c, d
  Affine srow = {};
};

// Offsets of the fields: nifti1.h and nifti2.h.
struct FieldReader {
  std::span<const uint8_t> bytes;
  std::endian order;

  template <class T>
  T at(size_t offset) const {
    return load_number<T>(bytes.data() + offset, order);
  }
  template <class T, size_t N>
  std::array<double, N> doubles(size_t offset) const {
    std::array<double, N> values;
    for (size_t i = 0; i < N; ++i) values[i] = at<T>(offset + i * sizeof(T));
    return values;
  }
};

Fields read_fields_1(const FieldReader& in) {
  Fields fields;
  for (size_t i = 0; i < 8; ++i) fields.dim[i] = in.at<int16_t>(40 + 2 * i);
  fields.datatype = in.at<int16_t>(70);
  fields.pixdim = in.doubles<float, 8>(76);
  fields.vox_offset = in.at<float>(108);
  fields.slope = in.at<float>(112);
  fields.intercept = in.at<float>(116);
  fields.qform_code = in.at<int16_t>(252);
  fields.sform_code = in.at<int16_t>(254);
  fields.quaternion = in.doubles<float, 3>(256);
  fields.q_offset = in.doubles<float, 3>(268);
  for (size_t row = 0; row < 3; ++row) fields.srow[row] = in.doubles<float, 4>(280 + 16 * row);
  return fields;
}

Fields read_fields_2(const FieldReader& in) {
  Fields fields;
  fields.datatype = in.at<int16_t>(12);
  for (size_t i = 0; i < 8; ++i) fields.dim[i] = in.at<int64_t>(16 + 8 * i);
  fields.pixdim = in.doubles<double, 8>(104);
  fields.vox_offset = static_cast<double>(in.at<int64_t>(168));
  fields.slope = in.at<double>(176);
  fields.intercept = in.at<double>(184);
  fields.qform_code = in.at<int32_t>(344);
  fields.sform_code = in.at<int32_t>(348);
  fields.quaternion = in.doubles<double, 3>(352);
  fields.q_offset = in.doubles<double, 3>(376);
  for (size_t row = 0; row < 3; ++row) fields.srow[row] = in.doubles<double, 4>(400 + 32 * row);
  return fields;
}

// Bytes of the header, told from its first field; 0: neither version in this byte order.
size_t header_bytes(std::span<const uint8_t> bytes, std::endian order) {
  const auto size = load_number<int32_t>(bytes.data(), order);
  return size == int32_t{kHeader1Bytes} || size == int32_t{kHeader2Bytes}
             ? static_cast<size_t>(size)
             : 0;
}

void check_magic(std::span<const uint8_t> bytes, size_t size, const std::string& source) {
  const bool is_1 = size == kHeader1Bytes;
  const std::string_view expected =
      is_1 ? std::string_view("n+1\0", 4) : std::string_view("n+2\0\r\n\x1a\n", 8);
  const auto* start = reinterpret_cast<const char*>(bytes.data()) + (is_1 ? 344 : 4);
  const std::string_view magic(start, expected.size());
  if (magic == expected) return;
  if (magic.starts_with("ni1") || magic.starts_with("ni2")) {
    fail<DataError>(
        "{}: the header of a pair of files (.hdr, .img); expected a single file: convert it to "
        ".nii",
        source);
  }
  fail<DataError>("{}: the header's size is NIfTI's, but its magic is not; expected n+1 or n+2",
                  source);
}

double length_of(double x, double y, double z) { return std::sqrt(x * x + y * y + z * z); }

// nifti1.h, method 2: rotation by the unit quaternion (a, b, c, d), voxel sizes, offset.
Affine affine_of_qform(const Fields& fields) {
  auto [b, c, d] = fields.quaternion;
  const double rest = 1 - (b * b + c * c + d * d);
  double a = std::sqrt(std::max(rest, 0.0));
  if (rest < 1e-7) {  // rounding: a half turn
    const double norm = length_of(b, c, d);
    a = 0;
    b /= norm;
    c /= norm;
    d /= norm;
  }
  const std::array<std::array<double, 3>, 3> rotation = {
      {{a * a + b * b - c * c - d * d, 2 * (b * c - a * d), 2 * (b * d + a * c)},
       {2 * (b * c + a * d), a * a + c * c - b * b - d * d, 2 * (c * d - a * b)},
       {2 * (b * d - a * c), 2 * (c * d + a * b), a * a + d * d - c * c - b * b}}};
  Affine affine = {};
  for (size_t row = 0; row < 3; ++row) {
    for (size_t axis = 0; axis < 3; ++axis) {
      const double flip = axis == 2 && fields.pixdim[0] < 0 ? -1 : 1;  // qfac
      affine[row][axis] = rotation[row][axis] * std::fabs(fields.pixdim[axis + 1]) * flip;
    }
    affine[row][3] = fields.q_offset[row];
  }
  return affine;
}

bool is_finite(const Affine& affine) {
  for (const auto& row : affine) {
    if (!std::all_of(row.begin(), row.end(), [](double x) { return std::isfinite(x); }))
      return false;
  }
  return true;
}

void fill_geometry(NiftiHeader& header, const Fields& fields, const std::string& source) {
  std::array<double, 3> pixdim;
  for (size_t axis = 0; axis < 3; ++axis) {
    const double size = std::fabs(fields.pixdim[axis + 1]);
    pixdim[axis] = std::isfinite(size) && size > 0 ? size : 1;
  }
  header.has_orientation = fields.sform_code > 0 || fields.qform_code > 0;
  if (fields.sform_code > 0) {
    header.affine = fields.srow;
  } else if (fields.qform_code > 0) {
    header.affine = affine_of_qform(fields);
  } else {
    header.affine = affine_of_spacing(pixdim);
  }
  if (!is_finite(header.affine)) {
    fail<DataError>("{}: the {} holds values that are not finite; correct the header", source,
                    fields.sform_code > 0 ? "sform" : "qform");
  }
  for (size_t axis = 0; axis < 3; ++axis) {
    const auto& affine = header.affine;
    const double size = length_of(affine[0][axis], affine[1][axis], affine[2][axis]);
    header.spacing[axis] = std::isfinite(size) && size > 0 ? size : pixdim[axis];
  }
}

void fill_shape(NiftiHeader& header, const Fields& fields, const std::string& source) {
  const int64_t dims = fields.dim[0];
  if (dims < 1 || dims > 7)
    fail<DataError>("{}: {} dimensions in the header; expected 1 to 7", source, dims);
  header.shape.assign(fields.dim.begin() + 1, fields.dim.begin() + 1 + dims);
  const int64_t values = checked_voxels(header.shape);
  if (values < 0) {
    fail<DataError>(
        "{}: sizes {} in the header; expected sizes of at least 1 with a product of at most {}",
        source, fmt::join(header.shape, " x "), kMaxVolumeValues);
  }
  const auto known = std::find_if(kTypeCodes.begin(), kTypeCodes.end(), [&](const TypeCode& entry) {
    return entry.code == fields.datatype;
  });
  if (known == kTypeCodes.end()) {
    fail<DataError>("{}: data type {} ({}); expected integers of 8 to 64 bits, float32 or float64",
                    source, fields.datatype, name_of_code(fields.datatype));
  }
  header.type = known->type;
  header.data_bytes = static_cast<uint64_t>(values * bytes_of(header.type));
}

// A slope of 0 or no number means "no scaling" (nifti1.h).
void fill_scaling(NiftiHeader& header, const Fields& fields, const std::string& source) {
  if (fields.slope == 0 || !std::isfinite(fields.slope)) return;
  if (!std::isfinite(fields.intercept)) {
    fail<DataError>("{}: scl_slope {} with scl_inter {}; expected a number", source, fields.slope,
                    fields.intercept);
  }
  header.slope = fields.slope;
  header.intercept = fields.intercept;
}

}  // namespace

NiftiHeader parse_nifti_header(std::span<const uint8_t> bytes, const std::string& source) {
  if (bytes.size() < kHeader1Bytes) {
    fail<DataError>(
        "{}: {} bytes are too few for a NIfTI header; the file is truncated or of another format",
        source, bytes.size());
  }
  NiftiHeader header;
  size_t size = header_bytes(bytes, std::endian::little);
  if (size == 0) {
    header.order = std::endian::big;
    size = header_bytes(bytes, std::endian::big);
  }
  if (size == 0) {
    fail<DataError>("{}: not a NIfTI file: its first number is {}; expected 348 or 540", source,
                    load_number<int32_t>(bytes.data(), std::endian::little));
  }
  if (bytes.size() < size) fail<DataError>("{}: the NIfTI-2 header is truncated", source);
  check_magic(bytes, size, source);
  header.version = size == kHeader1Bytes ? 1 : 2;
  const FieldReader in{bytes, header.order};
  const Fields fields = header.version == 1 ? read_fields_1(in) : read_fields_2(in);
  fill_shape(header, fields, source);
  fill_scaling(header, fields, source);
  fill_geometry(header, fields, source);
  const double smallest = static_cast<double>(size) + 4, offset = fields.vox_offset;
  if (!(offset >= smallest && offset < 0x1p40) || offset != std::floor(offset)) {
    fail<DataError>("{}: data at offset {}; expected a whole number of at least {}", source, offset,
                    smallest);
  }
  header.data_offset = static_cast<uint64_t>(offset);
  return header;
}

NiftiHeader read_nifti_header(InputStream& stream) {
  std::array<uint8_t, kHeader2Bytes> bytes = {};
  size_t got = stream.read(std::span(bytes).first(kHeader1Bytes));
  const bool is_2 = header_bytes(bytes, std::endian::little) == kHeader2Bytes ||
                    header_bytes(bytes, std::endian::big) == kHeader2Bytes;
  if (is_2) got += stream.read(std::span(bytes).subspan(kHeader1Bytes));
  return parse_nifti_header(std::span(bytes).first(got), stream.path());
}

NiftiHeader read_nifti_header(const std::string& path) {
  InputStream stream(path);
  return read_nifti_header(stream);
}

}  // namespace fovea::data
