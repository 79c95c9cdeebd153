// docs/adding_a_transform.md, followed: its transform compiles, and does what it should.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>

#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/data/transforms/image/image_transform.h"

namespace fovea::data {

// Torchvision's RandomInvert: dark becomes bright.
struct RandomInvertConfig {
  static constexpr std::string_view kName = "random_invert";
  double p = 0.5;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("p", self.p, "probability that the values are turned round", {.min = 0, .max = 1});
  }
  bool draws() const { return p > 0 && p < 1; }
  ImageView apply(const ImageView& in, RandomStream& random, TransformScratch& scratch) const {
    if (!random.bernoulli(p)) return in;
    Image& out = scratch.next_image();
    reshape(out, in.size(), in.channels);
    uint8_t* target = out.pixels.data();
    for (int64_t y = 0; y < in.height; ++y) {
      const uint8_t* row = in.row(y);
      for (int64_t x = 0; x < in.width * in.channels; ++x) *target++ = 255 - row[x];
    }
    return ImageView(out);
  }
};

namespace {

TEST(AddingATransformTest, ItsLineOfTheTableAppliesIt) {
  const ConfigAlternatives table = {
      alternative<ImageTransformOf<RandomInvertConfig>>(),
  };
  EXPECT_EQ(table[0].name, "random_invert");
  const auto made = table[0].make();
  const auto& transform = dynamic_cast<const ImageTransform&>(*made);
  EXPECT_TRUE(transform.draws());
  EXPECT_TRUE(transform.keeps_size());
  EXPECT_EQ(transform.output_size(ImageSize{2, 3}), (ImageSize{2, 3}));

  auto& config = *static_cast<RandomInvertConfig*>(made->value());
  config.p = 1;
  EXPECT_FALSE(transform.draws());
  const Image image = {.height = 1, .width = 2, .channels = 1, .pixels = {0, 200}};
  RandomStream random({1, 2}, 0);
  TransformScratch scratch;
  const auto inverted = transform.apply(ImageView(image), random, scratch);
  EXPECT_EQ(inverted.row(0)[0], 255);
  EXPECT_EQ(inverted.row(0)[1], 55);
}

TEST(AddingATransformTest, ItsConfigHasItsKeys) {
  EXPECT_EQ(parse_config<RandomInvertConfig>("p: 0.25", "recipe.yaml").p, 0.25);
  EXPECT_THROW(parse_config<RandomInvertConfig>("p: 2", "recipe.yaml"), ConfigError);
}

}  // namespace
}  // namespace fovea::data
