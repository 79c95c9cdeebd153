#include "fovea/data/adaptive/canny.h"

#include <gtest/gtest.h>

#include <array>

#include "fovea/core/philox.h"
#include "fovea/data/adaptive/border.h"
#include "fovea/data/adaptive/hysteresis.h"
#include "fovea/data/adaptive/smoothing.h"
#include "tests/data/support.h"

namespace fovea::data::patching {
namespace {

using testing::golden;
using testing::golden_names;

constexpr const char* kFile = "data_adaptive_patching";

std::vector<uint8_t> edges_of(const ImageView& image, const CannyOptions& options,
                              CannyScratch& scratch) {
  const auto bits = canny(rows_of(image), options, scratch);
  const int64_t words = (image.width + 63) / 64;
  std::vector<uint8_t> edges(static_cast<size_t>(image.height * image.width));
  for (int64_t y = 0; y < image.height; ++y) {
    add_bits(bits.data() + y * words, image.width, edges.data() + y * image.width);
  }
  return edges;
}

TEST(CannyTest, GivesOpenCvsEdges) {
  const auto names = golden_names("canny", kFile);
  EXPECT_EQ(names.size(), 24u);
  CannyScratch scratch;
  for (const auto& name : names) {
    const Image image =
        golden("image." + (name[1] == "crop" ? std::string("rgb") : name[1]), kFile).image();
    ImageView view(image);
    if (name[1] == "crop") view = view.crop(10, 5, {37, 53});
    const int64_t low = std::stoll(name[3]);
    const auto edges = edges_of(view, {std::stoll(name[2]), low, low + 50}, scratch);
    const auto expected = golden("canny." + name[1] + "." + name[2] + "." + name[3], kFile).bytes;
    int64_t num_edges = 0;
    for (size_t i = 0; i < edges.size(); ++i) {
      ASSERT_EQ(edges[i], expected[i / 8] >> (i % 8) & 1) << name[1] << " " << name[2] << " " << i;
      num_edges += edges[i];
    }
    EXPECT_GT(num_edges, 20) << name[1];
  }
}

TEST(CannyTest, SmallImagesHaveNoEdgesAndDoNotReadOutside) {
  CannyScratch scratch;
  for (const auto& [height, width] : {std::pair<int64_t, int64_t>{1, 1}, {1, 5}, {5, 1}, {2, 2}}) {
    const Image image = {height, width, 1, std::vector<uint8_t>(height * width, 77)};
    for (const int64_t blur : {1, 3, 5}) {
      const auto edges = edges_of(ImageView(image), {blur, 10, 60}, scratch);
      EXPECT_EQ(edges, std::vector<uint8_t>(height * width, 0));
    }
  }
}

TEST(CannyTest, RefusesOtherKernels) {
  const Image image = {4, 4, 1, std::vector<uint8_t>(16)};
  CannyScratch scratch;
  const ImageView view(image);
  EXPECT_THROW(canny(rows_of(view), {2, 50, 100}, scratch), Error);
  EXPECT_THROW(canny(rows_of(view), {7, 50, 100}, scratch), Error);
}

// Against a flood fill, pixel by pixel.
TEST(CannyTest, HysteresisReachesAllThatIsJoined) {
  constexpr int64_t kHeight = 40;
  constexpr int64_t kWidth = 150;
  constexpr int64_t kWords = 3;
  RandomStream random({1, 2}, 3);
  for (int round = 0; round < 20; ++round) {
    std::vector<uint64_t> candidates(kHeight * kWords);
    std::vector<uint64_t> strong(kHeight * kWords);
    std::vector<int64_t> stack;
    for (int64_t i = 0; i < kHeight * kWidth; ++i) {
      if (!random.bernoulli(0.25 + 0.02 * round)) continue;
      const int64_t word = i / kWidth * kWords + i % kWidth / 64;
      candidates[word] |= uint64_t{1} << (i % kWidth % 64);
      if (!random.bernoulli(0.01)) continue;
      strong[word] |= uint64_t{1} << (i % kWidth % 64);
      stack.push_back(i);
    }
    const auto has = [](const std::vector<uint64_t>& bits, int64_t y, int64_t x) {
      return (bits[y * kWords + x / 64] >> (x % 64) & 1) != 0;
    };
    std::vector<uint8_t> expected(kHeight * kWidth);
    for (const int64_t i : stack) expected[i] = 1;
    while (!stack.empty()) {
      const int64_t at = stack.back();
      stack.pop_back();
      for (int64_t k = 0; k < 9; ++k) {
        const int64_t y = at / kWidth + k / 3 - 1;
        const int64_t x = at % kWidth + k % 3 - 1;
        if (y < 0 || y >= kHeight || x < 0 || x >= kWidth) continue;
        if (!has(candidates, y, x) || expected[y * kWidth + x] != 0) continue;
        expected[y * kWidth + x] = 1;
        stack.push_back(y * kWidth + x);
      }
    }
    std::vector<uint8_t> is_dirty;
    grow_edges(kHeight, kWords, candidates.data(), strong.data(), is_dirty);
    for (int64_t i = 0; i < kHeight * kWidth; ++i) {
      ASSERT_EQ(has(strong, i / kWidth, i % kWidth), expected[i] != 0) << round << " " << i;
    }
  }
}

std::vector<float> unit_floats(const std::vector<uint8_t>& bytes) {
  std::vector<float> values;
  for (const uint8_t byte : bytes) values.push_back(static_cast<float>(byte) / 255.0f);
  return values;
}

TEST(SmoothingTest, GaussianIsSciPys) {
  const auto volume = unit_floats(golden("volume", kFile).bytes);
  SmoothingScratch scratch;
  std::vector<float> out;
  for (const auto& [sigma, step] : {std::pair<int64_t, int64_t>{1, 16}, {5, 16}}) {
    gaussian_smooth(volume, {32, 32, 32}, sigma, out, scratch);
    const auto expected = golden("gaussian." + std::to_string(sigma), kFile).values<float>();
    ASSERT_EQ(expected.size(), 1024u * 32 / step);
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_FLOAT_EQ(out[i / 1024 * step * 1024 + i % 1024], expected[i]) << sigma << " " << i;
    }
  }
  gaussian_smooth(volume, {32, 32, 32}, 0, out, scratch);
  EXPECT_EQ(out, volume);
}

TEST(SmoothingTest, BlurOfASliceIsOpenCvs) {
  const auto field = unit_floats(golden("field", kFile).bytes);
  std::vector<float> along(field.size()), out(field.size());
  for (const int64_t blur : {3, 5}) {
    for (int64_t y = 0; y < 64; ++y) {
      gaussian_blur_along(field.data() + 64 * y, 64, blur, along.data() + 64 * y);
    }
    for (int64_t y = 0; y < 64; ++y) {
      std::array<const float*, 5> rows{};
      for (int64_t k = 0; k < blur; ++k) {
        rows[static_cast<size_t>(k)] = along.data() + 64 * reflect101(y + k - blur / 2, 64);
      }
      gaussian_blur_across(rows.data(), 64, blur, out.data() + 64 * y);
    }
    const auto expected = golden("field_blur." + std::to_string(blur), kFile).values<float>();
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_FLOAT_EQ(out[i / 64 * 512 + i % 64], expected[i]) << blur << " " << i;
    }
  }
}

TEST(SmoothingTest, SobelMagnitudeIsSciPys) {
  const auto in = golden("sobel.in", kFile).bytes;
  std::vector<uint16_t> out(in.size());
  std::vector<int16_t> rows;
  sobel_magnitude(in.data(), {7, 9, 11}, out.data(), rows);
  EXPECT_EQ(out, golden("sobel.magnitude", kFile).values<uint16_t>());
}

TEST(SmoothingTest, BytesAreClippedAndNanIsBlack) {
  const std::vector<float> in = {-3.0f, -1.0f, 0.0f, 0.999f, 1.0f, 7.0f, std::nanf("")};
  std::vector<uint8_t> out(in.size());
  to_bytes(in.data(), 7, -1.0, 1.0, out.data());
  EXPECT_EQ(out, (std::vector<uint8_t>{0, 0, 127, 254, 255, 255, 0}));
}

}  // namespace
}  // namespace fovea::data::patching
