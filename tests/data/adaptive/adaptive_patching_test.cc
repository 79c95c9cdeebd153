#include "fovea/data/adaptive/adaptive_patching.h"

#include <gtest/gtest.h>

#include <set>

#include "fovea/config/config.h"
#include "tests/data/adaptive/way_back.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using testing::golden;
using testing::golden_names;
using testing::volume_of_tokens;

constexpr const char* kPatchingGoldens = "data_adaptive_patching";
constexpr float kFloats = 1e-5f;  // of values up to 1: rounding of float against double

Image golden_image(const std::string& name) {
  if (name == "blank") return {256, 256, 1, std::vector<uint8_t>(256 * 256, 90)};
  if (name == "line") {
    Image image = {256, 256, 1, std::vector<uint8_t>(256 * 256)};
    for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = i % 256 >= 100 ? 200 : 0;
    return image;
  }
  return golden("image." + name, kPatchingGoldens).image();
}

Volume unit_volume(const std::string& name, VolumeSize size) {
  Volume volume = {1, size, {1, 1, 1}, {}};
  for (const uint8_t byte : golden(name, kPatchingGoldens).bytes) {
    volume.values.push_back(static_cast<float>(byte) / 255.0f);
  }
  return volume;
}

// One smoothing, one threshold: what the maker gave UCF-VIT.
AdaptivePatchingConfig upstream_config(const std::string& smoothing, const std::string& low,
                                       const std::string& length, const std::string& patch) {
  AdaptivePatchingConfig config;
  config.smoothing = {std::stoll(smoothing)};
  config.canny_thresholds = {std::stoll(low), std::stoll(low) + 1};
  config.fixed_length = std::stoll(length);
  config.patch_size = std::stoll(patch);
  config.upstream_compatible = true;
  return config;
}

void expect_leaves(const PatchTree& tree, const testing::GoldenArray& expected,
                   const std::string& key) {
  const auto values = expected.values<int16_t>();
  ASSERT_EQ(tree.leaves.size() * 6, values.size()) << key;
  for (size_t i = 0; i < tree.leaves.size(); ++i) {
    const int16_t* v = values.data() + 6 * i;
    ASSERT_EQ(tree.leaves[i], (TreeBox{v[0], v[1], v[2], v[3], v[4], v[5]})) << key << " " << i;
  }
}

void expect_sizes(const PatchSequence& sequence, const testing::GoldenArray& expected,
                  const std::string& key) {
  const auto values = expected.values<int16_t>();
  const int64_t row = 1 + sequence.dims;
  ASSERT_EQ(static_cast<int64_t>(values.size()), sequence.fixed_length * row) << key;
  for (int64_t l = 0; l < sequence.fixed_length; ++l) {
    EXPECT_EQ(2 * sequence.sizes[l], values[l * row]) << key << " " << l;
    EXPECT_EQ(sequence.padding_mask[l] != 0, values[l * row] == 0) << key << " " << l;
    for (int64_t d = 0; d < sequence.dims; ++d) {
      EXPECT_EQ(2 * sequence.centers[l * sequence.dims + d], values[l * row + 1 + d]) << key;
    }
  }
}

void expect_near(const std::vector<float>& values, const std::vector<float>& expected,
                 float tolerance, const std::string& key) {
  ASSERT_EQ(values.size(), expected.size()) << key;
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(values[i], expected[i], tolerance) << key << " " << i;
  }
}

