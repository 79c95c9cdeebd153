// Compressed, coloured and big endian DICOM, and files of several frames, against pydicom.
#include "fovea/data/volume/dicom_pixels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "fovea/data/volume/dicom.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::golden;
using testing::golden_arrays;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;

const char* const kGolden = "data_dicom";

std::vector<uint8_t> bytes_of(const std::string& name) {
  return golden("file." + name, kGolden).bytes;
}

bool is_compressed(const std::string& name) {
  return name.find("jpeg") != std::string::npos || name.find("fragments") != std::string::npos;
}

Volume read_pixels(const TempDir& dir, const std::string& name) {
  Volume volume;
  convert_volume(read_dicom_series(dir.write(name + ".dcm", bytes_of(name))), volume);
  return volume;
}

TEST(DicomPixelsTest, AreThoseOfPydicom) {
  const TempDir dir;
  int count = 0;
  for (const auto& [key, array] : golden_arrays(kGolden)) {
    const std::string name = key.substr(key.find('.') + 1);
    if (!key.starts_with("file.") || name.ends_with("_short")) continue;
    if (is_compressed(name) && !has_gdcm()) continue;
    SCOPED_TRACE(name);
    const Volume volume = read_pixels(dir, name);
    const auto& values =
        golden("values." + name.substr(0, name.starts_with("enhanced") ? 8 : 99), kGolden);
    const auto& shape = values.shape;
    ASSERT_EQ(volume.channels, shape[0]);
    ASSERT_EQ(volume.size, (VolumeSize{shape[1], shape[2], shape[3]}));
    const auto expected = values.values<float>();
    // Two decoders of the cosine transform round differently, by one stored step of 1.5.
    const float tolerance = name == "jpeg_extended" ? 1.5F : 0.0F;
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_LE(std::fabs(volume.values[i] - expected[i]), tolerance) << i;
    ++count;
  }
  EXPECT_EQ(count, has_gdcm() ? 37 : 16);
  if (!has_gdcm()) GTEST_SKIP() << "built without GDCM: compressed DICOM is not tested";
}

TEST(DicomPixelsTest, FramesHavePlacesAndScalesOfTheirOwn) {
  const TempDir dir;
  for (const char* name : {"enhanced", "enhanced_implicit", "enhanced_undefined", "enhanced_rle"}) {
    const auto stored = read_dicom_series(dir.write("a.dcm", bytes_of(name)));
    EXPECT_THAT(stored.spacing, ElementsAre(2.5, 0.75, 0.5)) << name;
    EXPECT_EQ(stored.orientation, "SPL") << name;
    EXPECT_THAT(stored.affine[2], ElementsAre(2.5, 0, 0, -2.5)) << name;
    EXPECT_EQ(open_dicom_series(dir.file("a.dcm"))->header().size, stored.size);
  }
  // Without places the frames lie as they follow each other, and have no directions.
  const auto cine = read_dicom_series(dir.write("b.dcm", bytes_of("cine")));
  EXPECT_EQ(cine.channels, 3);
  EXPECT_EQ(cine.size.depth, 3);
  EXPECT_EQ(cine.orientation, "");
  EXPECT_THAT(message_of([&] { read_dicom_series(dir.file("b.dcm"), {.canonical = true}); }),
              HasSubstr("its axes are unknown"));
}

TEST(DicomPixelsTest, MissingFramesAreNamed) {
  const TempDir dir;
  const auto error = [&](const std::string& name) {
    return message_of([&] { read_pixels(dir, name); });
  };
  EXPECT_THAT(error("enhanced_short"),
              HasSubstr("7128 bytes of pixels; expected 9504 for 4 frame(s)"));
  EXPECT_THAT(message_of([&] { open_dicom_series(dir.file("enhanced_short.dcm"))->header(); }),
              HasSubstr("expected 9504 for 4 frame(s)"));
  EXPECT_THAT(error("enhanced_rle_short"),
              HasSubstr("4 frame(s) in the header, but 3 in its 3 fragment(s) of pixels"));
  if (!has_gdcm()) GTEST_SKIP() << "built without GDCM";
  EXPECT_THAT(error("enhanced_jpeg2000_short"), HasSubstr("but 3 in its 3 fragment(s)"));
}

TEST(DicomPixelsTest, SyntaxesOfASeriesAreNotMixed) {
  if (!has_gdcm()) GTEST_SKIP() << "built without GDCM";
  const TempDir dir;
  dir.write("series/1.dcm", bytes_of("jpeg2000"));
  dir.write("series/2.dcm", bytes_of("jpeg_ls"));
  EXPECT_THAT(message_of([&] { read_dicom_series(dir.file("series")); }),
              AllOf(HasSubstr("JPEG-LS Lossless"), HasSubstr("JPEG 2000 Lossless"),
                    HasSubstr("expected one in a series")));
}

TEST(DicomPixelsTest, DamagedStreamsAreRefused) {
  if (!has_gdcm()) GTEST_SKIP() << "built without GDCM";
  for (const char* name : {"jpeg_lossless_sv1", "jpeg_baseline", "jpeg_ls", "jpeg2000"}) {
    const auto good = bytes_of(name);
    for (size_t cut = 1; cut < good.size(); cut += 97) {
      auto bytes = good;
      bytes.resize(bytes.size() - cut);
      EXPECT_NE(message_of([&] { parse_dicom(bytes, "a.dcm"); }), "") << name << " " << cut;
    }
  }
  // Streams that announce more than the header does are not decoded.
  auto bytes = bytes_of("jpeg_ls");
  const std::vector<uint8_t> frame = {0xFF, 0xF7};
  const auto at = std::search(bytes.begin(), bytes.end(), frame.begin(), frame.end());
  ASSERT_NE(at, bytes.end());
  at[5] = at[7] = 0xFF;
  EXPECT_THAT(message_of([&] { parse_dicom(bytes, "a.dcm"); }),
              HasSubstr("expected 40 x 36, 1 of at most 16, as the header says"));
}

}  // namespace
}  // namespace fovea::data
