#include "fovea/data/volume/nrrd_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <optional>
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

constexpr size_t kMaxAxes = 16;  // NRRD_DIM_MAX

using Names = std::vector<std::string_view>;

struct TypeNames {
  ScalarType type;
  Names names;
};

const std::vector<TypeNames>& type_names() {
  static const std::vector<TypeNames> kNames = {
      {ScalarType::kInt8, {"signed char", "int8", "int8_t"}},
      {ScalarType::kUint8, {"uchar", "unsigned char", "uint8", "uint8_t"}},
      {ScalarType::kInt16,
       {"short", "short int", "signed short", "signed short int", "int16", "int16_t"}},
      {ScalarType::kUint16,
       {"ushort", "unsigned short", "unsigned short int", "uint16", "uint16_t"}},
      {ScalarType::kInt32, {"int", "signed int", "int32", "int32_t"}},
      {ScalarType::kUint32, {"uint", "unsigned int", "uint32", "uint32_t"}},
      {ScalarType::kInt64,
       {"longlong", "long long", "long long int", "signed long long", "signed long long int",
        "int64", "int64_t"}},
      {ScalarType::kUint64,
       {"ulonglong", "unsigned long long", "unsigned long long int", "uint64", "uint64_t"}},
      {ScalarType::kFloat32, {"float"}},
      {ScalarType::kFloat64, {"double"}}};
  return kNames;
}

// "datafile" and "data file" are one field.
std::string field_name(std::string_view text) {
  std::string name = lowered(trimmed(text));
  if (name == "centers") name = "centerings";
  if (name == "datafile") name = "data file";
  if (name == "byteskip") name = "byte skip";
  if (name == "lineskip") name = "line skip";
  return name;
}

void add_line(const std::string& line, HeaderFields& header) {
  if (line.starts_with('#')) return;
  const size_t colon = line.find(':');
  if (colon != std::string::npos && line.substr(colon, 2) == ":=") return;  // key and value
  if (colon == std::string::npos) {
    fail<DataError>("{}: the line \"{}\" is no field; the header is damaged", header.source(),
                    printable_start(line, 40));
  }
  header.add(field_name(line.substr(0, colon)), trimmed(std::string_view(line).substr(colon + 1)));
}

// Up to the empty line behind them.
HeaderFields nrrd_fields(const ByteSource& file, HeaderLines& lines) {
  HeaderFields header(file.name());
  const auto magic = lines.next();
  const bool is_nrrd = magic && magic->size() == 8 && magic->starts_with("NRRD000");
  if (!is_nrrd || magic->back() < '1' || magic->back() > '5') {
    fail<DataError>("{}: begins with \"{}\"; expected NRRD0001 to NRRD0005", header.source(),
                    printable_start(magic.value_or(""), 16));
  }
  for (auto line = lines.next(); line && !line->empty(); line = lines.next())
    add_line(*line, header);
  return header;
}

ScalarType nrrd_type(const HeaderFields& header) {
  const std::string name = lowered(header.get("type"));
  for (const TypeNames& entry : type_names()) {
    if (std::find(entry.names.begin(), entry.names.end(), name) != entry.names.end())
      return entry.type;
  }
  fail<DataError>("{}: type {}; expected integers of 8 to 64 bits, float or double",
                  header.source(), printable_start(name, 40));
}

std::endian order_of(const HeaderFields& header, ScalarType type) {
  const std::string* text = header.find("endian");
  if (text == nullptr && bytes_of(type) == 1) return std::endian::little;
  const std::string order = lowered(header.get("endian"));
  if (order != "little" && order != "big") {
    fail<DataError>("{}: endian is \"{}\"; expected little or big", header.source(),
                    printable_start(order, 40));
  }
  return order == "little" ? std::endian::little : std::endian::big;
}

