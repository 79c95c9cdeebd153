#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/config/config.h"
#include "fovea/data/transforms/any_transform.h"
#include "fovea/data/transforms/volume/center_spatial_crop.h"
#include "fovea/data/transforms/volume/crop_foreground.h"
#include "fovea/data/transforms/volume/normalize_intensity.h"
#include "fovea/data/transforms/volume/rand_affine.h"
#include "fovea/data/transforms/volume/rand_crop_by_pos_neg_label.h"
#include "fovea/data/transforms/volume/rand_flip.h"
#include "fovea/data/transforms/volume/rand_gaussian_smooth.h"
#include "fovea/data/transforms/volume/rand_rotate90.h"
#include "fovea/data/transforms/volume/rand_scale_intensity.h"
#include "fovea/data/transforms/volume/rand_shift_intensity.h"
#include "fovea/data/transforms/volume/rand_spatial_crop.h"
#include "fovea/data/transforms/volume/scale_intensity_range.h"
#include "fovea/data/transforms/volume/spacing.h"
#include "fovea/data/transforms/volume/spatial_pad.h"
#include "fovea/data/transforms/volume/spatial_resize.h"
#include "fovea/data/transforms/volume/volume_transform.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

struct ListConfig {
  std::vector<VolumeTransformConfig> transforms = {};
  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("transforms", self.transforms, "what is done to a volume");
  }
};

constexpr const char* kRecipe = R"(transforms:
  - {name: spacing, pixdim: [1.5, 1.5, 2]}
  - {name: scale_intensity_range, a_min: -1000, a_max: 500, clip: true}
  - {name: crop_foreground, margin: 4}
  - {name: spatial_pad, spatial_size: 96}
  - {name: rand_crop_by_pos_neg_label, spatial_size: 96, pos: 2, image_threshold: 0.1}
  - {name: rand_affine, prob: 0.5, rotate_range: [0.2, 0.2, 0.2], scale_range: [0.1, 0.1, 0.1]}
  - {name: rand_flip, spatial_axis: 0}
  - rand_rotate90
  - rand_shift_intensity
  - rand_scale_intensity
  - rand_gaussian_noise
  - rand_gaussian_smooth
  - scale_intensity
  - normalize_intensity
  - {name: center_spatial_crop, roi_size: [32, -1, 16]}
  - {name: rand_spatial_crop, roi_size: 8}
  - {name: spatial_resize, spatial_size: 64}
)";

TEST(VolumeConfigsTest, EveryTransformHasItsNameInARecipe) {
  const auto config = parse_config<ListConfig>(kRecipe, "recipe");
  ASSERT_EQ(config.transforms.size(), 17u);
  EXPECT_EQ(config.transforms[0].get_if<SpacingConfig>()->pixdim,
            (std::vector<double>{1.5, 1.5, 2}));
  EXPECT_EQ(config.transforms[4].get_if<RandCropByPosNegLabelConfig>()->image_threshold, 0.1);
  EXPECT_EQ(config.transforms[6].get_if<RandFlipConfig>()->spatial_axis, (std::vector<int64_t>{0}));
  EXPECT_EQ(dump_config(parse_config<ListConfig>(dump_config(config), "dump")),
            dump_config(config));
}

TEST(VolumeConfigsTest, SaysWhatIsMissing) {
  EXPECT_THAT(message_of<ConfigError>([] {
                parse_config<ListConfig>("transforms: [spatial_pad, {name: spatial_resize}]",
                                         "recipe");
              }),
              HasSubstr("spatial_size"));
}

template <class Config>
std::vector<std::string> issue_keys(const Config& config) {
  ConfigIssues issues;
  config.validate(issues);
  std::vector<std::string> keys;
  for (const auto& issue : issues.all()) keys.push_back(issue.key);
  return keys;
}

TEST(VolumeConfigsTest, ReportBadValues) {
  using Keys = std::vector<std::string>;
  EXPECT_EQ(issue_keys(SpatialPadConfig{.spatial_size = {1, 2}}), Keys{"spatial_size"});
  EXPECT_EQ(issue_keys(CenterSpatialCropConfig{}), Keys{"roi_size"});
  EXPECT_EQ(issue_keys(RandSpatialCropConfig{.roi_size = {1}, .max_roi_size = {1, 2}}),
            Keys{"max_roi_size"});
  EXPECT_EQ(issue_keys(RandCropByPosNegLabelConfig{.spatial_size = {4}, .pos = 0, .neg = 0}),
            Keys{"pos"});
  EXPECT_EQ(
      issue_keys(CropForegroundConfig{.channel_indices = {-1}, .margin = {-1}, .k_divisible = {0}}),
      (Keys{"margin", "k_divisible", "channel_indices"}));
  EXPECT_EQ(issue_keys(RandFlipConfig{.spatial_axis = {0, 0}}), Keys{"spatial_axis"});
  EXPECT_EQ(issue_keys(RandFlipConfig{.spatial_axis = {3}}), Keys{"spatial_axis"});
  EXPECT_EQ(issue_keys(RandRotate90Config{.spatial_axes = {1}}), Keys{"spatial_axes"});
  EXPECT_EQ(issue_keys(RandAffineConfig{.rotate_range = {1},
                                        .shear_range = {1, 1, 1},
                                        .translate_range = {2, 1, 0, 0, 0, 0},
                                        .scale_range = {1, 0, 0}}),
            (Keys{"rotate_range", "shear_range", "translate_range", "scale_range"}));
  EXPECT_EQ(issue_keys(RandAffineConfig{.scale_range = {-0.9, 2, 0, 1, 0, 1}}), Keys{});
  EXPECT_EQ(issue_keys(SpatialResizeConfig{}), Keys{"spatial_size"});
  EXPECT_EQ(issue_keys(SpacingConfig{.pixdim = {1, 2}}), Keys{"pixdim"});
  EXPECT_EQ(issue_keys(RandShiftIntensityConfig{.offsets = {2, 1}}), Keys{"offsets"});
  EXPECT_EQ(issue_keys(RandScaleIntensityConfig{.factors = {}}), Keys{"factors"});
  EXPECT_EQ(issue_keys(RandGaussianSmoothConfig{.sigma_y = {-1, 1}}), Keys{"sigma_y"});
  EXPECT_EQ(issue_keys(ScaleIntensityRangeConfig{.a_min = 1, .a_max = 1}), Keys{"a_max"});
  EXPECT_EQ(issue_keys(ScaleIntensityRangeConfig{.b_min = 1, .b_max = 0, .clip = true}),
            Keys{"b_max"});
  EXPECT_EQ(issue_keys(NormalizeIntensityConfig{.divisor = {1, 0}}), Keys{"divisor"});
}

}  // namespace
}  // namespace fovea::data