std::vector<float> widened(const std::vector<uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

TEST(AdaptivePatchingTest, QuadtreesAndTokensAreUpstreams) {
  const auto names = golden_names("quadtree", kPatchingGoldens);
  EXPECT_EQ(names.size(), 7u);
  PatchingScratch scratch;
  PatchSequence sequence;
  for (const auto& name : names) {
    const std::string key = name[1] + "." + name[2] + "." + name[3] + "." + name[4] + "." + name[5];
    const Image image = golden_image(name[1]);
    const AdaptivePatcher patcher(upstream_config(name[2], name[3], name[4], name[5]));
    patcher.patch(ImageView(image), nullptr, {}, sequence, scratch);
    expect_leaves(sequence.trees.at(0), golden("quadtree." + key, kPatchingGoldens), key);
    expect_sizes(sequence, golden("sizes." + key, kPatchingGoldens), key);
    // OpenCV works with bytes and rounds to them.
    expect_near(sequence.tokens, widened(golden("tokens." + key, kPatchingGoldens).bytes), 1.0f,
                key);
  }
}

// Where upstream is right the default gives the same tree.
TEST(AdaptivePatchingTest, DefaultTreesAreUpstreamsUnlessTheyStopEarly) {
  PatchingScratch scratch;
  PatchSequence sequence;
  int64_t num_early = 0;
  for (const auto& name : golden_names("quadtree", kPatchingGoldens)) {
    const std::string key = name[1] + "." + name[2] + "." + name[3] + "." + name[4] + "." + name[5];
    auto config = upstream_config(name[2], name[3], name[4], name[5]);
    config.upstream_compatible = false;
    const Image image = golden_image(name[1]);
    AdaptivePatcher(config).patch(ImageView(image), nullptr, {}, sequence, scratch);
    const auto& expected = golden("quadtree." + key, kPatchingGoldens);
    if (expected.shape[0] < config.fixed_length) {
      ++num_early;
      EXPECT_EQ(static_cast<int64_t>(sequence.trees[0].leaves.size()), config.fixed_length) << key;
    } else {
      expect_leaves(sequence.trees[0], expected, key);
    }
  }
  EXPECT_EQ(num_early, 2);
}

TEST(AdaptivePatchingTest, FieldsAreUpstreams) {
  const Volume field = unit_volume("field", {1, 64, 64});
  LabelMap labels = {field.size, {}};
  for (const float value : field.values) labels.classes.push_back(static_cast<int32_t>(value * 5));
  PatchingScratch scratch;
  PatchSequence sequence;
  for (const auto& name : golden_names("field_tree", kPatchingGoldens)) {
    const std::string key = name[1] + "." + name[2];
    const AdaptivePatcher patcher(upstream_config(name[1], name[2], "61", "8"));
    patcher.patch(field, nullptr, {}, sequence, scratch);
    expect_leaves(sequence.trees.at(0), golden("field_tree." + key, kPatchingGoldens), key);
    std::vector<int32_t> tokens(sequence.tokens.size() / static_cast<size_t>(sequence.channels));
    patcher.patch_labels(labels.classes, sequence.trees[0], tokens);
    const auto expected = golden("field_labels." + key, kPatchingGoldens).values<int8_t>();
    EXPECT_EQ(tokens, std::vector<int32_t>(expected.begin(), expected.end()));
    if (name[1] == "5") {
      expect_near(sequence.tokens, golden("field_tokens." + key, kPatchingGoldens).values<float>(),
                  kFloats, key);
    }
    const Volume back = volume_of_tokens(sequence, /*upstream_compatible=*/true);
    const auto inverse = golden("field_inverse." + key, kPatchingGoldens).values<float>();
    for (size_t i = 0; i < inverse.size(); ++i) {
      ASSERT_NEAR(back.values[i / 32 * 256 + i % 32 * 2], inverse[i], kFloats) << key << " " << i;
    }
  }
}

TEST(AdaptivePatchingTest, OctreesAreUpstreams) {
  const Volume volume = unit_volume("volume", {32, 32, 32});
  LabelMap labels = {volume.size, {}};
  for (const float value : volume.values) labels.classes.push_back(static_cast<int32_t>(value * 5));
  const auto names = golden_names("octree", kPatchingGoldens);
  EXPECT_EQ(names.size(), 4u);
  PatchingScratch scratch;
  PatchSequence sequence;
  for (const auto& name : names) {
    const std::string key = name[1] + "." + name[2] + "." + name[3] + "." + name[4];
    auto config = upstream_config(name[1], name[2], name[3], name[4]);
    config.criterion = "canny_direction";
    const AdaptivePatcher patcher(config);
    patcher.patch(volume, nullptr, {}, sequence, scratch);
    const auto edges = golden("octree_edges." + key, kPatchingGoldens).bytes;
    for (size_t i = 0; i < scratch.detail.counts().size(); ++i) {
      ASSERT_EQ(scratch.detail.counts()[i], edges[i / 8] >> (i % 8) & 1) << key << " " << i;
    }
    expect_leaves(sequence.trees.at(0), golden("octree." + key, kPatchingGoldens), key);
    expect_sizes(sequence, golden("octree_sizes." + key, kPatchingGoldens), key);
    if (name[1] == "1") {
      expect_near(sequence.tokens, golden("octree_tokens." + key, kPatchingGoldens).values<float>(),
                  kFloats, key);
    }
    std::vector<int32_t> tokens(sequence.tokens.size() / static_cast<size_t>(sequence.channels));
    patcher.patch_labels(labels.classes, sequence.trees[0], tokens);
    const auto expected = golden("octree_labels." + key, kPatchingGoldens).values<int8_t>();
    if (name[4] != "3") {  // from 4 to 3 the middle is a tie, and SciPy's rounding decides it
      EXPECT_EQ(tokens, std::vector<int32_t>(expected.begin(), expected.end())) << key;
    }
    const Volume back = volume_of_tokens(sequence, /*upstream_compatible=*/true);
    const auto inverse = golden("octree_inverse." + key, kPatchingGoldens).values<float>();
    for (size_t i = 0; i < inverse.size(); ++i) {
      const size_t at = i / 64 * 4096 + i / 8 % 8 * 128 + i % 8 * 4;
      ASSERT_NEAR(back.values[at], inverse[i], kFloats) << key << " " << i;
    }
  }
}

// A plain grid: each leaf is as large as a patch, and nothing is lost.
TEST(AdaptivePatchingTest, InverseIsExactWhereLeavesAreAsLargeAsPatches) {
  const Image image = golden("image.rgb", kPatchingGoldens).image();
  AdaptivePatchingConfig config;
  config.fixed_length = 64;
  config.patch_size = config.min_leaf = 8;
  const AdaptivePatcher patcher(config);
  PatchingScratch scratch;
  PatchSequence sequence;
  patcher.patch(ImageView(image), nullptr, {}, sequence, scratch);
  ASSERT_EQ(sequence.trees[0].leaves.size(), 64u);
  Volume back = volume_of_tokens(sequence);
  ASSERT_EQ(back.size, (VolumeSize{1, 64, 64}));
  for (int64_t c = 0; c < 3; ++c) {
    for (int64_t i = 0; i < 64 * 64; ++i) {
      ASSERT_EQ(back.values[c * 64 * 64 + i], image.pixels[3 * i + c]);
    }
  }
  const Volume volume = unit_volume("volume", {32, 32, 32});
  config.fixed_length = 64;
  const AdaptivePatcher cubes(config);
  cubes.patch(volume, nullptr, {}, sequence, scratch);
  ASSERT_EQ(sequence.trees[0].leaves.size(), 64u);
  back = volume_of_tokens(sequence);
  EXPECT_EQ(back.values, volume.values);
}

// The same sample gives the same sequence, whatever the buffers held before.
TEST(AdaptivePatchingTest, BuffersLeaveNoTrace) {
  const Image image = golden("image.rgb", kPatchingGoldens).image();
  const ImageView crop = ImageView(image).crop(3, 7, {37, 53});
  const Volume volume = unit_volume("volume", {32, 32, 32});
  PatchingScratch scratch;
  PatchSequence reused;
  for (const char* criterion : {"canny", "gradient", "variance", "canny_direction"}) {
    for (const bool is_separate : {false, true}) {
      AdaptivePatchingConfig config;
      config.fixed_length = 100;
      config.patch_size = 4;
      config.criterion = criterion;
      config.separate_channels = is_separate;
      const AdaptivePatcher patcher(config);
      for (int round = 0; round < 3; ++round) {
        const auto expect_same = [&](const auto& sample) {
          PatchSequence fresh;
          PatchingScratch empty;
          RandomStream first({1, 2}, 7, round), second({1, 2}, 7, round);
          patcher.patch(sample, &first, {}, fresh, empty);
          patcher.patch(sample, &second, {}, reused, scratch);
          EXPECT_EQ(fresh.tokens, reused.tokens) << criterion;
          EXPECT_EQ(fresh.sizes, reused.sizes);
          EXPECT_EQ(fresh.centers, reused.centers);
          EXPECT_EQ(fresh.padding_mask, reused.padding_mask);
          ASSERT_EQ(fresh.trees.size(), reused.trees.size());
          EXPECT_EQ(fresh.trees.back().leaves, reused.trees.back().leaves);
        };
        if (config.criterion != "canny_direction") {
          expect_same(crop);
          expect_same(ImageView(image));
        }
        expect_same(volume);
      }
    }
  }
}

TEST(AdaptivePatchingTest, SeparateChannelsAreSingleImages) {
  const Image image = golden("image.rgb", kPatchingGoldens).image();
  AdaptivePatchingConfig config;
  config.fixed_length = 40;
  config.patch_size = 8;
  config.separate_channels = true;
  const AdaptivePatcher patcher(config);
  PatchingScratch scratch;
  PatchSequence all, one;
  const std::vector<float> scale = {1, 2, 3};
  patcher.patch(ImageView(image), nullptr, {scale, {}}, all, scratch);
  ASSERT_EQ(all.trees.size(), 3u);
  EXPECT_EQ(all.sizes.size(), 120u);
  for (int64_t c = 0; c < 3; ++c) {
    Image channel = {64, 64, 1, {}};
    for (int64_t i = 0; i < 64 * 64; ++i) channel.pixels.push_back(image.pixels[3 * i + c]);
    patcher.patch(ImageView(channel), nullptr, {std::span(scale).subspan(c, 1), {}}, one, scratch);
    EXPECT_EQ(all.trees[c].leaves, one.trees[0].leaves);
    EXPECT_TRUE(std::equal(one.tokens.begin(), one.tokens.end(),
                           all.tokens.begin() + c * one.tokens.size()));
    EXPECT_TRUE(std::equal(one.sizes.begin(), one.sizes.end(), all.sizes.begin() + c * 40));
  }
  EXPECT_FALSE(all.trees[0].leaves == all.trees[1].leaves &&
               all.trees[1].leaves == all.trees[2].leaves);
}

TEST(AdaptivePatchingTest, PaddingIsMarkedAndEmpty) {
  const Image image = {8, 8, 3, std::vector<uint8_t>(192, 100)};
  AdaptivePatchingConfig config;
  config.fixed_length = 30;
  config.patch_size = 4;
  const AdaptivePatcher patcher(config);
  PatchingScratch scratch;
  PatchSequence sequence;
  sequence.tokens.assign(4096, 5.0f);  // of an earlier sample
  patcher.patch(ImageView(image), nullptr, {}, sequence, scratch);
  ASSERT_EQ(sequence.trees[0].leaves.size(), 16u);  // min_leaf 2: no more
  for (int64_t c = 0; c < 3; ++c) {
    for (int64_t l = 0; l < 30; ++l) {
      EXPECT_EQ(sequence.padding_mask[l], l >= 16);
      for (int64_t i = 0; i < 16; ++i) {
        EXPECT_NEAR(sequence.tokens[(c * 30 + l) * 16 + i], l < 16 ? 100.0f : 0.0f, 1e-4f);
      }
    }
  }
  EXPECT_EQ(sequence.sizes[29], 0.0f);
  EXPECT_EQ(sequence.centers[59], -1.0f);
  std::vector<int32_t> tokens(480);
  patcher.patch_labels(std::vector<int32_t>(64, 2), sequence.trees[0], tokens);
  EXPECT_EQ(tokens[255], 2);
  EXPECT_EQ(tokens[256], -1);
}

TEST(AdaptivePatchingTest, DrawsEverySmoothingAndThresholdEquallyOften) {
  AdaptivePatchingConfig config;
  std::set<int64_t> lows;
  int64_t num_zero = 0;
  for (uint64_t i = 0; i < 4000; ++i) {
    RandomStream random({3, 4}, i);
    const auto draw = draw_detail(config, true, random);
    lows.insert(draw.canny_low);
    num_zero += draw.smoothing == 0;
    EXPECT_FALSE(draw.is_noise);
  }
  EXPECT_EQ(lows.size(), 50u);
  EXPECT_EQ(*lows.begin(), 50);
  EXPECT_NEAR(static_cast<double>(num_zero), 1000.0, 120.0);
  config.upstream_compatible = true;
  int64_t num_noise = 0;
  for (uint64_t i = 0; i < 4000; ++i) {
    RandomStream random({3, 4}, i), same({3, 4}, i);
    const auto draw = draw_detail(config, true, random);
    EXPECT_EQ(draw.is_noise, draw.smoothing == 0);
    EXPECT_FALSE(draw_detail(config, false, same).is_noise);
    num_noise += draw.is_noise;
  }
  EXPECT_EQ(num_noise, num_zero);
  EXPECT_EQ(middle_detail(config).canny_low, 75);
  EXPECT_EQ(middle_detail(config).smoothing, 3);
}

// UCF-VIT's noise: on 256 x 256 pixels no tree has more than 265 leaves.
TEST(AdaptivePatchingTest, NoiseGivesUpstreamsNearlyUniformTree) {
  AdaptivePatchingConfig config;
  config.smoothing = {0};
  config.noise = true;
  config.fixed_length = 400;
  const Image image = golden_image("blank");
  PatchingScratch scratch;
  PatchSequence sequence;
  RandomStream random({5, 6}, 1);
  AdaptivePatcher(config).patch(ImageView(image), &random, {}, sequence, scratch);
  EXPECT_EQ(sequence.trees[0].leaves.size(), 400u);
  config.upstream_compatible = true;
  RandomStream same({5, 6}, 1);
  AdaptivePatcher(config).patch(ImageView(image), &same, {}, sequence, scratch);
  EXPECT_LE(sequence.trees[0].leaves.size(), 265u);
  EXPECT_GT(sequence.trees[0].leaves.size(), 196u);
}

// Detail in one corner: every criterion finds it there.
TEST(AdaptivePatchingTest, EveryCriterionFindsTheDetail) {
  Image image = {64, 64, 1, std::vector<uint8_t>(64 * 64, 40)};
  Volume volume = {1, {16, 16, 16}, {1, 1, 1}, std::vector<float>(4096, 0.1f)};
  for (int64_t i = 0; i < 64 * 64; ++i) {
    if (i / 64 < 16 && i % 64 >= 48 && (i / 256 + i / 4) % 2 == 0) image.pixels[i] = 220;
  }
  for (int64_t i = 0; i < 4096; ++i) {
    if (i / 256 >= 10 && i / 16 % 16 >= 10 && i % 16 >= 10) volume.values[i] = 0.9f;
  }
  PatchingScratch scratch;
  PatchSequence sequence;
  for (const char* criterion : {"canny", "gradient", "variance"}) {
    AdaptivePatchingConfig config;
    config.fixed_length = 40;
    config.smoothing = {1};
    config.criterion = criterion;
    const AdaptivePatcher patcher(config);
    patcher.patch(ImageView(image), nullptr, {}, sequence, scratch);
    for (const TreeBox& leaf : sequence.trees[0].leaves) {
      const bool is_there = leaf.y < 16 && leaf.x >= 48;
      EXPECT_GE(leaf.width, is_there ? 2 : 8) << criterion;
    }
    patcher.patch(volume, nullptr, {}, sequence, scratch);
    for (const TreeBox& leaf : sequence.trees[0].leaves) {
      const bool is_empty = leaf.x < 8 && leaf.y < 8 && leaf.z < 8;
      EXPECT_GE(leaf.width, is_empty ? 8 : 2) << criterion;
    }
    EXPECT_GT(sequence.trees[0].leaves.size(), 14u) << criterion;
  }
}

// Sums of squared deviations, the slow way.
TEST(AdaptivePatchingTest, VarianceIsTheSquaredDeviation) {
  const Image image = golden("image.rgb", kPatchingGoldens).image();
  AdaptivePatchingConfig config;
  config.criterion = "variance";
  DetailMap map;
  const ImageView view(image);
  map.build(patching::rows_of(view), config, middle_detail(config), nullptr);
  const TreeBox box = {0, 6, 8, 1, 20, 30};  // of a tree with parts of 2
  double expected = 0;
  for (int64_t c = 0; c < 3; ++c) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < box.voxels(); ++i) {
      const double value = image.pixels[((box.y + i / 30) * 64 + box.x + i % 30) * 3 + c];
      sum += value;
      squares += value * value;
    }
    expected += squares - sum * sum / static_cast<double>(box.voxels());
  }
  EXPECT_NEAR(static_cast<double>(map.value(box)), expected, 1.0);
}

