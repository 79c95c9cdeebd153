#include "fovea/data/image/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <vector>

#include "fovea/data/image/image_formats.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using ::testing::AllOf;
using testing::golden;
using testing::golden_names;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;

// JPEG by colour space, subsampling, progressive, each EXIF orientation; PNG by colour type and
// depth. The expected pixels are Pillow's (with exif_transpose).
TEST(DecodeTest, GivesPillowsPixels) {
  const auto names = golden_names("decoded");
  EXPECT_EQ(names.size(), 22u);
  Image image;  // one buffer for all, as a loader's thread has
  for (const auto& name : names) {
    const auto& expected = golden("decoded." + name[1]);
    decode_image(golden("file." + name[1]).bytes, name[1], image);
    EXPECT_EQ((std::vector<int64_t>{image.height, image.width, image.channels}), expected.shape)
        << name[1];
    EXPECT_EQ(image.pixels, expected.bytes) << name[1];
  }
}

TEST(DecodeTest, ReadsFilesByContentWhateverTheirName) {
  const TempDir dir;
  const std::string path = dir.write("really_a_png.jpg", golden("file.png_rgb").bytes);
  EXPECT_EQ(load_image(path).pixels, golden("image.rgb").bytes);
}

TEST(DecodeTest, SaysWhatIsNotAnImage) {
  const TempDir dir;
  EXPECT_THAT(message_of<DataError>([&] { load_image(dir.write("a.jpg", "hello, world\n")); }),
              AllOf(HasSubstr("a.jpg: not an image: it starts with \"hello, w\""),
                    HasSubstr("expected a " + image_kinds() + " image")));
  EXPECT_THAT(message_of<DataError>([&] { load_image(dir.write("b.jpg", std::string())); }),
              HasSubstr("b.jpg: the file is empty"));
  EXPECT_THAT(message_of<DataError>([&] { load_image(dir.path() + "/none.png"); }),
              HasSubstr("none.png: cannot open the file (No such file"));
  EXPECT_THAT(message_of<DataError>([&] { load_image(dir.path()); }),
              HasSubstr("not a regular file"));
  ASSERT_EQ(mkfifo(dir.file("pipe.jpg").c_str(), 0600), 0);
  EXPECT_THAT(message_of<DataError>([&] { load_image(dir.file("pipe.jpg")); }),
              HasSubstr("not a regular file"));
}

TEST(DecodeTest, CutFilesAreErrorsAtEveryLength) {
  for (const char* name : {"jpeg_420", "jpeg_progressive", "png_rgb", "png_palette"}) {
    const auto& whole = golden(std::string("file.") + name).bytes;
    Image image;
    // The last bytes of a PNG are the empty IEND chunk; a JPEG's are its end marker.
    for (size_t size = 0; size + 14 < whole.size(); size += 7) {
      const std::vector<uint8_t> cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
      EXPECT_THROW(decode_image(cut, name, image), DataError) << name << " " << size;
    }
    decode_image(whole, name, image);  // the decoder works after all these errors
    EXPECT_EQ(image.pixels, golden(std::string("decoded.") + name).bytes);
  }
  Image image;
  auto cut = golden("file.jpeg_420").bytes;
  cut.resize(cut.size() / 2);
  EXPECT_THAT(message_of<DataError>([&] { decode_image(cut, "x.jpg", image); }),
              HasSubstr("x.jpg: the JPEG is truncated"));
  cut = golden("file.png_rgb").bytes;
  cut.resize(cut.size() / 2);
  EXPECT_THAT(message_of<DataError>([&] { decode_image(cut, "x.png", image); }),
              HasSubstr("x.png: the PNG is truncated"));
}

}  // namespace
}  // namespace fovea::data
