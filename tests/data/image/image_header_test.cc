#include "fovea/data/image/image_header.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "fovea/data/image/decode.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using testing::golden;
using testing::golden_names;
using testing::TempDir;

TEST(ImageHeaderTest, IsTheDecodedSize) {
  const TempDir dir;
  int known = 0, compared = 0;
  for (const auto& name : golden_names("file")) {
    const std::string path = dir.write(name[1], golden("file." + name[1]).bytes);
    const Image image = load_image(path);
    const auto size = image_file_size(path);
    ++compared;
    if (!size) continue;
    ++known;
    EXPECT_EQ(*size, (ImageSize{image.height, image.width})) << name[1];
  }
  EXPECT_GT(compared, 15);
  EXPECT_EQ(known, compared - 1) << "all but the PNG with an orientation";
}

// Cameras write the orientation first; decoders take it wherever it stands before the first scan.
TEST(ImageHeaderTest, FindsAnOrientationBehindTheFrame) {
  const TempDir dir;
  auto bytes = golden("file.jpeg_exif_6").bytes;
  const auto find = [&](uint8_t marker) {
    const std::array<uint8_t, 2> wanted = {0xFF, marker};
    return std::search(bytes.begin(), bytes.end(), wanted.begin(), wanted.end());
  };
  const auto first = find(0xE1);
  const auto last = first + 2 + first[2] * 256 + first[3];
  const std::vector<uint8_t> segment(first, last);
  bytes.erase(first, last);
  bytes.insert(find(0xDA), segment.begin(), segment.end());
  const std::string path = dir.write("late.jpg", bytes);
  const Image image = load_image(path);
  const Image plain = load_image(dir.write("1.jpg", golden("file.jpeg_exif_1").bytes));
  ASSERT_EQ(image.height, plain.width);
  EXPECT_EQ(image_file_size(path), (ImageSize{image.height, image.width}));
}

TEST(ImageHeaderTest, LeavesTheRestToTheDecoder) {
  const TempDir dir;
  const auto whole = golden("file.jpeg_420").bytes;
  for (const size_t length : {size_t{0}, size_t{1}, size_t{15}, size_t{40}}) {
    const std::vector<uint8_t> cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length));
    EXPECT_FALSE(image_file_size(dir.write("cut.jpg", cut)));
  }
  EXPECT_FALSE(image_file_size(dir.write("text.jpg", std::string(100, 'x'))));
  EXPECT_FALSE(image_file_size(dir.path()));
  EXPECT_FALSE(image_file_size(dir.path() + "/nothing"));
  auto png = golden("file.png_rgb").bytes;
  png.resize(png.size() - 12);  // without its end
  EXPECT_FALSE(image_file_size(dir.write("cut.png", png)));
}

}  // namespace
}  // namespace fovea::data
