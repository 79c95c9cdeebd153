#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "fovea/data/adaptive/adaptive_patching.h"
#include "fovea/data/adaptive/leaf_sweep.h"
#include "fovea/data/large_image/raw_regions.h"
#include "fovea/data/large_image/tiff.h"
#include "tests/data/adaptive/way_back.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

// Disks of several sizes over a slope, with noise in one corner: edges, flat parts and fine detail.
Image disks(int64_t height, int64_t width, int64_t channels, uint64_t seed) {
  RandomStream random(philox_key(seed, "disks"), 0);
  Image image;
  reshape(image, {height, width}, channels);
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t i = 0; i < width * channels; ++i) {
      image.pixels[static_cast<size_t>(y * width * channels + i)] =
          static_cast<uint8_t>((y + i / channels) / 3 % 256);
    }
  }
  for (int disk = 0; disk < 6; ++disk) {
    const int64_t radius = 1 + random.below(static_cast<uint32_t>(std::max<int64_t>(width / 6, 1)));
    const int64_t cy = random.below(static_cast<uint32_t>(height));
    const int64_t cx = random.below(static_cast<uint32_t>(width));
    const uint32_t color = random.next_word();
    for (int64_t y = std::max<int64_t>(0, cy - radius); y < std::min(height, cy + radius); ++y) {
      for (int64_t x = std::max<int64_t>(0, cx - radius); x < std::min(width, cx + radius); ++x) {
        if ((y - cy) * (y - cy) + (x - cx) * (x - cx) > radius * radius) continue;
        for (int64_t c = 0; c < channels; ++c) {
          image.pixels[static_cast<size_t>((y * width + x) * channels + c)] =
              static_cast<uint8_t>(color >> (8 * (c % 4)));
        }
      }
    }
  }
  for (int64_t y = 0; y < height / 4; ++y) {
    for (int64_t i = 0; i < width / 4 * channels; ++i) {
      image.pixels[static_cast<size_t>(y * width * channels + i)] ^=
          static_cast<uint8_t>(random.next_word() & 127);
    }
  }
  return image;
}

// The same pixels as floats in [0, 1], as a volume of depth 1 and as a raw file.
Volume unit_field(const Image& image) {
  Volume volume = {image.channels, {1, image.height, image.width}, {1, 1, 1}, {}};
  for (int64_t c = 0; c < image.channels; ++c) {
    for (int64_t i = 0; i < volume.size.voxels(); ++i) {
      volume.values.push_back(
          static_cast<float>(image.pixels[static_cast<size_t>(i * image.channels + c)]) / 255.0f);
    }
  }
  return volume;
}