TEST(AdaptivePatchingTest, SaysWhatDoesNotFit) {
  PatchingScratch scratch;
  PatchSequence sequence;
  AdaptivePatchingConfig config;
  config.criterion = "canny_direction";
  const Image image = {8, 8, 1, std::vector<uint8_t>(64)};
  const auto directions = testing::message_of<ConfigError>(
      [&] { AdaptivePatcher(config).patch(ImageView(image), nullptr, {}, sequence, scratch); });
  EXPECT_NE(directions.find("it is for volumes"), std::string::npos) << directions;
  config.criterion = "canny";
  const AdaptivePatcher patcher(config);
  EXPECT_THROW(patcher.patch(ImageView(Image{}), nullptr, {}, sequence, scratch), DataError);
  EXPECT_THROW(patcher.patch(Volume{1, {2, 2, 2}, {1, 1, 1}, {}}, nullptr, {}, sequence, scratch),
               DataError);
  const Volume many = {256, {2, 2, 2}, {1, 1, 1}, std::vector<float>(2048)};
  EXPECT_THROW(patcher.patch(many, nullptr, {}, sequence, scratch), ConfigError);
  const std::vector<float> scale = {1, 2};
  EXPECT_THROW(patcher.patch(ImageView(image), nullptr, {scale, {}}, sequence, scratch), Error);
}

