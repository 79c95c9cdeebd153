// docs/adding_a_dataset.md, followed: its format compiles, reads and refuses what it should.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/data/dataset.h"
#include "fovea/data/datasets/format_entry.h"
#include "fovea/data/image/decode.h"
#include "fovea/data/transforms/any_transform.h"
#include "tests/data/support.h"

namespace fovea::data {

// Images named in a text file, one a line: label, space, path from the file's folder.
struct ListConfig {
  static constexpr std::string_view kName = "lines";
  std::string path = {};
  int64_t num_classes = 0;
  std::vector<int64_t> channels = {};
  std::vector<AnyTransformConfig> transforms = {};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("path", self.path, "text file: label, space, path from the file's folder",
            {.required = true});
    v.field("num_classes", self.num_classes, "labels are below this", {.min = 1, .required = true});
  }
};

// Throws DataError: no such file, no lines, a label out of range.
std::shared_ptr<const Dataset> build_list_dataset(const ListConfig& config);

namespace {

struct ListEntry {
  std::string path;
  int64_t label = 0;
};

std::vector<ListEntry> read_list(const ListConfig& config) {
  std::istringstream file(read_file(config.path, uint64_t{1} << 30));  // ten million lines
  const auto folder = std::filesystem::path(config.path).parent_path();
  std::vector<ListEntry> entries;
  ListEntry entry;
  std::string name;
  while (file >> entry.label && std::getline(file >> std::ws, name)) {
    if (entry.label < 0 || entry.label >= config.num_classes) {
      fail<DataError>("{}:{}: label {}; expected 0 to {}", config.path, entries.size() + 1,
                      entry.label, config.num_classes - 1);
    }
    entry.path = (folder / name).string();
    entries.push_back(entry);
  }
  if (!file.eof() || entries.empty()) {
    fail<DataError>("{}:{}: expected a label, a space and a path", config.path, entries.size() + 1);
  }
  return entries;
}

class ListDataset : public Dataset {
 public:
  explicit ListDataset(const ListConfig& config)
      : entries_(read_list(config)), num_classes_(config.num_classes) {}

  int64_t size() const override { return static_cast<int64_t>(entries_.size()); }
  void read(int64_t index, Sample& sample) const override {
    const auto& entry = entries_.at(static_cast<size_t>(index));
    load_image(entry.path, entry.path, sample.become<Image>());
    sample.label = entry.label;
  }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  int64_t num_classes() const override { return num_classes_; }
  std::string describe(int64_t index) const override {
    return entries_.at(static_cast<size_t>(index)).path;
  }

 private:
  std::vector<ListEntry> entries_;
  std::vector<std::string> class_names_;  // the format does not name them
  int64_t num_classes_;
};

}  // namespace

std::shared_ptr<const Dataset> build_list_dataset(const ListConfig& config) {
  return std::make_shared<ListDataset>(config);
}

namespace {

using testing::message_of;
using testing::TempDir;

std::string image(const std::string& name) {
  return std::string(FOVEA_SOURCE_DIR) + "/docs/images/" + name;
}

TEST(AddingADatasetTest, ReadsTheImagesOfAList) {
  const TempDir dir;
  const auto path =
      dir.write("list.txt", "1 " + image("bag.png") + "\n0 " + image("tshirt.png") + "\n");
  const auto dataset = build_list_dataset({.path = path, .num_classes = 2});
  ASSERT_EQ(dataset->size(), 2);
  Sample sample;
  read_decoded(*dataset, 0, sample);
  EXPECT_EQ(sample.label, 1);
  EXPECT_EQ(sample.image().height, 28);
  EXPECT_EQ(sample.image().channels, 1);
  EXPECT_EQ(dataset->describe(1), image("tshirt.png"));
}

TEST(AddingADatasetTest, RefusesWhatIsNotAList) {
  const TempDir dir;
  const auto message = [&](const std::string& text) {
    const auto path = dir.write("list.txt", text);
    return message_of([&] { build_list_dataset({.path = path, .num_classes = 2}); });
  };
  EXPECT_THAT(message("0 a.png\n2 b.png\n"), ::testing::HasSubstr("list.txt:2: label 2"));
  EXPECT_THAT(message("a.png\n"), ::testing::HasSubstr("list.txt:1: expected a label"));
  EXPECT_THAT(message(""), ::testing::HasSubstr("expected a label"));
}

TEST(AddingADatasetTest, ItsConfigHasItsKeys) {
  const auto config = parse_config<ListConfig>("{path: a.txt, num_classes: 3}", "recipe.yaml");
  EXPECT_EQ(config.num_classes, 3);
  EXPECT_THROW(parse_config<ListConfig>("path: a.txt", "recipe.yaml"), ConfigError);
}

TEST(AddingADatasetTest, ItsLineOfTheTableOpensIt) {
  const ConfigAlternatives table = {
      dataset_format<ListConfig, build_list_dataset>(),
  };
  EXPECT_EQ(table[0].name, "lines");
  const auto made = table[0].make();
  auto* format = dynamic_cast<DatasetFormat*>(made.get());
  ASSERT_NE(format, nullptr);
  const TempDir dir;
  auto& config = *static_cast<ListConfig*>(format->value());
  config.path = dir.write("list.txt", "0 " + image("bag.png") + "\n");
  config.num_classes = 1;
  EXPECT_EQ(format->open(EmptyClasses::kRefused)->size(), 1);
  EXPECT_EQ(format->volume_axes(), VolumeAxes::kUnknown);
}

}  // namespace
}  // namespace fovea::data
