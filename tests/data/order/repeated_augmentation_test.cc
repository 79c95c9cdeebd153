#include "fovea/data/order/repeated_augmentation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fovea/data/order/augmentation_stream.h"
#include "fovea/data/transforms/image/pipeline.h"
#include "tests/data/augment_support.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

// timm's ranks, put together in the order of the global batch.
TEST(RepeatedAugmentationTest, OrdersSamplesAsTimm) {
  const auto names = testing::augment_golden_names("repeated");
  EXPECT_EQ(names.size(), 4u);
  for (const auto& name : names) {  // repeated, size, 10 repeats, ranks
    const RepeatedAugmentation order(std::stoll(name[1]), std::stod(name[2]) / 10);
    const auto expected =
        testing::augment_golden("repeated." + name[1] + "." + name[2] + "." + name[3])
            .values<int64_t>();
    EXPECT_EQ(order.samples_per_epoch(), static_cast<int64_t>(expected.size()));
    for (size_t place = 0; place < expected.size(); ++place) {
      ASSERT_EQ(order.order_place(static_cast<int64_t>(place)), expected[place]) << place;
    }
  }
}

TEST(RepeatedAugmentationTest, CountsRepeats) {
  const RepeatedAugmentation halves(10, 2.5, 0);
  std::vector<int64_t> places, repeats;
  for (int64_t place = 0; place < halves.samples_per_epoch(); ++place) {
    places.push_back(halves.order_place(place));
    repeats.push_back(halves.repeat(place));
  }
  EXPECT_EQ(places, (std::vector<int64_t>{0, 0, 0, 1, 1, 2, 2, 2, 3, 3}));
  EXPECT_EQ(repeats, (std::vector<int64_t>{0, 1, 2, 0, 1, 0, 1, 2, 0, 1}));
}

TEST(RepeatedAugmentationTest, RepeatsDrawAnew) {
  const auto first_word = [](int64_t repeat) {
    RandomStream random = repeated_augmentation_stream(1, 2, 3, repeat);
    return random.next_word();
  };
  RandomStream plain = augmentation_stream(1, 2, 3);
  EXPECT_EQ(first_word(0), plain.next_word());
  EXPECT_NE(first_word(1), first_word(0));
  EXPECT_NE(first_word(2), first_word(1));
}

TEST(RepeatedAugmentationTest, SaysWhatDoesNotWork) {
  EXPECT_THAT(message_of<ConfigError>([] { RepeatedAugmentation(10, 0.5); }),
              HasSubstr("repeats from 1 on"));
  EXPECT_THROW(RepeatedAugmentation(0), ConfigError);
  EXPECT_THROW(RepeatedAugmentation(10, 3, 0).order_place(10), Error);
}

}  // namespace
}  // namespace fovea::data
