// Bad input in sets of image files; bad_archives_test.cc and bad_volumes_test.cc have the others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/data/datasets/catsdogs.h"
#include "fovea/data/datasets/file_list.h"
#include "fovea/data/datasets/registry.h"
#include "fovea/data/datasets/tiny_imagenet.h"
#include "tests/data/bad_input_support.h"

namespace fovea::data {
namespace {

namespace fs = std::filesystem;

using testing::disk_fails;
using testing::edit;
using testing::expect_policies;
using testing::expect_refused;
using testing::folder_set;
using testing::Harm;
using testing::image_file_harms;
using testing::kSetSize;
using testing::small_image;
using testing::SmallSet;
using testing::TempDir;
using testing::truncated;
using testing::vanishes;

void put_big_endian(std::vector<uint8_t>& bytes, size_t offset, uint64_t value, int count) {
  for (int i = 0; i < count; ++i)
    bytes[offset + static_cast<size_t>(i)] = static_cast<uint8_t>(value >> (8 * (count - 1 - i)));
}

// The size in a JPEG's frame header.
void set_jpeg_size(std::vector<uint8_t>& bytes, uint16_t height, uint16_t width) {
  for (size_t i = 2; i + 9 < bytes.size(); i += 2 + bytes[i + 2] * size_t{256} + bytes[i + 3]) {
    if (bytes[i + 1] != 0xC0) continue;
    put_big_endian(bytes, i + 5, height, 2);
    put_big_endian(bytes, i + 7, width, 2);
    return;
  }
  ADD_FAILURE() << "no frame header";
}

void set_png_size(std::vector<uint8_t>& bytes, uint32_t height, uint32_t width) {
  put_big_endian(bytes, 16, width, 4);
  put_big_endian(bytes, 20, height, 4);
  put_big_endian(bytes, 29, crc32(0, bytes.data() + 12, 17), 4);
}

TEST(BadInputTest, FolderOfJpeg) {
  const std::string name = "a/2.jpg";
  for (const Harm& harm : image_file_harms("in/" + name, 2))
    expect_policies(folder_set(false), harm);
  expect_policies(folder_set(false),
                  {.fault = "sizes that overflow",
                   .act = edit("in/" + name, [](auto& b) { set_jpeg_size(b, 65535, 65535); }),
                   .name = name,
                   .reason = "Maximum supported image dimension is 65500"});
  // Within what is allowed, but more than the bytes can stand for.
  expect_policies(folder_set(false), {.fault = "bomb",
                                      .act = edit("in/" + name,
                                                  [](auto& b) {
                                                    set_jpeg_size(b, 16000, 11000);
                                                    b.resize(9000);
                                                  }),
                                      .name = name,
                                      .reason = "truncated"});
}

TEST(BadInputTest, FolderOfPng) {
  const std::string name = "b/4.png";
  for (const Harm& harm : image_file_harms("in/" + name, 4))
    expect_policies(folder_set(true), harm);
  const auto sized = [&](const char* fault, uint32_t height, uint32_t width, const char* reason) {
    expect_policies(folder_set(true),
                    {.fault = fault,
                     .sample = 4,
                     .act = edit("in/" + name, [=](auto& b) { set_png_size(b, height, width); }),
                     .name = name,
                     .reason = reason});
  };
  sized("sizes that overflow", 0x7fffffff, 0x7fffffff, "arithmetic overflow");
  sized("more pixels than are allowed", 20000, 20000, "20000 x 20000 pixels");
  sized("bomb", 13000, 13000, "truncated");
}

TEST(BadInputTest, FolderWithoutImagesIsRefused) {
  const auto set = folder_set(false);
  expect_refused(set, {.fault = "class without images",
                       .act =
                           [](const TempDir& dir) {
                             fs::create_directories(dir.path() + "/in/c/deep");
                             dir.write("in/c/readme.txt", "no image");
                             return nullptr;
                           },
                       .name = "in/c",
                       .reason = "the class \"c\" has no image"});
}

TEST(BadInputTest, TinyImagenetAndCatsdogs) {
  const SmallSet tiny = {
      "tiny_imagenet",
      [](const TempDir& dir) {
        dir.write("wnids.txt", "n1\nn2\n");
        for (int64_t i = 0; i < kSetSize; ++i) {
          dir.write(fmt::format("train/n{}/images/{}.JPEG", i < 3 ? 1 : 2, i),
                    small_image(i, false));
        }
      },
      [](const TempDir& dir) { return build_dataset({TinyImagenetConfig{.path = dir.path()}}); }};
  for (const Harm& harm : image_file_harms("train/n1/images/2.JPEG", 2))
    expect_policies(tiny, harm);
  expect_refused(tiny, {.fault = "class without images",
                        .act =
                            [](const TempDir& dir) {
                              fs::remove_all(dir.path() + "/train/n2/images");
                              fs::create_directories(dir.path() + "/train/n2/images");
                              return nullptr;
                            },
                        .name = "train/n2/images",
                        .reason = "has no image"});
  const SmallSet pets = {
      "catsdogs",
      [](const TempDir& dir) {
        for (int64_t i = 0; i < kSetSize; ++i)
          dir.write(fmt::format("{}.{}.jpg", i < 3 ? "cat" : "dog", i), small_image(i, false));
      },
      [](const TempDir& dir) { return build_dataset({CatsdogsConfig{.path = dir.path()}}); }};
  for (const Harm& harm : image_file_harms("dog.3.jpg", 3)) expect_policies(pets, harm);
}

SmallSet list_set(bool has_masks) {
  return {
      has_masks ? "list with masks" : "list",
      [has_masks](const TempDir& dir) {
        std::string text = has_masks ? "path,mask\n" : "path,label\n";
        for (int64_t i = 0; i < kSetSize; ++i) {
          Image image = {10, 12, 3, std::vector<uint8_t>(360, static_cast<uint8_t>(40 * i))};
          dir.write(fmt::format("{}.png", i), has_masks ? encode_png(image) : small_image(i, true));
          Image mask = {10, 12, 1, std::vector<uint8_t>(120, static_cast<uint8_t>(i % 2))};
          dir.write(fmt::format("m{}.png", i), encode_png(mask));
          text += has_masks ? fmt::format("{0}.png,m{0}.png\n", i)
                            : fmt::format("{}.png,{}\n", i, i % 2);
        }
        dir.write("list.csv", text);
      },
      [](const TempDir& dir) {
        return build_dataset({FileListConfig{.path = dir.path() + "/list.csv", .num_classes = 2}});
      },
      has_masks};
}

TEST(BadInputTest, Lists) {
  for (const Harm& harm : image_file_harms("5.png", 5)) expect_policies(list_set(false), harm);
  const auto write_mask = [](int64_t height, int64_t channels, uint8_t value) {
    const Image mask = {height, 12, channels,
                        std::vector<uint8_t>(static_cast<size_t>(height * 12 * channels), value)};
    return [bytes = encode_png(mask)](auto& old) { old = bytes; };
  };
  const auto masked = list_set(true);
  expect_policies(masked, {.fault = "mask of another size",
                           .act = edit("m2.png", write_mask(9, 1, 0)),
                           .name = "m2.png",
                           .reason = "a mask of 12 x 9 pixels for an image of 12 x 10"});
  expect_policies(masked, {.fault = "mask in colour",
                           .act = edit("m2.png", write_mask(10, 3, 0)),
                           .name = "m2.png",
                           .reason = "a mask with 3 channels"});
  expect_policies(masked, {.fault = "a class that there is not",
                           .act = edit("m2.png", write_mask(10, 1, 7)),
                           .name = "m2.png",
                           .reason = "has class 7"});
  expect_policies(masked, vanishes("m2.png"));
  expect_policies(masked, disk_fails("m2.png"));
  expect_policies(masked, truncated("m2.png"));
}

}  // namespace
}  // namespace fovea::data
