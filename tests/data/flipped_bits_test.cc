// Every format with a checksum: a flipped bit of any byte of a small file gives an error or the
// same values, never others.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "fovea/data/datasets/arrays.h"
#include "fovea/data/datasets/cifar_python.h"
#include "fovea/data/datasets/folder.h"
#include "fovea/data/datasets/idx.h"
#include "fovea/data/datasets/packed.h"
#include "fovea/data/datasets/registry.h"
#include "fovea/data/image/png.h"
#include "fovea/data/large_image/tiff.h"
#include "fovea/data/volume/nifti_file.h"
#include "fovea/data_tools/pack/pack.h"
#include "fovea/files/unpack_limit.h"
#include "fovea/files/zip.h"
#include "tests/data/bad_input_support.h"
#include "tests/data/golden_files.h"

namespace fovea::data {
namespace {

using testing::golden;
using testing::golden_file;
using testing::TempDir;

// What a file holds, as bytes to compare.
using ReadAll = std::function<std::string(const std::vector<uint8_t>& bytes)>;

template <class T>
std::string as_text(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// Flips a bit of each of the bytes [first, last), another one from byte to byte; 0: to the end.
void expect_flips_are_seen(const std::string& what, std::vector<uint8_t> bytes, const ReadAll& read,
                           size_t first = 0, size_t last = 0) {
  const std::string whole = read(bytes);
  ASSERT_FALSE(whole.empty()) << what;
  last = last == 0 ? bytes.size() : last;
  size_t num_refused = 0;
  for (size_t i = first; i < last; ++i) {
    const auto bit = static_cast<uint8_t>(1 << (i * 5 + 3) % 8);
    bytes[i] ^= bit;
    try {
      EXPECT_TRUE(read(bytes) == whole) << what << ": byte " << i << ", bit " << int{bit};
    } catch (const DataError&) {
      ++num_refused;
    }
    bytes[i] ^= bit;
  }
  // Most of a file is what it holds, so most flips must be refused.
  EXPECT_GT(num_refused, (last - first) / 2) << what;
}

// `bytes` over a file of as many: one that is cut and written anew waits for the disk.
std::string write_over(const std::string& path, const std::vector<uint8_t>& bytes) {
  const bool is_there = std::filesystem::exists(path);
  if (!is_there) std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::fstream file(path,
                    std::ios::binary | std::ios::out | (is_there ? std::ios::in : std::ios::out));
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  return path;
}

// The samples of a data set, with their labels.
std::string samples_of(const Dataset& dataset) {
  std::string all;
  Sample sample;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    read_decoded(dataset, i, sample);
    all += sample.is<Volume>() ? as_text(sample.volume().values) : as_text(sample.image().pixels);
    all += std::to_string(sample.label) + ";";
  }
  return all;
}

std::vector<uint8_t> mixed_bytes(size_t count) {
  std::vector<uint8_t> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>((i * 7919 + i / 3) % 251);
  return bytes;
}

TEST(FlippedBitsTest, Png) {
  const auto read = [](const std::vector<uint8_t>& bytes) {
    Image image;
    decode_png(bytes, image);
    return fmt::format("{} {} {} ", image.height, image.width, image.channels) +
           as_text(image.pixels);
  };
  expect_flips_are_seen("gray", encode_png({9, 7, 1, mixed_bytes(63)}), read);
  expect_flips_are_seen("rgba", encode_png({5, 6, 4, mixed_bytes(120)}), read);
  expect_flips_are_seen("bits", golden("file.png_bits").bytes, read);
  expect_flips_are_seen("palette", golden("file.png_palette").bytes, read);
}

TEST(FlippedBitsTest, GzipOfNiftiAndIdx) {
  const TempDir dir;
  write_nifti(dir.file("a.nii.gz"), testing::small_volume(3), affine_of_spacing({1, 2, 3}));
  const auto nifti = [&](const std::vector<uint8_t>& bytes) {
    const auto stored = read_nifti(write_over(dir.file("flipped.nii.gz"), bytes));
    Volume volume;
    convert_volume(stored, volume);
    return as_text(volume.values) + stored.orientation;
  };
  expect_flips_are_seen("nifti", testing::file_bytes(dir.file("a.nii.gz")), nifti);
  const auto idx = [&](const std::vector<uint8_t>& bytes) {
    return samples_of(
        *build_dataset({IdxConfig{.images = write_over(dir.file("images.gz"), bytes)}}));
  };
  expect_flips_are_seen("idx", testing::gzip(testing::idx_bytes({3, 4, 5}, mixed_bytes(60))), idx);
  const auto archive = [&](const std::vector<uint8_t>& bytes) {
    const auto path = write_over(dir.file("cifar-10-python.tar.gz"), bytes);
    return samples_of(*build_dataset({CifarPythonConfig{.path = path}}));
  };
  expect_flips_are_seen("cifar", golden_file("cifar.cifar-10-python.tar.gz"), archive);
}

TEST(FlippedBitsTest, Npz) {
  const TempDir dir;
  for (const char* name : {"zip.deflated.npz", "zip.stored.npz"}) {
    const auto read = [&](const std::vector<uint8_t>& bytes) {
      const ZipFile file(write_over(dir.file(name), bytes));
      const auto array = read_npz_array(file, "images", kDefaultUnpackedBytes);
      return fmt::format("{} ", fmt::join(array.shape, " ")) +
             std::string(array.bytes.begin(), array.bytes.end());
    };
    const auto bytes = golden_file(name);
    expect_flips_are_seen(name, bytes, read, 0, bytes.size() / 3);
  }
}

// Where the strips or tiles of a little-endian TIFF lie: the directory has no checksum.
std::vector<std::pair<size_t, size_t>> tiff_blocks(const std::vector<uint8_t>& bytes) {
  const auto number = [&](size_t at, size_t count) {
    size_t value = 0;
    for (size_t i = count; i-- > 0;) value = value << 8 | bytes.at(at + i);
    return value;
  };
  std::vector<size_t> offsets, counts;
  const size_t directory = number(4, 4);
  for (size_t i = 0; i < number(directory, 2); ++i) {
    const size_t entry = directory + 2 + 12 * i, tag = number(entry, 2);
    const bool is_offset = tag == 273 || tag == 324, is_count = tag == 279 || tag == 325;
    if (!is_offset && !is_count) continue;
    const size_t size = number(entry + 2, 2) == 3 ? 2 : 4, values = number(entry + 4, 4);
    const size_t at = size * values <= 4 ? entry + 8 : number(entry + 8, 4);
    for (size_t v = 0; v < values; ++v)
      (is_offset ? offsets : counts).push_back(number(at + v * size, size));
  }
  std::vector<std::pair<size_t, size_t>> blocks;
  for (size_t i = 0; i < offsets.size(); ++i)
    blocks.emplace_back(offsets[i], offsets[i] + counts.at(i));
  return blocks;
}

TEST(FlippedBitsTest, DeflateInTiff) {
  const TempDir dir;
  const auto read = [&](const std::vector<uint8_t>& bytes) {
    const auto source = open_tiff(write_over(dir.file(fmt::format("{}.tif", bytes.size())), bytes));
    const auto& format = source->format();
    std::vector<uint8_t> pixels(
        static_cast<size_t>(format.size.height * format.size.width * format.pixel_bytes()));
    source->read({0, 0, format.size}, pixels);
    return as_text(pixels);
  };
  for (const char* name : {"strips_deflate", "tiles_deflate_16"}) {
    const auto& bytes = golden(std::string("file.") + name, "data_tiff").bytes;
    const auto blocks = tiff_blocks(bytes);
    ASSERT_FALSE(blocks.empty());
    // The first one's beginning and the last one's end, where the sum stands.
    const auto [first, first_end] = blocks.front();
    const auto [last, last_end] = blocks.back();
    expect_flips_are_seen(name, bytes, read, first, std::min(first + 60, first_end));
    expect_flips_are_seen(name, bytes, read, last_end - std::min<size_t>(60, last_end - last),
                          last_end);
  }
}

TEST(FlippedBitsTest, PackedShards) {
  const TempDir dir;
  for (int i = 0; i < 2; ++i) {
    const std::vector<uint8_t> pixels(12, static_cast<uint8_t>(9 + i));
    dir.write(fmt::format("in/{}/a.png", i), encode_png({3, 4, 1, pixels}));
  }
  PackOptions options;
  options.out = dir.file("packed");
  pack_dataset(*build_dataset({FolderConfig{.path = dir.file("in")}}), options);
  const auto shard = dir.file("packed/shard_000000.fvp");
  const auto read = [&](const std::vector<uint8_t>& bytes) {
    write_over(shard, bytes);
    return samples_of(*build_dataset({PackedConfig{.path = dir.file("packed")}}));
  };
  expect_flips_are_seen("packed", testing::file_bytes(shard), read);
}

}  // namespace
}  // namespace fovea::data