std::vector<uint8_t> bytes_of_floats(const std::vector<float>& values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

struct RegionCase {
  int64_t height, width, channels, fixed_length, patch_size, min_leaf;
};

// Sides of every parity, strips, single pixels, leaves below, at and far above the patch.
const std::vector<RegionCase> kRegionCases = {
    {64, 64, 1, 16, 8, 2},    {97, 131, 3, 64, 8, 2},  {131, 97, 1, 100, 4, 1},
    {200, 33, 3, 40, 16, 3},  {33, 200, 2, 40, 16, 8}, {257, 255, 3, 196, 16, 2},
    {1, 1, 1, 4, 4, 1},       {1, 150, 1, 20, 5, 2},   {150, 1, 3, 20, 5, 2},
    {300, 310, 1, 1, 16, 16}, {256, 256, 3, 7, 7, 7},  {190, 260, 4, 333, 3, 1},
};

AdaptivePatchingConfig config_of(const RegionCase& size, const std::string& criterion) {
  AdaptivePatchingConfig config;
  config.fixed_length = size.fixed_length;
  config.patch_size = size.patch_size;
  config.min_leaf = size.min_leaf;
  config.criterion = criterion;
  config.smoothing = {3};
  return config;
}

struct PatchedRegions {
  PatchSequence sequence;
  std::vector<float> tokens;  // [C, L, p^2], with zeros in the padding
};

PatchedRegions patch_regions(const AdaptivePatcher& patcher, const RegionSource& source,
                             RandomStream* random, const ChannelScaling& scaling,
                             int64_t band_bytes) {
  PatchedRegions result;
  const auto& config = patcher.config();
  const int64_t token_size = config.patch_size * config.patch_size;
  const int64_t channels = source.format().channels;
  result.tokens.resize(static_cast<size_t>(channels * config.fixed_length * token_size));
  std::vector<int64_t> seen(static_cast<size_t>(channels * config.fixed_length));
  const auto sink = [&](int64_t channel, int64_t leaf, std::span<const float> token) {
    ASSERT_EQ(static_cast<int64_t>(token.size()), token_size);
    const int64_t at = channel * config.fixed_length + leaf;
    ++seen.at(static_cast<size_t>(at));
    std::copy(token.begin(), token.end(), result.tokens.begin() + at * token_size);
  };
  patcher.patch(source, random, scaling, sink, {.band_bytes = band_bytes}, result.sequence);
  for (int64_t c = 0; c < channels; ++c) {
    const auto& tree = result.sequence.trees[result.sequence.trees.size() > 1 ? c : 0];
    for (int64_t l = 0; l < config.fixed_length; ++l) {
      const bool is_leaf = l < static_cast<int64_t>(tree.leaves.size());
      EXPECT_EQ(seen[static_cast<size_t>(c * config.fixed_length + l)], is_leaf ? 1 : 0);
    }
  }
  return result;
}

void expect_same(const PatchedRegions& regions, const PatchSequence& expected,
                 const std::string& key) {
  const PatchSequence& sequence = regions.sequence;
  ASSERT_EQ(sequence.trees.size(), expected.trees.size()) << key;
  for (size_t t = 0; t < expected.trees.size(); ++t) {
    ASSERT_EQ(sequence.trees[t].leaves, expected.trees[t].leaves) << key;
    ASSERT_EQ(sequence.trees[t].nodes.size(), expected.trees[t].nodes.size()) << key;
    for (size_t i = 0; i < expected.trees[t].nodes.size(); ++i) {
      ASSERT_EQ(sequence.trees[t].nodes[i].value, expected.trees[t].nodes[i].value) << key;
    }
  }
  EXPECT_EQ(sequence.sizes, expected.sizes) << key;
  EXPECT_EQ(sequence.centers, expected.centers) << key;
  EXPECT_EQ(sequence.padding_mask, expected.padding_mask) << key;
  EXPECT_TRUE(regions.tokens == expected.tokens) << key;  // every bit
}

TEST(OutOfCoreTest, ImagesGiveWhatTheyGiveInMemory) {
  PatchingScratch scratch;
  int64_t num_cases = 0;
  for (const RegionCase& size : kRegionCases) {
    const Image image = disks(size.height, size.width, size.channels, 3);
    const ImageSource source("disks", image);
    const std::vector<float> scale(static_cast<size_t>(size.channels), 1.0f / 58.0f);
    const std::vector<float> shift(static_cast<size_t>(size.channels), -2.1f);
    for (const char* criterion : {"canny", "gradient", "variance"}) {
      for (const int mode : {0, 1, 2}) {
        auto config = config_of(size, criterion);
        config.upstream_compatible = mode == 1;
        config.separate_channels = mode == 2;
        const AdaptivePatcher patcher(config);
        PatchSequence expected;
        const ChannelScaling scaling = {scale, shift};
        patcher.patch(ImageView(image), nullptr, scaling, expected, scratch);
        for (const int64_t band_bytes : {1, 1000, 1 << 20}) {
          const auto key = fmt::format("{}x{}x{} {} {} {}", size.height, size.width, size.channels,
                                       criterion, mode, band_bytes);
          expect_same(patch_regions(patcher, source, nullptr, scaling, band_bytes), expected, key);
          ++num_cases;
        }
      }
    }
  }
  EXPECT_EQ(num_cases, 12 * 3 * 3 * 3);
}

TEST(OutOfCoreTest, FieldsGiveWhatTheyGiveInMemory) {
  const testing::TempDir folder;
  PatchingScratch scratch;
  for (const RegionCase& size : kRegionCases) {
    const Volume volume = unit_field(disks(size.height, size.width, size.channels, 5));
    const auto path = folder.write("field.raw", bytes_of_floats(volume.values));
    const auto source = open_raw_regions(
        path, {ScalarType::kFloat32, {size.channels, size.height, size.width}, "CHW"});
    for (const char* criterion : {"canny", "gradient", "variance"}) {
      for (const int64_t smoothing : {0, 3, 5}) {
        auto config = config_of(size, criterion);
        config.smoothing = {smoothing};
        config.value_range = {0.1, 0.9};
        config.separate_channels = smoothing == 5;
        const AdaptivePatcher patcher(config);
        PatchSequence expected;
        patcher.patch(volume, nullptr, {}, expected, scratch);
        const auto key = fmt::format("{}x{}x{} {} {}", size.height, size.width, size.channels,
                                     criterion, smoothing);
        expect_same(patch_regions(patcher, *source, nullptr, {}, 3000), expected, key);
      }
    }
  }
}

// Smoothing, threshold and noise are drawn as in memory, and leave the stream at the same place.
TEST(OutOfCoreTest, DrawsAreTheSame) {
  const Image image = disks(120, 90, 3, 9);
  const ImageSource source("disks", image);
  auto config = config_of({120, 90, 3, 50, 8, 2}, "canny");
  config.smoothing = {0, 1, 3, 5};
  config.noise = true;
  const AdaptivePatcher patcher(config);
  PatchingScratch scratch;
  std::set<size_t> kinds;
  for (uint64_t sample = 0; sample < 12; ++sample) {
    auto in_memory = testing::test_stream(sample);
    auto out_of_core = testing::test_stream(sample);
    PatchSequence expected;
    patcher.patch(ImageView(image), &in_memory, {}, expected, scratch);
    const auto regions = patch_regions(patcher, source, &out_of_core, {}, 4096);
    expect_same(regions, expected, fmt::format("sample {}", sample));
    EXPECT_EQ(in_memory.next_word(), out_of_core.next_word());
    kinds.insert(expected.trees[0].nodes[0].value);
  }
  EXPECT_GT(kinds.size(), 3u);
}

TEST(OutOfCoreTest, TheInverseIsTheSame) {
  PatchingScratch scratch;
  for (const RegionCase& size : kRegionCases) {
    const Image image = disks(size.height, size.width, size.channels, 4);
    for (const int mode : {0, 1, 2}) {
      auto config = config_of(size, "canny");
      config.upstream_compatible = mode == 1;
      config.separate_channels = mode == 2;
      const AdaptivePatcher patcher(config);
      PatchSequence sequence;
      patcher.patch(ImageView(image), nullptr, {}, sequence, scratch);
      const Volume expected = testing::volume_of_tokens(sequence, config.upstream_compatible);
      const auto token_size = static_cast<size_t>(sequence.token_size());
      for (int64_t c = 0; c < size.channels; ++c) {
        const auto give = [&](int64_t leaf, std::span<float> token) {
          const auto at = static_cast<size_t>(c * config.fixed_length + leaf) * token_size;
          std::copy_n(sequence.tokens.begin() + static_cast<ptrdiff_t>(at), token_size,
                      token.begin());
        };
        for (const int64_t band : {int64_t{1}, int64_t{7}, size.height}) {
          patching::LeafRows<float> rows(sequence.trees[sequence.trees.size() == 1 ? 0 : c],
                                         config.patch_size,
                                         resample_rules(false, config.upstream_compatible), give);
          std::vector<float> map(static_cast<size_t>(size.height * size.width));
          for (int64_t y = 0; y < size.height; y += band) {
            rows.read(y, std::min(band, size.height - y), map.data() + y * size.width);
          }
          ASSERT_TRUE(std::equal(map.begin(), map.end(),
                                 expected.values.begin() + c * size.height * size.width))
              << size.height << "x" << size.width << " " << mode << " " << band;
        }
      }
    }
  }
}

TEST(OutOfCoreTest, ClassesComeBackAsInMemory) {
  PatchingScratch scratch;
  for (const RegionCase& size : kRegionCases) {
    const Image image = disks(size.height, size.width, 1, 6);
    const AdaptivePatcher patcher(config_of(size, "canny"));
    PatchSequence sequence;
    patcher.patch(ImageView(image), nullptr, {}, sequence, scratch);
    const PatchTree& tree = sequence.trees[0];
    LabelMap labels = {tree.size, {}};
    for (const uint8_t pixel : image.pixels) labels.classes.push_back(pixel / 32);
    std::vector<int32_t> tokens(sequence.tokens.size() / static_cast<size_t>(sequence.channels));
    patcher.patch_labels(labels.classes, tree, tokens);
    const LabelMap expected = testing::labels_of_tokens(tokens, tree, size.patch_size);
    const auto token_size = static_cast<size_t>(sequence.token_size());
    patching::LeafRows<int32_t> rows(
        tree, size.patch_size, std::nullopt, [&](int64_t leaf, std::span<int32_t> token) {
          std::copy_n(tokens.begin() + leaf * static_cast<int64_t>(token_size), token_size,
                      token.begin());
        });
    std::vector<int32_t> map(static_cast<size_t>(size.height * size.width));
    for (int64_t y = 0; y < size.height; y += 7) {
      rows.read(y, std::min<int64_t>(7, size.height - y), map.data() + y * size.width);
    }
    EXPECT_EQ(map, expected.classes);
  }
}

// Every rectangle that a tree can have, against a plain sum.
TEST(OutOfCoreTest, GroupedSumsArePlainSums) {
  RandomStream random = testing::test_stream(2);
  const int64_t height = 203, width = 331, words = 6;
  std::vector<uint64_t> bits(static_cast<size_t>(height * words));
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      bits[static_cast<size_t>(y * words + x / 64)] |= uint64_t{random.below(2)} << (x % 64);
    }
  }
  patching::BitSums sums;
  sums.build(bits.data(), height, width);
  for (int round = 0; round < 300; ++round) {
    TreeBox box;
    box.y = static_cast<int32_t>(random.below(203));
    box.x = static_cast<int32_t>(random.below(331));
    box.height = static_cast<int32_t>(random.below(static_cast<uint32_t>(height - box.y))) + 1;
    box.width = static_cast<int32_t>(random.below(static_cast<uint32_t>(width - box.x))) + 1;
    uint64_t expected = 0;
    for (int64_t y = box.y; y < box.y + box.height; ++y) {
      for (int64_t x = box.x; x < box.x + box.width; ++x) {
        expected += bits[static_cast<size_t>(y * words + x / 64)] >> (x % 64) & 1;
      }
    }
    ASSERT_EQ(sums.sum(box), expected);
  }
}

