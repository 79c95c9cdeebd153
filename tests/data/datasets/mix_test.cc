#include "fovea/data/datasets/mix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "fovea/config/config.h"
#include "fovea/data/loader.h"
#include "fovea/data/loader_setup.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using ::testing::AllOf;
using testing::FakeDataset;
using ::testing::HasSubstr;
using testing::idx_bytes;
using testing::message_of;
using testing::TempDir;

// An IDX file of `count` images, whose pixels are all `first` + their number.
std::string write_idx(const TempDir& dir, const std::string& name, uint32_t count, uint32_t side,
                      uint8_t first) {
  std::vector<uint8_t> pixels;
  for (uint32_t i = 0; i < count; ++i) pixels.insert(pixels.end(), side * side, first + i);
  return dir.write(name, idx_bytes({count, side, side}, pixels));
}

// Two sets of images of other sizes: 23 of 8 x 8 and 9 of 6 x 6.
class MixTest : public ::testing::Test {
 protected:
  MixTest() : a_(write_idx(dir_, "a", 23, 8, 0)), b_(write_idx(dir_, "b", 9, 6, 100)) {}

  DataConfig config(const std::string& keys, const std::string& set_keys = "") const {
    return parse_config<DataConfig>(fmt::format(R"(
train:
  format: mix
  sets:
    - {{name: a, source: {{format: idx, images: {}}}, weight: 3}}
    - {{name: b, source: {{format: idx, images: {}}}{}}}
global_batch_size: 4
threads: 0
{})",
                                                a_, b_, set_keys, keys),
                                    "recipe");
  }
  static Loader loader(const DataConfig& config, const BatchShare& share = {},
                       bool is_training = true, int64_t threads = 0) {
    auto opened = open_loader_setup(config, *config.train, {.in_chans = 1}, is_training);
    opened.options.share = share;
    opened.options.threads = threads;
    return Loader(opened.dataset, opened.transforms, opened.options);
  }

  TempDir dir_;
  std::string a_, b_;
};

TEST_F(MixTest, BatchesAreOfOneSetAndAnEpochIsExact) {
  Loader batches = loader(config(""));
  EXPECT_EQ(batches.samples_per_epoch(), 32);  // drop_last does not apply to exact
  EXPECT_EQ(batches.batches_per_epoch(), 6 + 3);
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::set<int64_t> seen;
    for (int i = 0; i < 9; ++i) {
      const Batch batch = batches.next();
      const int64_t side = batch.set == 0 ? 8 : 6;
      EXPECT_EQ(batch.image_shape, (std::vector<int64_t>{batch.size(), 1, side, side}));
      for (int64_t row = 0; row < batch.size(); ++row) {
        const int64_t index = batch.indices[row];
        EXPECT_TRUE(seen.insert(index).second);
        const float pixel = static_cast<float>(index < 23 ? index : 100 + index - 23) / 255.0f;
        EXPECT_EQ(batch.images[row * side * side], pixel);
        EXPECT_EQ(index < 23 ? 0 : 1, batch.set);
      }
    }
    EXPECT_EQ(seen.size(), 32u);
  }
}

// The same samples for any number of shards and threads, in every mode.
TEST_F(MixTest, ShardsAndThreadsReadOneOrder) {
  for (const std::string mode : {"exact", "cycle_to_largest", "weights"}) {
    const auto recipe = config("mix: " + mode);
    for (const int64_t count : {1, 2, 3, 4}) {
      for (const int64_t threads : {0, 1, 4}) {
        Loader whole = loader(recipe);
        std::vector<Loader> shards;
        for (int64_t index = 0; index < count; ++index) {
          shards.push_back(loader(recipe, BatchShare::of_rank(index, count), true, threads));
        }
        for (int64_t step = 0; step < 2 * whole.batches_per_epoch(); ++step) {
          const Batch expected = whole.next();
          std::map<int64_t, int64_t> rows;
          for (Loader& shard : shards) {
            const Batch part = shard.next();
            ASSERT_EQ(part.set, expected.set);
            ASSERT_EQ(part.position, expected.position);
            for (int64_t i = 0; i < part.size(); ++i) rows[part.rows[i]] = part.indices[i];
          }
          ASSERT_EQ(static_cast<int64_t>(rows.size()), expected.size());
          for (const auto& [row, index] : rows) ASSERT_EQ(index, expected.indices[row]);
        }
      }
    }
  }
}

