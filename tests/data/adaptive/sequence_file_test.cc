#include "fovea/data/adaptive/sequence_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "fovea/core/memory.h"
#include "fovea/core/write_error.h"
#include "fovea/data/large_image/raw_regions.h"
#include "fovea/data/large_image/tiff.h"
#include "tests/data/adaptive/way_back.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

Image stripes(int64_t height, int64_t width, int64_t channels) {
  Image image;
  reshape(image, {height, width}, channels);
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t i = 0; i < width * channels; ++i) {
      const int64_t x = i / channels;
      const bool is_fine = y > height / 2 && x > width / 2;
      image.pixels[static_cast<size_t>(y * width * channels + i)] =
          static_cast<uint8_t>((is_fine ? x / 5 % 2 : x / 40 % 2) * 150 + y / 4 + i % channels);
    }
  }
  return image;
}

AdaptivePatchingConfig small_config() {
  AdaptivePatchingConfig config;
  config.fixed_length = 60;
  config.patch_size = 8;
  return config;
}

// Writes the sequence of an image to a file; returns it with its tokens.
PatchSequence save(const Image& image, const AdaptivePatchingConfig& config,
                   const std::string& path) {
  const AdaptivePatcher patcher(config);
  const ImageSource source("stripes", image);
  PatchSequence sequence;
  SequenceFileWriter writer(path, source.format(), config);
  patcher.patch(
      source, nullptr, {},
      [&](int64_t channel, int64_t leaf, std::span<const float> token) {
        writer.write_token(channel, leaf, token);
      },
      {}, sequence);
  writer.finish(sequence);
  PatchingScratch scratch;
  PatchSequence whole;
  patcher.patch(ImageView(image), nullptr, {}, whole, scratch);
  return whole;
}

template <class T>
std::string write_tensor(const testing::TempDir& folder, const std::string& dtype,
                         const std::vector<int64_t>& shape, const std::vector<T>& values) {
  const auto path = folder.file("values.safetensors");
  const SafetensorsEntry entry = {"values", dtype, shape, std::as_bytes(std::span(values))};
  write_safetensors(path, {&entry, 1});
  return path;
}