std::vector<int64_t> sizes_of(const HeaderFields& header) {
  const int64_t axes = header.whole("dimension", 0);
  if (axes < 1 || axes > static_cast<int64_t>(kMaxAxes)) {
    fail<DataError>("{}: {} dimensions in the header; expected 1 to {}", header.source(), axes,
                    kMaxAxes);
  }
  auto sizes =
      whole_numbers(header.get("sizes"), static_cast<size_t>(axes), "sizes", header.source());
  if (checked_voxels(sizes) < 0) {
    fail<DataError>(
        "{}: sizes {} in the header; expected sizes of at least 1 with a product of at most {}",
        header.source(), fmt::join(sizes, " x "), kMaxVolumeValues);
  }
  return sizes;
}

// What "space" says: how many coordinates its vectors have, and which of them point to the right,
// to the front and to the head.
struct Space {
  size_t coordinates = 0;  // 0: the file names none
  bool is_anatomical = false;
  std::array<double, 3> to_ras = {1, 1, 1};
};

Space space_of(const HeaderFields& header) {
  Space space;
  const int64_t count = header.whole("space dimension", 0);
  if (count < 0 || count > static_cast<int64_t>(kMaxAxes))
    fail<DataError>("{}: space dimension {}; expected 1 to {}", header.source(), count, kMaxAxes);
  space.coordinates = static_cast<size_t>(count);
  const std::string* text = header.find("space");
  if (text == nullptr) return space;
  std::string name = lowered(*text);
  const bool has_time =
      name.ends_with("-time") || name == "rast" || name == "last" || name == "lpst";
  if (name.ends_with("-time")) name.resize(name.size() - 5);
  if (has_time && name.size() == 4) name.resize(3);
  space.coordinates = has_time ? 4 : 3;
  space.is_anatomical = true;
  if (name == "right-anterior-superior" || name == "ras") return space;
  if (name == "left-anterior-superior" || name == "las") {
    space.to_ras = {-1, 1, 1};
  } else if (name == "left-posterior-superior" || name == "lps") {
    space.to_ras = {-1, -1, 1};
  } else if (name == "scanner-xyz" || name == "3d-right-handed" || name == "3d-left-handed") {
    space.is_anatomical = false;
  } else {
    fail<DataError>(
        "{}: space \"{}\"; expected right-anterior-superior, left-anterior-superior, "
        "left-posterior-superior or scanner-xyz",
        header.source(), printable_start(*text, 40));
  }
  return space;
}

using Direction = std::optional<std::vector<double>>;  // nothing: none

[[noreturn]] void fail_as_vectors(const HeaderFields& header, std::string_view text, size_t count,
                                  const Space& space) {
  fail<DataError>("{}: \"{}\"; expected {} vectors of {} finite numbers, (x,y,z) or none",
                  header.source(), printable_start(text), count, space.coordinates);
}

// "(1,0,0) (0,1,0) none"
std::vector<Direction> vectors_in(const std::string& field, size_t count, const Space& space,
                                  const HeaderFields& header) {
  std::vector<Direction> vectors;
  for (auto text = trimmed(field); !text.empty(); text = trimmed(text)) {
    if (lowered(text.substr(0, 4)) == "none") {
      vectors.emplace_back();
      text.remove_prefix(4);
      continue;
    }
    const size_t end = text.find(')');
    if (text[0] != '(' || end == std::string_view::npos || vectors.size() >= count)
      fail_as_vectors(header, field, count, space);
    std::vector<double> vector;
    for (size_t from = 1; from <= end;) {
      const size_t comma = std::min(text.find(',', from), end);
      const auto number = decimal_number(trimmed(text.substr(from, comma - from)));
      if (!number) fail_as_vectors(header, field, count, space);
      vector.push_back(*number);
      from = comma + 1;
    }
    if (vector.size() != space.coordinates) fail_as_vectors(header, field, count, space);
    vectors.emplace_back(std::move(vector));
    text.remove_prefix(end + 1);
  }
  if (vectors.size() != count) fail_as_vectors(header, field, count, space);
  return vectors;
}