TEST(OutOfCoreTest, RefusesDetailThatDoesNotFit) {
  const ImageSource source("disks", disks(300, 300, 1, 1));
  const auto config = config_of({300, 300, 1, 10, 8, 1}, "gradient");
  PatchSequence out;
  const auto message = testing::message_of<ConfigError>([&] {
    AdaptivePatcher(config).patch(source, nullptr, {}, {}, {.max_detail_bytes = 100'000}, out);
  });
  EXPECT_NE(message.find("gradient, min_leaf=1"), std::string::npos) << message;
  EXPECT_NE(message.find("larger min_leaf"), std::string::npos) << message;
}

TEST(OutOfCoreTest, RefusesWhatIsForVolumes) {
  const ImageSource source("disks", disks(30, 30, 1, 1));
  PatchSequence out;
  EXPECT_THROW(AdaptivePatcher(config_of({30, 30, 1, 10, 8, 2}, "canny_direction"))
                   .patch(source, nullptr, {}, {}, {}, out),
               ConfigError);
}

TEST(OutOfCoreTest, NumbersThatAreNotFiniteAreNamed) {
  const testing::TempDir folder;
  std::vector<float> values(50 * 40, 0.5f);
  values[17 * 40 + 23] = std::nanf("");
  const auto path = folder.write("nan.raw", bytes_of_floats(values));
  const auto source = open_raw_regions(path, {ScalarType::kFloat32, {50, 40}, "HW"});
  PatchSequence out;
  const auto message = testing::message_of([&] {
    AdaptivePatcher(config_of({50, 40, 1, 10, 8, 2}, "canny"))
        .patch(
            *source, nullptr, {}, [](int64_t, int64_t, auto) {}, {}, out);
  });
  EXPECT_NE(message.find("row 17, column 23"), std::string::npos) << message;
}

}  // namespace
}  // namespace fovea::data
