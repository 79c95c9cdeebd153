#include "fovea/data/datasets/wds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "fovea/data/archive/wds_index.h"
#include "fovea/data/datasets/registry.h"
#include "tests/data/archive_support.h"

namespace fovea::data {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using testing::golden;
using ::testing::HasSubstr;
using testing::image_file;
using testing::message_of;
using testing::tar_of;
using testing::TempDir;
using testing::to_bytes;

class WdsTest : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const testing::NamedBytes& files) const {
    return dir_.write(name, to_bytes(tar_of(files)));
  }
  std::string error_of(const WdsConfig& config) const {
    return message_of<DataError>([&] { build_wds_dataset(config); });
  }
  TempDir dir_;
};

TEST_F(WdsTest, ReadsATarOfWebdatasetAsWebdatasetDoes) {
  const auto path = dir_.write("golden.tar", golden("wds.tar", "data_packed").bytes);
  const auto labels = golden("wds.labels", "data_packed").values<int64_t>();
  for (const std::string label : {"auto", "cls", "json"}) {
    const auto dataset = build_dataset({WdsConfig{.path = {path}, .label = label}});
    ASSERT_EQ(dataset->size(), static_cast<int64_t>(labels.size()));
    EXPECT_EQ(dataset->num_classes(), 4);
    Sample sample;
    for (int64_t i = dataset->size() - 1; i >= 0; --i) {
      read_decoded(*dataset, i, sample);
      EXPECT_EQ(sample.label, labels[static_cast<size_t>(i)]);
      EXPECT_EQ(sample.image().pixels,
                golden(fmt::format("wds.pixels.{}", i), "data_packed").bytes);
    }
    EXPECT_THAT(dataset->describe(2), EndsWith("golden.tar/part/000002"));
    EXPECT_THROW(read_decoded(*dataset, dataset->size(), sample), Error);
  }
}

TEST_F(WdsTest, LabelsAboveAnySetsAreRefused) {
  const auto path = write("x.tar", {{"a.png", image_file("png_gray")}, {"a.cls", "1000000000\n"}});
  EXPECT_THAT(
      error_of({.path = {path}}),
      AllOf(HasSubstr("x.tar/a.cls"), HasSubstr("label 1000000000; expected 0 to 16777215")));
}

TEST_F(WdsTest, BracesAndFoldersNameTheTars) {
  for (int i = 0; i < 3; ++i) {
    write(fmt::format("t-{:03}.tar", i),
          {{fmt::format("k{}.png", i), image_file("png_rgb")},
           {fmt::format("k{}.cls", i), std::to_string(2 - i) + "\n"}});
  }
  for (const std::string path : {"/t-{000..002}.tar", ""}) {
    const auto dataset = build_wds_dataset({.path = {dir_.path() + path}});
    ASSERT_EQ(dataset->size(), 3);
    Sample sample;
    for (int64_t i = 0; i < 3; ++i) {
      read_decoded(*dataset, i, sample);
      EXPECT_EQ(sample.label, 2 - i);
      EXPECT_EQ(sample.image().pixels, golden("decoded.png_rgb").bytes);
    }
  }
  EXPECT_THAT(error_of({.path = {dir_.path() + "/t-{000..003}.tar"}}), HasSubstr("t-003.tar"));
}

TEST_F(WdsTest, IndexFilesAreUsedAndHeldToTheTar) {
  const auto image = image_file();
  const auto path =
      write("x.tar", {{"a.jpg", image}, {"a.cls", "1"}, {"b.jpg", image}, {"b.cls", "0"}});
  const auto index = build_wds_index(FileSource(path));
  const auto text = format_wds_index(index);
  // The lines of the two samples swapped: only who reads the index sees it.
  const auto first = text.find('\n') + 1, second = text.find('\n', first) + 1;
  const auto swapped =
      text.substr(0, first) + text.substr(second) + text.substr(first, second - first);
  Sample sample;
  for (const bool is_beside : {true, false}) {
    dir_.write(is_beside ? "x.idx" : "indices/idx_0.txt", swapped);
    const auto dataset =
        build_wds_dataset({.path = {path}, .index = is_beside ? "" : dir_.path() + "/indices"});
    read_decoded(*dataset, 0, sample);
    EXPECT_EQ(sample.label, 0);
    EXPECT_THAT(dataset->describe(0), EndsWith("x.tar/b"));
  }
  EXPECT_THAT(message_of<ConfigError>([&] {
                build_wds_dataset({.path = {path}, .index = dir_.path() + "/{a,b}.idx"});
              }),
              HasSubstr("2 files for 1 tars"));
  // An index that is off by a block, and one of another tar.
  dir_.write("x.idx", std::string("v1.1 1\njpg 1024 100\n"));
  const auto wrong = build_wds_dataset({.path = {path}, .label = "none"});
  EXPECT_THAT(message_of([&] { read_decoded(*wrong, 0, sample); }), HasSubstr("index has changed"));
  // Older than its tar: not used.
  std::filesystem::last_write_time(dir_.path() + "/x.idx",
                                   std::filesystem::last_write_time(path) - std::chrono::hours(1));
  EXPECT_EQ(build_wds_dataset({.path = {path}})->size(), 2);
}

