#include "fovea/data/transforms/any_transform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string_view>
#include <vector>

#include "fovea/data/transforms/image/grayscale.h"
#include "fovea/data/transforms/image/horizontal_flip.h"
#include "fovea/data/transforms/image/normalize.h"
#include "fovea/data/transforms/image/resize.h"
#include "fovea/data/transforms/volume/rand_flip.h"
#include "fovea/data/transforms/volume/spacing.h"
#include "fovea/data/transforms/volume/spatial_pad.h"
#include "fovea/data/transforms/volume/spatial_resize.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

TEST(AnyTransformTest, ListsOfOneKindKeepTheirOrderAndValues) {
  const auto images = image_transforms({{ResizeConfig{.size = {9}}}, {HorizontalFlipConfig{}}});
  ASSERT_EQ(images.size(), 2u);
  EXPECT_EQ(images[0].get_if<ResizeConfig>()->size, (std::vector<int64_t>{9}));
  EXPECT_EQ(images[1].name(), "horizontal_flip");
  const auto volumes =
      volume_transforms({{SpatialResizeConfig{.spatial_size = {4, 5, 6}}}, {RandFlipConfig{}}});
  ASSERT_EQ(volumes.size(), 2u);
  EXPECT_EQ(volumes[0].get_if<SpatialResizeConfig>()->spatial_size,
            (std::vector<int64_t>{4, 5, 6}));
}

TEST(AnyTransformTest, NamesWhatIsForTheOtherKindAndWhatDoesTheSame) {
  const auto text = message_of<ConfigError>([] {
    volume_transforms({{ResizeConfig{}}, {RandFlipConfig{}}, {GrayscaleConfig{}}});
  });
  EXPECT_THAT(text, HasSubstr("holds volumes, but these are for images"));
  EXPECT_THAT(text, HasSubstr("resize (of volumes: spatial_resize), grayscale;"));
  EXPECT_THAT(message_of<ConfigError>([] { image_transforms({{SpatialPadConfig{}}}); }),
              HasSubstr("spatial_pad (of images: pad)"));
}

TEST(AnyTransformTest, EveryNameIsThereOnce) {
  std::set<std::string_view> names;
  for (const auto& entry : Transform::alternatives()) names.insert(entry.name);
  EXPECT_EQ(names.size(), Transform::alternatives().size());
}

TEST(AnyTransformTest, CounterpartsAreTransformsOfVolumes) {
  std::set<std::string_view> of_volumes;
  for (const auto& entry : VolumeTransform::alternatives()) of_volumes.insert(entry.name);
  for (const auto& entry : ImageTransform::alternatives()) {
    const auto transform = entry.make();
    const auto other = static_cast<const ImageTransform&>(*transform).counterpart();
    EXPECT_TRUE(other.empty() || of_volumes.contains(other)) << entry.name;
  }
}

TEST(AnyTransformTest, TellsVolumesFromImages) {
  EXPECT_TRUE(is_of_volumes(SpacingConfig{}));
  EXPECT_FALSE(is_of_volumes(NormalizeConfig{}));
}

}  // namespace
}  // namespace fovea::data