TEST_F(MixTest, ModesGiveSetsTheirBatches) {
  const auto sets_of = [&](const DataConfig& recipe) {
    Loader batches = loader(recipe);
    std::vector<int64_t> counts(2);
    for (int64_t i = 0; i < batches.batches_per_epoch(); ++i) ++counts[batches.next().set];
    return counts;
  };
  EXPECT_EQ(sets_of(config("")), (std::vector<int64_t>{6, 3}));
  EXPECT_EQ(sets_of(config("mix: cycle_to_largest\ndrop_last: false")),
            (std::vector<int64_t>{6, 6}));
  EXPECT_EQ(sets_of(config("mix: weights\ndrop_last: false")), (std::vector<int64_t>{6, 2}));
}

TEST_F(MixTest, RankGroupsDependOnTheRanks) {
  auto recipe = config("mix: rank_groups");
  auto& mix = *recipe.train->get_if<MixConfig>();
  mix.dataset_group_list = "3:1";
  mix.batches_per_rank_epoch = {{"a", 7}, {"b", 9}};
  for (int64_t rank = 0; rank < 4; ++rank) {
    Loader batches = loader(recipe, BatchShare::of_rank(rank, 4));
    EXPECT_EQ(batches.batches_per_epoch(), 9);
    for (int i = 0; i < 9; ++i) EXPECT_EQ(batches.next().set, rank < 3 ? 0 : 1);
  }
  EXPECT_THAT(message_of<ConfigError>([&] { loader(recipe, BatchShare::of_rank(0, 2)); }),
              AllOf(HasSubstr("for 4 ranks"), HasSubstr("read by 2"), HasSubstr("mix: exact")));
  mix.batches_per_rank_epoch.erase("b");
  EXPECT_THAT(message_of<ConfigError>([&] { loader(recipe, BatchShare::of_rank(0, 4)); }),
              HasSubstr("\"b\""));
  mix.dataset_group_list = "4";
  EXPECT_THAT(message_of<ConfigError>([&] { loader(recipe, BatchShare::of_rank(0, 4)); }),
              HasSubstr("2 sets"));
}