enum class AxisKind { kUnknown, kSpace, kChannels };

AxisKind kind_named(std::string_view text) {
  const std::string kind = lowered(text);
  if (kind == "???" || kind == "none") return AxisKind::kUnknown;
  return kind == "domain" || kind == "space" ? AxisKind::kSpace : AxisKind::kChannels;
}

// An axis along the fourth coordinate alone, which is time, is one of frames.
bool is_time_axis(const Direction& direction) {
  return direction && direction->size() == 4 &&
         std::all_of(direction->begin(), direction->begin() + 3, [](double x) { return x == 0; });
}

// Which of the axes lie in space; where the directions say no, or the kinds.
struct Axes {
  std::vector<size_t> in_space;
  std::vector<size_t> others;
};

Axes axes_of(const HeaderFields& header, const std::vector<int64_t>& sizes,
             const std::vector<Direction>& directions) {
  Names kinds(sizes.size(), "???");
  if (const std::string* text = header.find("kinds")) kinds = words_of(*text);
  if (kinds.size() != sizes.size()) {
    fail<DataError>("{}: {} kinds for {} axes; expected one for each", header.source(),
                    kinds.size(), sizes.size());
  }
  Axes axes;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    const AxisKind kind = kind_named(kinds[axis]);
    const bool has_direction = directions.empty() || directions[axis].has_value();
    const bool is_time = !directions.empty() && is_time_axis(directions[axis]);
    if (kind == AxisKind::kSpace && !has_direction) {
      fail<DataError>("{}: axis {} is of kind {}, but its space direction is none", header.source(),
                      axis, kinds[axis]);
    }
    const bool is_in_space = !is_time && has_direction && kind != AxisKind::kChannels;
    if (is_in_space) axes.in_space.push_back(axis);
    if (!is_in_space && sizes[axis] > 1) axes.others.push_back(axis);
  }
  if (axes.in_space.empty() || axes.in_space.size() > 3 || axes.others.size() > 1) {
    fail<DataError>(
        "{}: {} values, {} axes in space and {} of channels; expected one to three in space and at "
        "most one of channels: name it by its kind (vector, list ...) or by a space direction "
        "\"none\"",
        header.source(), fmt::join(sizes, " x "), axes.in_space.size(), axes.others.size());
  }
  return axes;
}

double length_of(const std::vector<double>& vector) {
  double sum = 0;
  for (const double x : vector) sum += x * x;
  return std::sqrt(sum);
}

bool is_size(double size) { return std::isfinite(size) && size > 0; }

// Where the axes in space point to; else how far their voxels are apart.
void fill_geometry(const HeaderFields& header, const Space& space, const Axes& axes, size_t count,
                   const std::vector<Direction>& directions, ScanGrid& grid) {
  std::vector<double> spacings;
  const std::string* text = header.find("spacings");
  const auto words = text == nullptr ? Names() : words_of(*text);
  if (text != nullptr && words.size() != count) {
    fail<DataError>("{}: {} spacings for {} axes; expected one for each", header.source(),
                    words.size(), count);
  }
  for (size_t i = 0; i < axes.in_space.size(); ++i) {
    const size_t axis = axes.in_space[i];
    double size = 1;
    if (!words.empty()) size = std::fabs(decimal_number(words[axis]).value_or(1));  // nan: unknown
    if (!directions.empty()) size = length_of(*directions[axis]);
    grid.spacing[i] = is_size(size) ? size : 1;
  }
  grid.affine = affine_of_spacing(grid.spacing);
  if (directions.empty() || !space.is_anatomical || axes.in_space.size() != 3) return;
  grid.has_orientation = true;
  const std::string* origin_text = header.find("space origin");
  Direction origin = std::vector<double>(space.coordinates);
  if (origin_text != nullptr) origin = vectors_in(*origin_text, 1, space, header)[0];
  for (size_t row = 0; row < 3; ++row) {
    for (size_t i = 0; i < 3; ++i)
      grid.affine[row][i] = space.to_ras[row] * (*directions[axes.in_space[i]])[row];
    grid.affine[row][3] = origin ? space.to_ras[row] * (*origin)[row] : 0;
  }
}