TEST(AdaptivePatchingTest, ConfigIsChecked) {
  AdaptivePatchingConfig config;
  config.smoothing = {2};
  config.canny_thresholds = {90, 50};
  config.value_range = {1, 1};
  config.min_leaf = 32;
  const auto message = testing::message_of<ConfigError>([&] { AdaptivePatcher{config}; });
  for (const char* key :
       {"smoothing: [2]", "canny_thresholds: [90, 50]", "value_range: [1, 1]", "min_leaf: 32"}) {
    EXPECT_NE(message.find(key), std::string::npos) << message;
  }
}

TEST(AdaptivePatchingTest, ConfigIsReadFromARecipe) {
  const auto config = parse_config<AdaptivePatchingConfig>(
      "{fixed_length: 512, patch_size: 4, smoothing: 3, max_depth: 5, criterion: gradient}", "r");
  EXPECT_EQ(config.fixed_length, 512);
  EXPECT_EQ(config.smoothing, std::vector<int64_t>{3});
  EXPECT_EQ(config.max_depth, 5);
  EXPECT_EQ(parse_config<AdaptivePatchingConfig>("{max_depth: none}", "r").max_depth, std::nullopt);
  EXPECT_THROW(parse_config<AdaptivePatchingConfig>("{criterion: sobel}", "r"), ConfigError);
}

}  // namespace
}  // namespace fovea::data
