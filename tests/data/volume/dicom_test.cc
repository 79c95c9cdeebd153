#include "fovea/data/volume/dicom.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/data/volume/dicom_rle.h"
#include "tests/data/golden_files.h"

namespace fovea::data {
namespace {

using ::testing::AllOf;
using testing::cut;
using ::testing::ElementsAre;
using testing::golden_file;
using testing::golden_values;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;
using testing::with_number;

// Slices at 5, -2.5, 2.5 and 0 mm, each with its own slope.
void write_series(const TempDir& dir, const std::string& kind) {
  for (int i = 0; i < 4; ++i) {
    dir.write(fmt::format("{}/{}.dcm", kind, i), golden_file(fmt::format("dicom.{}.{}", kind, i)));
  }
}

// The first `from` in a file, replaced by as many bytes.
std::vector<uint8_t> replaced(std::vector<uint8_t> bytes, const std::string& from,
                              const std::string& to) {
  const std::string text(bytes.begin(), bytes.end());
  const size_t at = text.find(from);
  if (at == std::string::npos) {
    ADD_FAILURE() << from;
    return bytes;
  }
  EXPECT_EQ(from.size(), to.size());
  std::copy(to.begin(), to.end(), bytes.begin() + static_cast<ptrdiff_t>(at));
  return bytes;
}

TEST(DicomTest, ReadsWhatPydicomReads) {
  const TempDir dir;
  for (const char* kind : {"explicit", "implicit", "bytes", "signed_bytes", "rle", "rle_bytes"}) {
    write_series(dir, kind);
    const auto stored = read_dicom_series(dir.file(kind));
    Volume volume;
    convert_volume(stored, volume);
    EXPECT_EQ(volume.size, (VolumeSize{4, 5, 3})) << kind;
    EXPECT_EQ(volume.values, golden_values<float>(fmt::format("values.dicom_{}", kind))) << kind;
    EXPECT_THAT(volume.spacing, ElementsAre(2.5, 0.75, 0.5));
    // Slices to the head, rows to the back, columns to the left.
    EXPECT_EQ(stored.orientation, "SPL");
    EXPECT_THAT(stored.affine[0], ElementsAre(0, 0, -0.5, 10));
    EXPECT_THAT(stored.affine[2], ElementsAre(2.5, 0, 0, -2.5));
  }
}

TEST(DicomTest, OtherFilesOfTheFolderArePassedOver) {
  const TempDir dir;
  write_series(dir, "explicit");
  dir.write("explicit/notes.txt", "hello");
  dir.write("explicit/DICOMDIR", golden_file("dicom.color"));
  EXPECT_EQ(read_dicom_series(dir.file("explicit")).size.depth, 4);
  dir.write("explicit/9.dcm", "hello");
  EXPECT_THAT(message_of([&] { read_dicom_series(dir.file("explicit")); }),
              HasSubstr("9.dcm: too short for a DICOM file"));
}

TEST(DicomTest, SeveralSeries) {
  const TempDir dir;
  write_series(dir, "explicit");
  const auto other =
      replaced(golden_file("dicom.explicit.0"), "1.3680043.8.498.99", "1.3680043.8.498.88");
  dir.write("explicit/9.dcm", other);
  EXPECT_THAT(message_of([&] { read_dicom_series(dir.file("explicit")); }),
              AllOf(HasSubstr("2 series"), HasSubstr("series_uid")));
  EXPECT_EQ(read_dicom_series(dir.file("explicit"), {.series_uid = "1.2.826.0.1.3680043.8.498.88"})
                .size.depth,
            1);
  EXPECT_THAT(message_of([&] { read_dicom_series(dir.file("explicit"), {.series_uid = "1.2"}); }),
              HasSubstr("no slice of series 1.2"));
}

TEST(DicomTest, SlicesThatDoNotBelongTogether) {
  const TempDir dir;
  write_series(dir, "explicit");
  const auto error = [&](const std::vector<uint8_t>& bytes) {
    dir.write("explicit/2.dcm", bytes);
    return message_of([&] { read_dicom_series(dir.file("explicit")); });
  };
  const auto good = golden_file("dicom.explicit.2");
  EXPECT_THAT(error(replaced(good, "20.0\\2.5", "20.0\\0.0")), HasSubstr("at the same place as"));
  EXPECT_THAT(error(replaced(good, "20.0\\2.5", "20.0\\3.5")), HasSubstr("spaced unevenly"));
  EXPECT_THAT(error(replaced(good, "0.75\\0.5", "0.75\\0.6")), HasSubstr("PixelSpacing differs"));
  EXPECT_THAT(error(replaced(good, "1.0\\0.0\\0.0\\0.0\\1.0\\0.0", "1.0\\0.0\\0.0\\0.0\\0.0\\1.0")),
              HasSubstr("its direction differs"));
  std::filesystem::remove(dir.file("explicit/2.dcm"));
  EXPECT_THAT(message_of([&] { read_dicom_series(dir.file("explicit")); }), HasSubstr("missing"));
}

class DicomBadInputTest : public ::testing::Test {
 protected:
  std::string error_of(const std::vector<uint8_t>& bytes) {
    return message_of([&] { parse_dicom(bytes, "a.dcm"); });
  }
  const std::vector<uint8_t> good_ = golden_file("dicom.explicit.0");
};

TEST_F(DicomBadInputTest, TruncatedAnywhere) {
  for (size_t size = 0; size < good_.size(); size += 3) {
    auto bytes = good_;
    bytes.resize(size);
    EXPECT_NE(error_of(bytes), "") << size;
  }
  EXPECT_THAT(error_of(cut(good_, 4)), HasSubstr("truncated"));
  for (size_t size = 0; size < golden_file("dicom.rle.0").size() - 8; size += 3) {
    auto bytes = golden_file("dicom.rle.0");
    bytes.resize(size);
    EXPECT_NE(error_of(bytes), "") << size;
  }
}

TEST_F(DicomBadInputTest, WrongMagic) {
  EXPECT_THAT(error_of(with_number(good_, 128, 'X')), HasSubstr("it has no DICM at offset 128"));
  EXPECT_THAT(error_of(with_number(good_, 132, 'X')), HasSubstr("has no length"));
}

TEST_F(DicomBadInputTest, WhatIsNotRead) {
  const auto other = replaced(golden_file("dicom.jpeg2000"), "1.2.4.90", "1.2.4.92");
  EXPECT_THAT(error_of(other), AllOf(HasSubstr("transfer syntax 1.2.840.10008.1.2.4.92 (JPEG 2000 "
                                               "Multi-component Lossless)"),
                                     HasSubstr("gdcmconv")));
  EXPECT_THAT(error_of(golden_file("dicom.color")),
              HasSubstr("4 bytes of pixels; expected 12 for 1 frame(s) of 2 x 2 of 24 bits"));
  EXPECT_THAT(error_of(golden_file("dicom.frames")),
              HasSubstr("2 frames with one ImagePositionPatient"));
  EXPECT_THAT(error_of(replaced(good_, "MONOCHROME2", "YBR_PARTIAL")),
              HasSubstr("1 samples a pixel, YBR_PARTIAL"));
}

TEST_F(DicomBadInputTest, NumbersThatAreNone) {
  EXPECT_THAT(error_of(replaced(good_, "20.0\\5.0", "20.0\\5.x")),
              HasSubstr("ImagePositionPatient is not 3 number(s)"));
  EXPECT_THAT(error_of(replaced(good_, "20.0\\5.0", "20.0\\nan")),
              HasSubstr("ImagePositionPatient is not 3 number(s)"));
  EXPECT_THAT(error_of(replaced(good_, "20.0\\5.0", "20.0 5.0")),
              HasSubstr("ImagePositionPatient is not 3 number(s)"));
  EXPECT_THAT(error_of(replaced(good_, "20.0\\5.0", "20\\5\\0.0")),
              HasSubstr("ImagePositionPatient is not 3 number(s)"));
  EXPECT_THAT(error_of(replaced(good_, "0.75\\0.5", "0.75\\0.0")),
              HasSubstr("PixelSpacing 0.75 and 0"));
}

TEST_F(DicomBadInputTest, SizesAndBits) {
  using std::string_literals::operator""s;
  const std::string rows = "\x28\x00\x10\x00US\x02\x00\x05\x00"s;
  EXPECT_THAT(error_of(replaced(good_, rows, "\x28\x00\x10\x00US\x02\x00\xff\xff"s)),
              HasSubstr("30 bytes of pixels; expected 393210 for 1 frame(s) of 65535 x 3"));
  EXPECT_THAT(error_of(replaced(good_, rows, "\x28\x00\x10\x00US\x02\x00\x00\x00"s)),
              HasSubstr("0 rows"));
  EXPECT_THAT(error_of(replaced(good_, "\x28\x00\x00\x01US\x02\x00\x10\x00"s,
                                "\x28\x00\x00\x01US\x02\x00\x0c\x00"s)),
              HasSubstr("12 bits allocated"));
  // Twelve stored bits: the upper four are not part of the value.
  auto twelve =
      replaced(good_, "\x28\x00\x01\x01US\x02\x00\x10\x00"s, "\x28\x00\x01\x01US\x02\x00\x0c\x00"s);
  EXPECT_THAT(error_of(twelve), HasSubstr("12 stored, highest 15"));
  twelve = replaced(twelve, "\x28\x00\x02\x01US\x02\x00\x0f\x00"s,
                    "\x28\x00\x02\x01US\x02\x00\x0b\x00"s);
  const size_t pixels = twelve.size() - 30;
  twelve = with_number(twelve, pixels, uint16_t{0x5FFF});
  const auto slice = parse_dicom(twelve, "a.dcm").front();
  EXPECT_EQ(slice.pixels[0], 0xFF);
  EXPECT_EQ(slice.pixels[1], 0xFF);  // -1
}

TEST(DicomRleTest, DecodesPackBits) {
  std::vector<uint8_t> frame(64);
  frame[0] = 1;
  frame[4] = 64;
  // PackBits: literal of 3, run of 4, nothing (-128), literal of 1.
  for (const int byte : {2, 10, 20, 30, -3, 7, -128, 0, 5})
    frame.push_back(static_cast<uint8_t>(byte));
  DicomPixelForm form{.rows = 1, .columns = 8, .bits_allocated = 8, .bits_stored = 8};
  EXPECT_THAT(decode_dicom_rle(frame, form, "a"), ElementsAre(10, 20, 30, 7, 7, 7, 7, 5));
  const auto error = [&] { return message_of([&] { decode_dicom_rle(frame, form, "a"); }); };
  form.columns = 9;
  EXPECT_THAT(error(), HasSubstr("truncated"));
  form.bits_allocated = 16;
  EXPECT_THAT(error(), HasSubstr("1 RLE segments; expected 2"));
  form = {.rows = int64_t{1} << 40, .columns = 1, .bits_allocated = 8, .bits_stored = 8};
  EXPECT_THAT(error(), HasSubstr("too few"));
  form.rows = 8;
  frame[4] = 60;
  EXPECT_THAT(error(), HasSubstr("RLE segment 0 at bytes 60"));
}

}  // namespace
}  // namespace fovea::data
