#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "fovea/core/error.h"
#include "fovea/data/volume/nifti.h"
#include "fovea/files/atomic_file.h"

namespace fovea::data {
namespace {

constexpr size_t kDataOffset = 352;  // header and four bytes that say "no extensions"

template <class T>
void store(std::vector<std::byte>& bytes, size_t offset, T value) {
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(bytes.data() + offset, &value, sizeof(T));
}

template <class T>
constexpr int16_t type_code() {
  if constexpr (std::is_same_v<T, float>) return 16;
  return sizeof(T) == 2 ? 4 : 8;
}

// sizes: x, y, z and frames.
std::vector<std::byte> make_header(const std::array<int64_t, 4>& sizes, const Affine& affine,
                                   int16_t type, int16_t bits) {
  std::vector<std::byte> bytes(kDataOffset);
  store(bytes, 0, int32_t{348});
  store(bytes, 40, static_cast<int16_t>(sizes[3] > 1 ? 4 : 3));
  for (size_t axis = 0; axis < 7; ++axis)
    store(bytes, 42 + 2 * axis, static_cast<int16_t>(axis < 4 ? sizes[axis] : 1));
  store(bytes, 70, type);
  store(bytes, 72, bits);
  store(bytes, 76, 1.0F);
  for (size_t axis = 0; axis < 7; ++axis) {
    double size = 1;
    if (axis < 3) size = std::hypot(affine[0][axis], affine[1][axis], affine[2][axis]);
    store(bytes, 80 + 4 * axis, static_cast<float>(size));
  }
  store(bytes, 108, static_cast<float>(kDataOffset));
  store(bytes, 112, 1.0F);
  store(bytes, 123, uint8_t{2});  // millimetres
  store(bytes, 254, int16_t{1});  // sform_code: scanner
  for (size_t row = 0; row < 3; ++row) {
    for (size_t column = 0; column < 4; ++column)
      store(bytes, 280 + 16 * row + 4 * column, static_cast<float>(affine[row][column]));
  }
  std::memcpy(bytes.data() + 344, "n+1", 4);
  return bytes;
}

std::vector<std::byte> compress(const std::vector<std::byte>& bytes, const std::string& path) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) !=
      Z_OK) {
    fail<Error>("{}: cannot be compressed: out of memory", path);
  }
  std::vector<std::byte> out(deflateBound(&stream, bytes.size()) + 64);
  size_t read = 0, written = 0;
  constexpr size_t kBlock = size_t{1} << 30;  // zlib counts in 32 bits
  int code = Z_OK;
  while (code == Z_OK) {
    const size_t in_count = std::min(kBlock, bytes.size() - read);
    const size_t out_count = std::min(kBlock, out.size() - written);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data() + read));
    stream.avail_in = static_cast<unsigned>(in_count);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + written);
    stream.avail_out = static_cast<unsigned>(out_count);
    code = deflate(&stream, read + in_count == bytes.size() ? Z_FINISH : Z_NO_FLUSH);
    read += in_count - stream.avail_in;
    written += out_count - stream.avail_out;
  }
  deflateEnd(&stream);
  if (code != Z_STREAM_END) fail<Error>("{}: cannot be compressed: zlib says {}", path, code);
  out.resize(written);
  return out;
}

// at(c, x, y, z) gives the value; x is fastest in the file.
template <class T, class F>
void write_values(const std::string& path, const std::array<int64_t, 4>& sizes,
                  const Affine& affine, F&& at) {
  for (const int64_t size : sizes) {
    FOVEA_CHECK(size >= 1 && size <= std::numeric_limits<int16_t>::max(),
                "{}: size {}; NIfTI-1 holds 1 to 32767 along an axis", path, size);
  }
  auto bytes = make_header(sizes, affine, type_code<T>(), static_cast<int16_t>(8 * sizeof(T)));
  const int64_t values = checked_voxels(sizes);
  FOVEA_CHECK(values > 0, "{}: too large", path);
  bytes.resize(kDataOffset + static_cast<size_t>(values) * sizeof(T));
  size_t offset = kDataOffset;
  for (int64_t c = 0; c < sizes[3]; ++c) {
    for (int64_t z = 0; z < sizes[2]; ++z) {
      for (int64_t y = 0; y < sizes[1]; ++y) {
        for (int64_t x = 0; x < sizes[0]; ++x, offset += sizeof(T))
          store(bytes, offset, static_cast<T>(at(c, x, y, z)));
      }
    }
  }
  if (path.ends_with(".gz")) bytes = compress(bytes, path);
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

}  // namespace

void write_nifti(const std::string& path, const Volume& volume, const Affine& affine) {
  const auto& size = volume.size;
  FOVEA_CHECK(static_cast<int64_t>(volume.values.size()) == volume.channels * size.voxels(),
              "{}: {} values for {} channels of {} voxels", path, volume.values.size(),
              volume.channels, size.voxels());
  write_values<float>(
      path, {size.depth, size.height, size.width, volume.channels}, affine,
      [&](int64_t c, int64_t x, int64_t y, int64_t z) {
        return volume.values[((c * size.depth + x) * size.height + y) * size.width + z];
      });
}

void write_nifti(const std::string& path, const LabelMap& labels, const Affine& affine,
                 const NiftiLabelOptions& options) {
  const auto& size = labels.size;
  FOVEA_CHECK(static_cast<int64_t>(labels.classes.size()) == size.voxels(),
              "{}: {} labels for {} voxels", path, labels.classes.size(), size.voxels());
  const auto number = [&](int32_t label) {
    return label < 0 ? options.ignore_value : label + options.label_offset;
  };
  const auto at = [&](int64_t, int64_t x, int64_t y, int64_t z) {
    return number(labels.classes[(x * size.height + y) * size.width + z]);
  };
  const std::array<int64_t, 4> sizes = {size.depth, size.height, size.width, 1};
  const bool is_small =
      std::all_of(labels.classes.begin(), labels.classes.end(), [&](int32_t label) {
        return std::abs(number(label)) <= std::numeric_limits<int16_t>::max();
      });
  if (is_small) {
    write_values<int16_t>(path, sizes, affine, at);
  } else {
    write_values<int32_t>(path, sizes, affine, at);
  }
}

}  // namespace fovea::data
