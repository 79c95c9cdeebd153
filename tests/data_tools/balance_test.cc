#include "fovea/data_tools/balance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "fovea/config/config.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using testing::golden;
using ::testing::HasSubstr;
using testing::idx_bytes;
using testing::message_of;
using testing::TempDir;

// Images with `tiles` tiles each.
BalanceSet even_set(const std::string& name, int64_t images, int64_t tiles, int64_t channels = 1) {
  return {.name = name,
          .tiles = std::vector<int64_t>(static_cast<size_t>(images), tiles),
          .num_channels = channels};
}

TEST(BalanceTest, IsUpstreams) {
  const auto in = golden("balance.in", "data_tiling").values<int64_t>();
  const auto out = golden("balance.out", "data_tiling").values<int64_t>();
  int balanced = 0, refused = 0;
  for (size_t i = 0; i < in.size() / 16; ++i) {
    const int64_t *row = in.data() + 16 * i, *expected = out.data() + 8 * i;
    std::vector<BalanceSet> sets;
    for (int64_t s = 0; s < row[3]; ++s) {
      const int64_t* one = row + 4 + 3 * s;
      sets.push_back(even_set(fmt::format("s{}", s), one[0], one[1], row[2] ? one[2] : 1));
    }
    const int64_t num_sets = row[3];
    const bool has_empty_epoch = std::count(expected + 4, expected + 4 + num_sets, 0) > 0;
    for (const bool upstream_compatible : {false, true}) {
      const BalanceOptions options{
          .num_ranks = row[0], .batch_size = row[1], .upstream_compatible = upstream_compatible};
      SCOPED_TRACE(i);
      if (expected[0] < 0 || has_empty_epoch) {
        EXPECT_THAT(message_of<ConfigError>([&] { balance(sets, options); }),
                    AnyOf(HasSubstr("none of the"), HasSubstr("not every rank has one"),
                          HasSubstr("less than one batch")));
        ++refused;
        continue;
      }
      const Balance result = balance(sets, options);
      std::vector<int64_t> ranks, batches;
      for (const BalancedSet& set : result.sets) {
        ranks.push_back(set.ranks);
        batches.push_back(set.batches_per_rank_epoch);
      }
      EXPECT_EQ(ranks, std::vector<int64_t>(expected, expected + num_sets));
      EXPECT_EQ(batches, std::vector<int64_t>(expected + 4, expected + 4 + num_sets));
      EXPECT_EQ(std::accumulate(ranks.begin(), ranks.end(), int64_t{0}), row[0]);
      ++balanced;
    }
  }
  EXPECT_GT(balanced, 400);
  EXPECT_GT(refused, 200);
  EXPECT_EQ(balanced + refused, 800);
}

TEST(BalanceTest, CountsWhatImagesReallyHave) {
  const std::vector<BalanceSet> sets = {{.name = "a", .tiles = {1, 9, 2, 8}},
                                        {.name = "b", .tiles = {5, 5, 5, 5}}};
  const Balance real = balance(sets, {.num_ranks = 4, .batch_size = 1});
  EXPECT_EQ(real.group_list(), "2:2");
  EXPECT_EQ(real.sets[0].total_tiles, 20);
  EXPECT_EQ(real.sets[0].batches_per_rank_epoch, 3);  // the two smallest: every rank has them
  EXPECT_EQ(real.sets[1].batches_per_rank_epoch, 10);
  const Balance first =
      balance(sets, {.num_ranks = 4, .batch_size = 1, .upstream_compatible = true});
  EXPECT_EQ(first.sets[0].total_tiles, 4);  // as if each had the first one's
  EXPECT_EQ(first.group_list(), "1:3");
}

TEST(BalanceTest, SaysWhereItCannot) {
  const auto refuse = [](const std::vector<BalanceSet>& sets, int64_t ranks, int64_t batch = 1) {
    return message_of<ConfigError>(
        [&] { balance(sets, {.num_ranks = ranks, .batch_size = batch}); });
  };
  const std::vector<BalanceSet> uneven = {even_set("big", 100, 1), even_set("small", 1, 1)};
  EXPECT_THAT(refuse(uneven, 3), AllOf(HasSubstr("small: none of the 3 ranks"),
                                       HasSubstr("share is 0.03"), HasSubstr("one are 51")));
  EXPECT_EQ(balance(uneven, {.num_ranks = 51}).group_list(), "50:1");
  EXPECT_THAT(refuse({even_set("a", 3, 4)}, 5), HasSubstr("3 images for its 5 of 5 ranks"));
  EXPECT_THAT(refuse({even_set("a", 3, 4)}, 3, 5), HasSubstr("less than one batch of 5"));
  EXPECT_THAT(refuse({even_set("a", 0, 4)}, 1), HasSubstr("no images"));
  EXPECT_THAT(refuse({even_set("a", 2, 0)}, 1), HasSubstr("no tiles"));
  EXPECT_THAT(refuse({}, 1), HasSubstr("no sets"));
  EXPECT_THAT(refuse({even_set("a", 2, 1)}, 0), HasSubstr("0 ranks"));
}

TEST(BalanceTest, PrintsATableAndUpstreamsYaml) {
  const Balance result = balance({even_set("ct1", 212, 64), even_set("it's", 53, 64)},
                                 {.num_ranks = 5, .batch_size = 4});
  EXPECT_EQ(balance_yaml(result),
            "load_balancing:\n"
            "  auto_load_balancing: False\n"
            "  batches_per_rank_epoch: {\n"
            "    'ct1': 848,\n"
            "    'it''s': 848,\n"
            "  }\n"
            "  dataset_group_list: '4:1'\n");
  EXPECT_THAT(balance_text(result),
              AllOf(HasSubstr("ct1          212               64         13568      4.00       4"),
                    HasSubstr("16960 tiles over 5 ranks, 4 to a batch"),
                    HasSubstr("dataset_group_list: \"4:1\""), HasSubstr("  'ct1': 848\n"),
                    HasSubstr("depend on the number of ranks")));
}

TEST(BalanceTest, ReadsARecipesSets) {
  const TempDir dir;
  const std::string images =
      dir.write("images", idx_bytes({6, 5, 8}, std::vector<uint8_t>(6 * 5 * 8)));
  const std::string recipe = fmt::format(R"(
train:
  format: mix
  sets:
    - {{name: all, source: {{format: idx, images: {0}}}}}
    - {{name: half, source: {{format: idx, images: {0}}}, start: 0.5, variables: [a, b],
       single_channel: true, tiling: {{tile_size: [5, 2]}}}}
tiling: {{tile_size: [5, 4]}}
)",
                                         images);
  const auto sets = balance_sets(parse_config<DataConfig>(recipe, "recipe"));
  ASSERT_EQ(sets.size(), 2u);
  EXPECT_EQ(sets[0].name, "all");
  EXPECT_EQ(sets[0].tiles, std::vector<int64_t>(6, 2));
  EXPECT_EQ(sets[1].tiles, std::vector<int64_t>(3, 4));
  EXPECT_EQ(sets[1].num_channels, 2);
  const auto single = balance_sets(parse_config<DataConfig>(
      fmt::format("train: {{format: idx, images: {}}}", images), "recipe"));
  ASSERT_EQ(single.size(), 1u);
  EXPECT_EQ(single[0].tiles, std::vector<int64_t>(6, 1));
  EXPECT_THROW(balance_sets(DataConfig()), ConfigError);
}

}  // namespace
}  // namespace fovea::data
