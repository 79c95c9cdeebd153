#include "fovea/data/image/jpeg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "tests/data/support.h"

namespace fovea::data {
namespace {

using testing::golden;
using ::testing::HasSubstr;
using testing::message_of;

// Writes height and width into the frame header.
std::vector<uint8_t> jpeg_with_size(std::vector<uint8_t> bytes, uint16_t height, uint16_t width) {
  const uint8_t marker[] = {0xFF, 0xC0};
  const auto frame = std::search(bytes.begin(), bytes.end(), std::begin(marker), std::end(marker));
  frame[5] = static_cast<uint8_t>(height >> 8);
  frame[6] = static_cast<uint8_t>(height);
  frame[7] = static_cast<uint8_t>(width >> 8);
  frame[8] = static_cast<uint8_t>(width);
  return bytes;
}

TEST(JpegTest, RefusesHugeImagesFromTheHeader) {
  const auto bytes = jpeg_with_size(golden("file.jpeg_420").bytes, 65000, 65000);
  Image image;
  EXPECT_THAT(message_of<DataError>([&] { decode_jpeg(bytes, image); }),
              HasSubstr("65000 x 65000 pixels"));
  EXPECT_TRUE(image.pixels.empty());
  const auto hollow = jpeg_with_size(golden("file.jpeg_420").bytes, 13000, 13000);
  EXPECT_THAT(message_of<DataError>([&] { decode_jpeg(hollow, image); }), HasSubstr("truncated"));
  EXPECT_TRUE(image.pixels.empty());
}

TEST(JpegTest, SaysWhatIsDamaged) {
  Image image;
  EXPECT_THAT(message_of<DataError>(
                  [&] { decode_jpeg(jpeg_with_size(golden("file.jpeg_420").bytes, 0, 0), image); }),
              HasSubstr("damaged JPEG (Empty JPEG image"));
  const std::vector<uint8_t> only_start = {0xFF, 0xD8, 0xFF, 0xD9};
  EXPECT_THAT(message_of<DataError>([&] { decode_jpeg(only_start, image); }),
              HasSubstr("damaged JPEG"));
}

// Hundreds of passes over one image: the last scan of a progressive file, again and again.
TEST(JpegTest, RefusesFilesWithThousandsOfScans) {
  const auto& whole = golden("file.jpeg_progressive").bytes;
  const uint8_t marker[] = {0xFF, 0xDA};
  const auto last_scan =
      std::find_end(whole.begin(), whole.end(), std::begin(marker), std::end(marker));
  std::vector<uint8_t> bytes(whole.begin(), last_scan);
  for (int i = 0; i < 2000; ++i) bytes.insert(bytes.end(), last_scan, whole.end() - 2);
  bytes.insert(bytes.end(), {0xFF, 0xD9});
  Image image;
  EXPECT_THAT(message_of<DataError>([&] { decode_jpeg(bytes, image); }),
              HasSubstr("more than 500 scans"));
}

TEST(JpegTest, ThreadsDoNotDisturbEachOther) {
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      const std::string name = t % 2 == 0 ? "jpeg_420" : "jpeg_gray";
      Image image;
      for (int i = 0; i < 50; ++i) {
        decode_jpeg(golden("file." + name).bytes, image);
        wrong[t] += image.pixels != golden("decoded." + name).bytes;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

}  // namespace
}  // namespace fovea::data