ScanGrid grid_of(const HeaderFields& header, const std::vector<int64_t>& sizes) {
  const Space space = space_of(header);
  std::vector<Direction> directions;
  if (const std::string* text = header.find("space directions"))
    directions = vectors_in(*text, sizes.size(), space, header);
  const Axes axes = axes_of(header, sizes, directions);
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t axis = 1; axis < sizes.size(); ++axis)
    strides[axis] = strides[axis - 1] * sizes[axis - 1];
  ScanGrid grid;
  for (const size_t axis : axes.in_space) {
    grid.sizes.push_back(sizes[axis]);
    grid.strides.push_back(strides[axis]);
  }
  for (const size_t axis : axes.others) {
    grid.channels = sizes[axis];
    grid.channel_stride = strides[axis];
  }
  fill_geometry(header, space, axes, sizes.size(), directions, grid);
  return grid;
}

bool is_gzip_encoding(const HeaderFields& header) {
  const std::string encoding = lowered(header.get("encoding"));
  if (encoding == "raw") return false;
  if (encoding == "gz" || encoding == "gzip") return true;
  fail<DataError>("{}: encoding {}; expected raw or gzip: write it so", header.source(),
                  printable_start(encoding, 40));
}

// The fields that move the start of the data, in the order in which they count.
void skip_to_data(const HeaderFields& header, ScanArray& array) {
  const int64_t lines = header.whole("line skip", 0), bytes = header.whole("byte skip", 0);
  if (lines < 0 || bytes < -1 || (bytes < 0 && array.is_deflated)) {
    fail<DataError>("{}: line skip {}, byte skip {}; expected 0 or more, or of raw data -1",
                    header.source(), lines, bytes);
  }
  const uint64_t size = array.file->size();
  if (lines > 0) {
    const PartSource rest(*array.file, array.file->name(), array.offset, size - array.offset);
    HeaderLines skipped(rest);
    for (int64_t i = 0; i < lines; ++i) {
      if (skipped.next()) continue;
      fail<DataError>("{}: line skip {}, but there are {} lines", header.source(), lines, i);
    }
    array.offset += skipped.position();
  }
  if (bytes < 0) {
    check_room(array.file->name(), array.offset, array.data_bytes, size);
    array.offset = size - array.data_bytes;
  } else if (array.is_deflated) {
    array.skip = static_cast<uint64_t>(bytes);
  } else {
    check_room(array.file->name(), array.offset, static_cast<uint64_t>(bytes), size);
    array.offset += static_cast<uint64_t>(bytes);
  }
  array.deflated_bytes = size - array.offset;
}

}  // namespace

std::unique_ptr<VolumeFile> open_nrrd(const std::string& path, const ScanOptions& options) {
  ScanArray array{.file = std::make_shared<FileSource>(path),
                  .max_unpacked_bytes = options.max_unpacked_bytes};
  HeaderLines lines(*array.file);
  const HeaderFields header = nrrd_fields(*array.file, lines);
  StoredVolume stored;
  stored.source = printable(path);
  stored.type = nrrd_type(header);
  stored.order = order_of(header, stored.type);
  const auto sizes = sizes_of(header);
  array.data_bytes = static_cast<uint64_t>(checked_voxels(sizes) * bytes_of(stored.type));
  array.is_deflated = is_gzip_encoding(header);
  lay_out(grid_of(header, sizes), options, stored);
  array.offset = lines.position();
  if (const std::string* name = header.find("data file")) {
    array.file = open_detached(path, *name);
    array.offset = 0;
  }
  skip_to_data(header, array);
  return open_scan_array(std::move(array), std::move(stored));
}

}  // namespace fovea::data