TEST_F(MixTest, ValidationIsInOrderWhateverTheMix) {
  Loader batches = loader(config("mix: weights"), {}, /*is_training=*/false);
  EXPECT_EQ(batches.samples_per_epoch(), 32);
  EXPECT_EQ(batches.next().indices, (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST_F(MixTest, SharesTilesAndChannels) {
  const auto recipe = config("tiling: {tile_size: [4, 4]}",
                             ", start: 0.2, end: 0.9, variables: [x], single_channel: true, "
                             "tiling: {tile_size: [3, 3]}");
  const auto opened = open_loader_setup(recipe, *recipe.train, {.in_chans = 1}, true);
  const auto& dataset = dynamic_cast<const MixDataset&>(*opened.dataset);
  EXPECT_EQ(dataset.size(), 23 * 4 + 7 * 4);  // samples 1 to 7 of 9
  EXPECT_EQ(dataset.sets()[1].name, "b.x");
  EXPECT_EQ(opened.options.variables[1], (std::vector<std::string>{"x"}));
  EXPECT_THAT(dataset.describe(92), AllOf(HasSubstr("b.x: "), HasSubstr("tile 0 of 4")));
  EXPECT_EQ(dataset.size_of(92), (VolumeSize{1, 3, 3}));
  EXPECT_EQ(dataset.set_of(91), 0);
  Sample sample;
  read_decoded(dataset, 92, sample);
  EXPECT_EQ(sample.image().pixels, std::vector<uint8_t>(9, 101));
}

// In every shard and by every thread, also where spare buffers held another set's batch.
TEST_F(MixTest, BatchesNameTheirChannels) {
  const auto recipe = config("", ", variables: [gray]");
  for (const int64_t threads : {0, 2}) {
    Loader batches = loader(recipe, {}, true, threads);
    for (int i = 0; i < 18; ++i) {
      Batch batch = batches.next();
      EXPECT_EQ(batch.variables,
                batch.set == 1 ? std::vector<std::string>{"gray"} : std::vector<std::string>{});
      batches.recycle(std::move(batch));
    }
  }
}

TEST_F(MixTest, WhatIsDumpedReadsBack) {
  const auto recipe = config("mix: weights\ntiling: {tile_size: [4, 4]}");
  const std::string text = dump_config(recipe);
  EXPECT_EQ(dump_config(parse_config<DataConfig>(text, "dump")), text);
  EXPECT_THAT(text, HasSubstr("format: mix"));
}

TEST_F(MixTest, NamesWhatIsWrong) {
  const auto errors = [&](const std::string& sets) {
    return message_of<ConfigError>([&] { parse_config<MixConfig>(sets, "recipe"); });
  };
  const std::string source = fmt::format("source: {{format: idx, images: {}}}", a_);
  EXPECT_THAT(errors("sets: []"), HasSubstr("at least one"));
  EXPECT_THAT(errors(fmt::format("sets: [{{name: a, {0}}}, {{name: a, {0}}}]", source)),
              HasSubstr("\"a\" stands there twice"));
  EXPECT_THAT(errors(fmt::format("sets: [{{name: a, {}, variables: [x, y, x]}}]", source)),
              HasSubstr("'x' stands there twice"));
  EXPECT_THAT(errors(fmt::format("sets: [{{name: a, {}, variables: ['']}}]", source)),
              HasSubstr("is no name"));
  EXPECT_THAT(errors(fmt::format("sets: [{{name: a, {}, start: 0.5, end: 0.5}}]", source)),
              HasSubstr("above start"));
  EXPECT_THAT(errors(fmt::format("sets: [{{name: a, {}, single_channel: true}}]", source)),
              HasSubstr("variables"));
  EXPECT_THAT(
      errors(fmt::format("{{sets: [{{name: a, {}}}], batches_per_rank_epoch: {{z: 1}}}}", source)),
      HasSubstr("\"z\" is no set"));
  EXPECT_THAT(errors("sets: [{name: a}]"), HasSubstr("source"));
}

TEST(MixDatasetTest, SetsMustAgree) {
  class Named : public FakeDataset {
   public:
    explicit Named(std::vector<std::string> names) : FakeDataset(3, 4), names_(std::move(names)) {}
    const std::vector<std::string>& class_names() const override { return names_; }

   private:
    std::vector<std::string> names_;
  };
  const auto named = [](std::vector<std::string> names) {
    return std::make_shared<Named>(std::move(names));
  };
  EXPECT_THAT(message_of<ConfigError>([&] {
                MixDataset({{.name = "a", .dataset = named({"cat", "dog"})},
                            {.name = "b", .dataset = named({"dog", "cat"})}});
              }),
              HasSubstr("other classes"));
  const MixDataset mix(
      {{.name = "a", .dataset = named({})}, {.name = "b", .dataset = named({"cat", "dog"})}});
  EXPECT_EQ(mix.class_names(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(mix.num_classes(), 10);
  EXPECT_THROW(MixDataset({}), ConfigError);
  EXPECT_THROW(MixDataset({{.name = "a", .dataset = std::make_shared<FakeDataset>(0, 4)}}),
               DataError);
}

TEST(GroupListTest, ReadsUpstreamsText) {
  EXPECT_EQ(parse_group_list("3:5", 2), (std::vector<int64_t>{3, 5}));
  EXPECT_EQ(parse_group_list("8", 1), (std::vector<int64_t>{8}));
  for (const std::string text : {"", "3:", ":3", "3:0", "-1:2", "3,5", "a"}) {
    EXPECT_THROW(parse_group_list(text, 2), ConfigError) << text;
  }
}

}  // namespace
}  // namespace fovea::data
