#include "fovea/data/volume/metaimage_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string_view>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/core/printable.h"
#include "fovea/core/text.h"
#include "fovea/data/labels.h"
#include "fovea/data/volume/scan_array.h"
#include "fovea/data/volume/scan_header.h"

namespace fovea::data {
namespace {

constexpr int64_t kMostDims = 4;

struct ElementType {
  std::string_view name;
  ScalarType type;
};
// "Long" has four bytes, whatever the machine.
constexpr std::array<ElementType, 12> kElementTypes = {{
    {"MET_CHAR", ScalarType::kInt8},
    {"MET_UCHAR", ScalarType::kUint8},
    {"MET_SHORT", ScalarType::kInt16},
    {"MET_USHORT", ScalarType::kUint16},
    {"MET_INT", ScalarType::kInt32},
    {"MET_UINT", ScalarType::kUint32},
    {"MET_LONG", ScalarType::kInt32},
    {"MET_ULONG", ScalarType::kUint32},
    {"MET_LONG_LONG", ScalarType::kInt64},
    {"MET_ULONG_LONG", ScalarType::kUint64},
    {"MET_FLOAT", ScalarType::kFloat32},
    {"MET_DOUBLE", ScalarType::kFloat64},
}};

// "Key = Value" lines up to ElementDataFile, behind which the numbers may follow.
HeaderFields metaimage_fields(const ByteSource& file, HeaderLines& lines) {
  HeaderFields header(file.name());
  for (auto line = lines.next(); line; line = lines.next()) {
    const size_t equals = line->find('=');
    const auto key = trimmed(std::string_view(*line).substr(0, equals));
    if (equals == std::string::npos || key.empty() || key.size() > 64) {
      if (trimmed(*line).empty()) continue;
      fail<DataError>(
          "{}: the line \"{}\" is not \"Key = Value\"; not a MetaImage header, or a "
          "damaged one",
          header.source(), printable_start(*line, 40));
    }
    header.add(key, trimmed(std::string_view(*line).substr(equals + 1)));
    if (key == "ElementDataFile") return header;
  }
  fail<DataError>("{}: the header has no ElementDataFile; it is cut off, or no MetaImage",
                  header.source());
}

// Of the first that there is of several names.
bool is_true(const HeaderFields& header, std::initializer_list<std::string_view> keys,
             bool missing) {
  const std::string* value = header.find_any(keys);
  if (value == nullptr || value->empty()) return missing;
  const char first = value->front();
  if (first == 'T' || first == 't' || first == '1') return true;
  if (first == 'F' || first == 'f' || first == '0') return false;
  fail<DataError>("{}: {} is \"{}\"; expected True or False", header.source(), *keys.begin(),
                  printable_start(*value, 40));
}

void check_image(const HeaderFields& header) {
  const std::string* object = header.find("ObjectType");
  if (object != nullptr && *object != "Image") {
    fail<DataError>("{}: ObjectType {}; expected Image", header.source(),
                    printable_start(*object, 40));
  }
  if (!is_true(header, {"BinaryData"}, true))
    fail<DataError>("{}: values as text (BinaryData = False); expected binary ones",
                    header.source());
  const double slope = header.decimal("ElementToIntensityFunctionSlope", 1);
  const double offset = header.decimal("ElementToIntensityFunctionOffset", 0);
  if (slope != 1 || offset != 0) {
    fail<DataError>(
        "{}: ElementToIntensityFunctionSlope {} and Offset {}, which most readers pass over; "
        "expected 1 and 0: store the values themselves",
        header.source(), slope, offset);
  }
}

ScalarType metaimage_type(const HeaderFields& header) {
  const std::string& name = header.get("ElementType");
  for (const ElementType& entry : kElementTypes) {
    if (entry.name == name) return entry.type;
  }
  fail<DataError>("{}: ElementType {}; expected MET_CHAR to MET_DOUBLE", header.source(),
                  printable_start(name, 40));
}

// Along the axes of the file, 1 to kMostDims.
std::vector<int64_t> sizes_of(const HeaderFields& header, int64_t channels) {
  const int64_t dims = header.whole("NDims", 0);
  if (dims < 1 || dims > kMostDims)
    fail<DataError>("{}: NDims {}; expected 1 to {}", header.source(), dims, kMostDims);
  auto sizes =
      whole_numbers(header.get("DimSize"), static_cast<size_t>(dims), "DimSize", header.source());
  std::vector<int64_t> all = sizes;
  all.push_back(channels);
  if (checked_voxels(all) < 0) {
    fail<DataError>(
        "{}: {} values of {} channel(s); expected sizes of at least 1 with a product of at most {}",
        header.source(), fmt::join(sizes, " x "), channels, kMaxVolumeValues);
  }
  if (dims == kMostDims && sizes[3] > 1 && channels > 1) {
    fail<DataError>("{}: {} frames of {} channels; expected one of the two", header.source(),
                    sizes[3], channels);
  }
  return sizes;
}

// MetaImage's world is ITK's, LPS; each row of its matrix is where one axis points to.
void fill_geometry(const HeaderFields& header, size_t dims, ScanGrid& grid) {
  std::vector<double> spacing(dims, 1);
  if (const std::string* text = header.find_any({"ElementSpacing", "ElementSize"}))
    spacing = decimal_numbers(*text, dims, "ElementSpacing", header.source());
  for (size_t axis = 0; axis < std::min<size_t>(dims, 3); ++axis)
    grid.spacing[axis] = spacing[axis] != 0 ? std::fabs(spacing[axis]) : 1;
  grid.affine = affine_of_spacing(grid.spacing);
  const std::string* matrix_text = header.find_any({"TransformMatrix", "Rotation", "Orientation"});
  if (matrix_text == nullptr || dims < 3) return;
  const auto matrix =
      decimal_numbers(*matrix_text, dims * dims, "TransformMatrix", header.source());
  std::vector<double> origin(dims);
  if (const std::string* text = header.find_any({"Offset", "Position", "Origin"}))
    origin = decimal_numbers(*text, dims, "Offset", header.source());
  grid.has_orientation = true;
  for (size_t row = 0; row < 3; ++row) {
    const double to_ras = row < 2 ? -1 : 1;
    for (size_t axis = 0; axis < 3; ++axis)
      grid.affine[row][axis] = to_ras * matrix[axis * dims + row] * spacing[axis];
    grid.affine[row][3] = to_ras * origin[row];
  }
}

// Channels lie together, then x.
ScanGrid grid_of(const HeaderFields& header, const std::vector<int64_t>& sizes, int64_t channels) {
  ScanGrid grid{.sizes = {sizes.begin(), sizes.begin() + std::min<ptrdiff_t>(std::ssize(sizes), 3)},
                .strides = {},
                .channels = channels,
                .channel_stride = 1};
  int64_t stride = channels;
  for (const int64_t size : grid.sizes) {
    grid.strides.push_back(stride);
    stride *= size;
  }
  if (sizes.size() > 3 && sizes[3] > 1) {
    grid.channels = sizes[3];
    grid.channel_stride = stride;
  }
  fill_geometry(header, sizes.size(), grid);
  return grid;
}

// Where the numbers begin, in the file that holds them.
void place_data(const HeaderFields& header, const std::string& path, uint64_t header_end,
                ScanArray& array) {
  const std::string& name = header.get("ElementDataFile");
  const bool is_local = name == "LOCAL" || name == "Local" || name == "local";
  if (!is_local) array.file = open_detached(path, name);
  array.offset = is_local ? header_end : 0;
  const uint64_t size = array.file->size();
  const int64_t skip = header.whole("HeaderSize", 0);
  array.is_deflated = is_true(header, {"CompressedData"}, false);
  if (skip < -1 || (skip < 0 && array.is_deflated)) {
    fail<DataError>("{}: HeaderSize {}; expected 0 or more, or of raw data -1", header.source(),
                    skip);
  }
  if (skip > 0) array.offset = static_cast<uint64_t>(skip);
  if (skip < 0) array.offset = size - std::min(size, array.data_bytes);
  if (!array.is_deflated) return;
  check_room(array.file->name(), array.offset, 0, size);
  const auto left = static_cast<int64_t>(size - array.offset);
  const int64_t stated = header.whole("CompressedDataSize", left);
  if (stated != left) {
    fail<DataError>(
        "{}: CompressedDataSize {}, but {} holds {} bytes of data; it is truncated or its header "
        "is damaged",
        header.source(), stated, array.file->name(), left);
  }
  array.deflated_bytes = static_cast<uint64_t>(left);
}

}  // namespace

std::unique_ptr<VolumeFile> open_metaimage(const std::string& path, const ScanOptions& options) {
  ScanArray array{.file = std::make_shared<FileSource>(path),
                  .max_unpacked_bytes = options.max_unpacked_bytes};
  HeaderLines lines(*array.file);
  const HeaderFields header = metaimage_fields(*array.file, lines);
  check_image(header);
  StoredVolume stored;
  stored.source = printable(path);
  stored.type = metaimage_type(header);
  const bool is_big = is_true(header, {"BinaryDataByteOrderMSB", "ElementByteOrderMSB"}, false);
  stored.order = is_big ? std::endian::big : std::endian::little;
  const int64_t channels = header.whole("ElementNumberOfChannels", 1);
  const auto sizes = sizes_of(header, channels);
  std::vector<int64_t> all = sizes;
  all.push_back(channels);
  array.data_bytes = static_cast<uint64_t>(checked_voxels(all) * bytes_of(stored.type));
  lay_out(grid_of(header, sizes, channels), options, stored);
  place_data(header, path, lines.position(), array);
  return open_scan_array(std::move(array), std::move(stored));
}

}  // namespace fovea::data