TEST_F(WdsTest, LabelsAsTextJsonAndNames) {
  const auto image = image_file();
  const auto path = write("x.tar", {{"a.jpg", image},
                                    {"a.txt", "dog\n"},
                                    {"a.meta.json", R"({"id": 1, "kind": "cat"})"},
                                    {"b.jpg", image},
                                    {"b.txt", "cat"},
                                    {"b.meta.json", R"({"id": 0, "kind": "dog"})"}});
  Sample sample;
  const auto label_of = [&](WdsConfig config) {
    config.path = {path};
    read_decoded(*build_wds_dataset(config), 0, sample);
    return sample.label;
  };
  const std::vector<std::string> names = {"cat", "dog"};
  EXPECT_EQ(label_of({.class_names = names}), 1);
  EXPECT_EQ(label_of({.label = "meta.json", .label_key = "id"}), 1);
  EXPECT_EQ(label_of({.label = "meta.json", .label_key = "kind", .class_names = names}), 0);
  EXPECT_EQ(label_of({.label = "none"}), -1);
  EXPECT_THAT(
      error_of({.path = {path}}),
      AllOf(HasSubstr("x.tar/a.txt"), HasSubstr("the label is \"dog\"; expected an integer")));
  EXPECT_THAT(error_of({.path = {path}, .label = "cls"}), HasSubstr("no cls"));
  EXPECT_THAT(error_of({.path = {path}, .images = {"webp"}}),
              AllOf(HasSubstr("without image"), HasSubstr("jpg, txt, meta.json")));
  EXPECT_THAT(error_of({.path = {path}, .label = "meta.json"}), HasSubstr("the key \"label\""));
  const auto few = build_wds_dataset(
      {.path = {path}, .label = "meta.json", .label_key = "id", .num_classes = 1});
  EXPECT_THAT(message_of([&] { read_decoded(*few, 0, sample); }),
              HasSubstr("label 1; expected 0 to 0"));
}

TEST_F(WdsTest, TwoSamplesWithOneKeyAreBothNamed) {
  const auto image = image_file();
  write("x.tar", {{"a.jpg", image}, {"a.cls", "0"}});
  write("y.tar", {{"b.jpg", image}, {"b.cls", "0"}, {"a.jpg", image}, {"a.cls", "0"}});
  const auto path = dir_.path() + "/{x,y}.tar";
  EXPECT_THAT(error_of({.path = {path}}),
              AllOf(HasSubstr("x.tar[0]"), HasSubstr("y.tar[1]"), HasSubstr("key \"a\"")));
  EXPECT_EQ(build_wds_dataset({.path = {path}, .unique_keys = false})->size(), 3);
}

TEST_F(WdsTest, AFileThatVanishesOrShrinksIsNamed) {
  const auto image = image_file();
  const auto path = write("x.tar", {{"a.jpg", image}, {"a.cls", "0"}});
  const auto dataset = build_wds_dataset({.path = {path}, .num_classes = 1});
  std::filesystem::remove(path);
  Sample sample;
  EXPECT_THAT(message_of([&] { read_decoded(*dataset, 0, sample); }), HasSubstr("x.tar"));
  write("x.tar", {{"a.jpg", "not an image"}, {"a.cls", "0"}});
  const auto bad = build_wds_dataset({.path = {path}});
  EXPECT_THAT(message_of([&] { read_decoded(*bad, 0, sample); }),
              HasSubstr("x.tar/a: not an image"));
  std::filesystem::resize_file(path, 600);
  EXPECT_THAT(message_of([&] { read_decoded(*bad, 0, sample); }), HasSubstr("x.tar"));
}

TEST_F(WdsTest, ReadsFromManyThreads) {
  testing::NamedBytes files;
  for (int i = 0; i < 40; ++i) {
    files.emplace_back(fmt::format("{:03}.cls", i), std::to_string(i % 7));
    files.emplace_back(fmt::format("{:03}.jpg", i), image_file());
  }
  const auto dataset = build_wds_dataset({.path = {write("x.tar", files)}});
  EXPECT_EQ(dataset->num_classes(), 7);
  std::vector<std::thread> threads;
  std::vector<int> good(4, 0);
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Sample sample;
      for (int64_t i = 0; i < 40; ++i) {
        read_decoded(*dataset, (i * 13 + static_cast<int64_t>(t)) % 40, sample);
        good[t] += sample.label == (i * 13 + static_cast<int64_t>(t)) % 40 % 7 &&
                   sample.image().pixels == golden("decoded.jpeg_420").bytes;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, std::vector<int>(4, 40));
}

}  // namespace
}  // namespace fovea::data
