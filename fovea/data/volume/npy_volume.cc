#include "fovea/data/volume/npy_volume.h"

#include <algorithm>
#include <array>

#include "fovea/core/error.h"
#include "fovea/core/input_file.h"
#include "fovea/files/npy.h"

namespace fovea::data {

StoredArray parse_npy(std::shared_ptr<const std::string> file, const std::string& source) {
  const NpyHeader header = parse_npy_header(*file, source);
  const uint64_t held = file->size() - header.data_offset;
  if (header.data_bytes != held || held == 0) {
    fail<DataError>(
        "{}: {} bytes of data, but its header describes {}; expected an array that is whole and "
        "not "
        "empty",
        source, held, header.data_bytes);
  }
  const auto* first = reinterpret_cast<const uint8_t*>(file->data()) + header.data_offset;
  return {source, numpy_type(header.dtype, source), header.shape, file, {first, held}};
}

std::string axes_fault(std::string_view axes, size_t dimensions) {
  for (const char letter : axes) {
    if (std::string_view("NCDHW").find(letter) == std::string_view::npos ||
        std::count(axes.begin(), axes.end(), letter) != 1) {
      return fmt::format("\"{}\"; expected the letters N, C, D, H, W, each at most once", axes);
    }
  }
  if (axes.find('H') == std::string_view::npos || axes.find('W') == std::string_view::npos)
    return fmt::format("\"{}\"; expected at least H and W", axes);
  if (axes.size() != dimensions)
    return fmt::format("\"{}\" for {} dimensions; expected a letter for each", axes, dimensions);
  return {};
}

StoredVolume volume_of_array(const std::string& source, std::span<const uint8_t> bytes,
                             const NumpyType& type, std::span<const int64_t> shape,
                             std::string_view axes, int64_t index) {
  FOVEA_CHECK(axes.size() == shape.size(), "{}: axes {} for {} dimensions", source, axes,
              shape.size());
  const auto strides = row_major_strides(shape);
  StoredVolume stored;
  stored.source = source;
  stored.type = type.type;
  stored.order = type.order;
  stored.bytes = bytes;
  std::array<int64_t, 4> sizes = {1, 1, 1, 1};
  for (size_t i = 0; i < shape.size(); ++i) {
    const size_t axis = std::string_view("CDHW").find(axes[i]);
    if (axis == std::string_view::npos) {
      stored.first = index * strides[i];
      continue;
    }
    sizes[axis] = shape[i];
    stored.strides[axis] = strides[i];
  }
  if (checked_voxels(sizes) < 0) {
    fail<DataError>("{}: a volume of {} values; expected at most {}", source,
                    fmt::join(sizes, " x "), kMaxVolumeValues);
  }
  stored.channels = sizes[0];
  stored.size = {sizes[1], sizes[2], sizes[3]};
  return stored;
}

std::unique_ptr<VolumeFile> open_npy(const std::string& path, std::string_view axes) {
  InputFile file(path);
  const NpyHeader header = read_npy_header(file);
  if (checked_voxels(header.shape) < 0) {
    fail<DataError>("{}: a volume of {} values; expected 1 to {}", file.name(),
                    fmt::join(header.shape, " x "), kMaxVolumeValues);
  }
  const auto fault = axes_fault(axes, header.shape.size());
  if (!fault.empty() || axes.find('N') != std::string_view::npos) {
    fail<DataError>("{}: axes {}", path,
                    fault.empty() ? "with N, but each file is one sample" : fault);
  }
  const NumpyType type = numpy_type(header.dtype, file.name());
  return std::make_unique<ArrayFile>(std::make_shared<FileSource>(std::move(file)),
                                     volume_of_array(path, {}, type, header.shape, axes, 0),
                                     header.data_offset);
}

}  // namespace fovea::data