template <class T>
std::vector<T> read_map(const std::string& path, int64_t channels) {
  const auto source = open_tiff(path);
  EXPECT_EQ(source->format().channels, channels);
  const auto& size = source->format().size;
  std::vector<uint8_t> bytes(
      static_cast<size_t>(size.height * size.width * source->format().pixel_bytes()));
  source->read({0, 0, size}, bytes);
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

template <class T>
std::vector<T> numbers(const SafetensorsEntry& entry) {
  std::vector<T> values(entry.bytes.size() / sizeof(T));
  std::memcpy(values.data(), entry.bytes.data(), entry.bytes.size());
  return values;
}

TEST(SequenceFileTest, HoldsTheSequence) {
  const testing::TempDir folder;
  for (const bool is_separate : {false, true}) {
    auto config = small_config();
    config.separate_channels = is_separate;
    const auto path = folder.file("patches.safetensors");
    const PatchSequence whole = save(stripes(150, 201, 3), config, path);
    const auto file = SafetensorsFile::open(path);
    EXPECT_EQ(file.find("tokens")->shape, (std::vector<int64_t>{3, 60, 64}));
    EXPECT_TRUE(numbers<float>(*file.find("tokens")) == whole.tokens);
    EXPECT_EQ(numbers<float>(*file.find("sizes")), whole.sizes);
    EXPECT_EQ(numbers<float>(*file.find("centers")), whole.centers);
    EXPECT_EQ(numbers<uint8_t>(*file.find("padding_mask")), whole.padding_mask);
    const auto saved = load_sequence(path);
    EXPECT_EQ(saved.sequence.fixed_length, 60);
    EXPECT_EQ(saved.sequence.patch_size, 8);
    EXPECT_FALSE(saved.upstream_compatible);
    ASSERT_EQ(saved.sequence.trees.size(), is_separate ? 3u : 1u);
    for (size_t t = 0; t < whole.trees.size(); ++t) {
      EXPECT_EQ(saved.sequence.trees[t].leaves, whole.trees[t].leaves);
    }
  }
}

TEST(SequenceFileTest, AnUnfinishedFileLeavesNothing) {
  const testing::TempDir folder;
  { const SequenceFileWriter writer(folder.file("a"), {{40, 40}}, small_config()); }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_THROW(SequenceFileWriter(folder.path() + "/no/a", {{40, 40}}, small_config()), WriteError);
}

TEST(PredictionTest, TokensComeBackAsInMemory) {
  const testing::TempDir folder;
  for (const bool is_compatible : {false, true}) {
    auto config = small_config();
    config.upstream_compatible = is_compatible;
    const auto path = folder.file("patches.safetensors");
    const PatchSequence whole = save(stripes(150, 201, 3), config, path);
    const Volume expected = testing::volume_of_tokens(whole, is_compatible);
    const auto tiff = folder.file("map.tif");
    write_prediction(path, path, tiff, {.tensor = "tokens", .memory = {.band_bytes = 10000}});
    const auto map = read_map<float>(tiff, 3);
    for (size_t i = 0; i < map.size(); ++i) {
      ASSERT_EQ(map[i], expected.values[i % 3 * 150 * 201 + i / 3]);
    }
  }
}

TEST(PredictionTest, ValuesAndClassesFillTheirLeaves) {
  const testing::TempDir folder;
  const auto path = folder.file("patches.safetensors");
  const PatchSequence whole = save(stripes(150, 201, 1), small_config(), path);
  const auto tiff = folder.file("map.tif");
  std::vector<float> values;
  std::vector<int64_t> classes;
  std::vector<uint8_t> bytes;
  for (int i = 0; i < 60; ++i) {
    values.insert(values.end(), {0.1f * static_cast<float>(i), -static_cast<float>(i)});
    classes.push_back(i - 1);
    bytes.push_back(static_cast<uint8_t>(4 * i));
  }
  write_prediction(path, write_tensor(folder, "F32", {60, 2}, values), tiff);
  const auto value_map = read_map<float>(tiff, 2);
  write_prediction(path, write_tensor(folder, "I64", {60}, classes), tiff);
  const auto class_map = read_map<int32_t>(tiff, 1);
  write_prediction(path, write_tensor(folder, "U8", {60}, bytes), tiff, {.compression = "lzw"});
  const auto byte_map = read_map<uint8_t>(tiff, 1);
  const auto& leaves = whole.trees[0].leaves;
  for (size_t l = 0; l < leaves.size(); ++l) {
    for (int64_t y = leaves[l].y; y < leaves[l].y + leaves[l].height; ++y) {
      for (int64_t x = leaves[l].x; x < leaves[l].x + leaves[l].width; ++x) {
        const auto at = static_cast<size_t>(y * 201 + x);
        ASSERT_EQ(value_map[2 * at], values[2 * l]);
        ASSERT_EQ(value_map[2 * at + 1], values[2 * l + 1]);
        ASSERT_EQ(class_map[at], classes[l]);
        ASSERT_EQ(byte_map[at], bytes[l]);
      }
    }
  }
}

TEST(PredictionTest, ClassesOfPixelsComeBackAsInMemory) {
  const testing::TempDir folder;
  const auto path = folder.file("patches.safetensors");
  const PatchSequence whole = save(stripes(150, 201, 1), small_config(), path);
  std::vector<int32_t> tokens;
  for (int i = 0; i < 60 * 16; ++i) tokens.push_back(i % 11);
  const LabelMap expected = testing::labels_of_tokens(tokens, whole.trees[0], 4);
  const auto tiff = folder.file("map.tif");
  write_prediction(path, write_tensor(folder, "I32", {60, 16}, tokens), tiff);
  EXPECT_EQ(read_map<int32_t>(tiff, 1), expected.classes);
}

TEST(PredictionTest, OtherFormsAreRefused) {
  const testing::TempDir folder;
  const auto path = folder.file("patches.safetensors");
  save(stripes(50, 60, 1), small_config(), path);
  const auto refused = [&](const std::string& values) {
    return message_of([&] { write_prediction(path, values, folder.file("map.tif")); });
  };
  EXPECT_THAT(refused(write_tensor(folder, "F32", {59, 2}, std::vector<float>(118))),
              HasSubstr("F32 [59, 2]; expected, for 60 patches"));
  EXPECT_THAT(refused(write_tensor(folder, "F32", {2, 60, 15}, std::vector<float>(1800))),
              HasSubstr("[C, 60, p * p]"));
  EXPECT_THAT(refused(write_tensor(folder, "F64", {60, 2}, std::vector<double>(120))),
              HasSubstr("F64"));
  EXPECT_THAT(refused(write_tensor(folder, "I64", {60}, std::vector<int64_t>(60, 1ll << 40))),
              HasSubstr("within 32 bits"));
  EXPECT_THAT(refused(path), HasSubstr("one tensor, or the name of one of these"));
  EXPECT_THAT(refused(folder.write("short", "12")), HasSubstr("no safetensors file"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/map.tif"));
}

TEST(SequenceFileTest, LeavesThatLieAreRefused) {
  const testing::TempDir folder;
  const auto refused = [&](const std::vector<int32_t>& leaves, const std::string& width) {
    const SafetensorsEntry entry = {"leaves",
                                    "I32",
                                    {1, static_cast<int64_t>(leaves.size() / 4), 4},
                                    std::as_bytes(std::span(leaves))};
    const auto path = folder.file("lies.safetensors");
    write_safetensors(path, {&entry, 1}, {{"height", "10"}, {"width", width}, {"patch_size", "4"}});
    return message_of([&] { load_sequence(path); });
  };
  EXPECT_THAT(refused({0, 0, 10, 10, 0, 10, 10, 11}, "20"), HasSubstr("leaf 1 is 10x11"));
  EXPECT_THAT(refused({0, 0, 10, 10, 0, 0, 0, 0}, "20"), HasSubstr("100 pixels; expected 10x20"));
  EXPECT_THAT(refused({-1, 0, 10, 10}, "10"), HasSubstr("outside"));
  EXPECT_THAT(refused({0, 0, 2147483647, 2147483647}, "10"), HasSubstr("outside"));
  EXPECT_THAT(refused({0, 0, 10, 10}, "10x"), HasSubstr("metadata width"));
  EXPECT_THAT(refused({0, 0, 10, 10}, "99999999999"), HasSubstr("metadata width"));
}

// What patching and prediction of a file take in a process of their own, in MiB.
int64_t peak_growth(const testing::TempDir& folder, int64_t side) {
  const auto path = folder.file("large.raw");
  {
    std::ofstream file(path, std::ios::binary);
    std::vector<char> row(static_cast<size_t>(3 * side));
    for (int64_t y = 0; y < side; ++y) {
      for (size_t i = 0; i < row.size(); ++i) {
        row[i] = static_cast<char>((static_cast<int64_t>(i) / 3 / 50 + y / 70) % 2 * 120);
      }
      file.write(row.data(), static_cast<std::streamsize>(row.size()));
    }
  }
  const pid_t child = fork();
  if (child == 0) {
    int status = 255;
    try {
      const int64_t before = peak_memory_bytes();
      const auto source = open_raw_regions(path, {ScalarType::kUint8, {side, side, 3}, "HWC"});
      auto config = small_config();
      config.fixed_length = 1000;
      const auto patches = folder.file("patches.safetensors");
      {
        SequenceFileWriter writer(patches, source->format(), config);
        PatchSequence sequence;
        AdaptivePatcher(config).patch(
            *source, nullptr, {},
            [&](int64_t channel, int64_t leaf, std::span<const float> token) {
              writer.write_token(channel, leaf, token);
            },
            {.band_bytes = 1 << 20}, sequence);
        writer.finish(sequence);
      }
      write_prediction(
          patches, patches, folder.file("map.tif"),
          {.tensor = "tokens", .compression = "none", .memory = {.band_bytes = 1 << 20}});
      status = static_cast<int>(std::min<int64_t>((peak_memory_bytes() - before) >> 20, 254));
    } catch (const std::exception&) {
    }
    _exit(status);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

// 3000 x 3000 x 3 bytes are 26 MiB, the map in memory 103 MiB, the sums of DetailMap 34 MiB.
TEST(OutOfCoreMemoryTest, StaysFarBelowTheImage) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer keeps freed memory";
#endif
  const testing::TempDir folder;
  const int64_t mib = peak_growth(folder, 3000);
  EXPECT_GT(mib, 0);
  EXPECT_LT(mib, 24);
}

}  // namespace
}  // namespace fovea::data
