#include "fovea/data/datasets/cifar.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <sstream>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/input_file.h"
#include "fovea/core/printable.h"
#include "fovea/data/image/image_view.h"
#include "fovea/files/input_stream.h"

namespace fovea::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSide = 32;
constexpr int64_t kChannels = 3;
constexpr int64_t kPlane = kSide * kSide;
constexpr size_t kMaxCifarBytes = size_t{1} << 30;  // the whole set has 180 MB
constexpr uint64_t kMaxNamesBytes = 1 << 16;        // a hundred names

struct BinaryVariant {
  int64_t num_classes;
  int64_t label_bytes;  // the last one is the label that counts
  const char* names_file;
  const char* archive_folder;  // what the publisher's archive unpacks to

  int64_t record_bytes() const { return label_bytes + kPlane * kChannels; }
};

constexpr BinaryVariant kCifar10 = {10, 1, "batches.meta.txt", "cifar-10-batches-bin"};
constexpr BinaryVariant kCifar100 = {100, 2, "fine_label_names.txt", "cifar-100-binary"};

std::vector<std::string> files_of(const std::string& split, const BinaryVariant& variant) {
  if (variant.num_classes == 100) return {split + ".bin"};
  if (split == "test") return {"test_batch.bin"};
  return {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
          "data_batch_5.bin"};
}

// Training sets are often cut down to some of the five files: those that exist count, at least one.
std::vector<fs::path> existing_files(const fs::path& folder, const std::string& split,
                                     const BinaryVariant& variant) {
  std::vector<fs::path> found;
  for (const std::string& name : files_of(split, variant)) {
    if (is_there(folder / name)) found.push_back(folder / name);
  }
  return found;
}

CifarPart read_records(const fs::path& path, const BinaryVariant& variant) {
  const auto bytes =
      std::make_shared<const std::vector<uint8_t>>(read_gzip(path.string(), kMaxCifarBytes));
  const int64_t record = variant.record_bytes();
  const auto size = static_cast<int64_t>(bytes->size());
  if (size == 0 || size % record != 0) {
    fail<DataError>(
        "{}: {} bytes; expected a multiple of {} (a record of CIFAR-{}); the file is truncated or "
        "of another format",
        path.string(), size, record, variant.num_classes);
  }
  CifarPart part{path.filename().string(), bytes, bytes->data() + variant.label_bytes, record};
  for (const uint8_t* label = part.pixels - 1; label < bytes->data() + size; label += record) {
    if (*label >= variant.num_classes) {
      fail<DataError>(
          "{}: record {} has label {}; expected 0 to {}; the file is damaged or of another format",
          path.string(), part.labels.size(), *label, variant.num_classes - 1);
    }
    part.labels.push_back(*label);
  }
  return part;
}

// One name a line; empty where the file is not there.
std::vector<std::string> read_names(const fs::path& path, int64_t num_classes) {
  std::vector<std::string> names;
  if (!is_there(path)) return names;
  std::istringstream file(read_file(path.string(), kMaxNamesBytes));
  for (std::string line; std::getline(file, line);) {
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back()))) line.pop_back();
    if (!line.empty()) names.push_back(printable(line));
  }
  if (static_cast<int64_t>(names.size()) != num_classes) {
    fail<DataError>("{}: {} class names; expected {}, one a line; correct or remove the file",
                    path.string(), names.size(), num_classes);
  }
  return names;
}

class CifarDataset : public Dataset {
 public:
  CifarDataset(std::vector<CifarPart> parts, int64_t num_classes,
               std::vector<std::string> class_names)
      : parts_(std::move(parts)), num_classes_(num_classes), class_names_(std::move(class_names)) {
    for (const CifarPart& part : parts_) {
      first_.push_back(size_);
      size_ += std::ssize(part.labels);
    }
  }

  int64_t size() const override { return size_; }
  int64_t num_classes() const override { return num_classes_; }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  VolumeSize size_of(int64_t) const override { return {1, kSide, kSide}; }

  void read(int64_t index, Sample& sample) const override {
    const auto [part, at] = place_of(index);
    sample.label = part.labels[static_cast<size_t>(at)];
    const uint8_t* planes = part.pixels + at * part.stride;
    Image& image = sample.become<Image>();
    reshape(image, {kSide, kSide}, kChannels);
    for (int64_t i = 0; i < kPlane; ++i) {
      for (int64_t c = 0; c < kChannels; ++c)
        image.pixels[i * kChannels + c] = planes[c * kPlane + i];
    }
  }

  std::string describe(int64_t index) const override {
    const auto [part, at] = place_of(index);
    return fmt::format("{}[{}]", part.name, at);
  }

 private:
  std::pair<const CifarPart&, int64_t> place_of(int64_t index) const {
    FOVEA_CHECK(index >= 0 && index < size_, "index={}; expected 0 to {}", index, size_ - 1);
    const auto after = std::upper_bound(first_.begin(), first_.end(), index);
    return {parts_[static_cast<size_t>(after - first_.begin() - 1)], index - *(after - 1)};
  }

  std::vector<CifarPart> parts_;
  std::vector<int64_t> first_;  // index of each part's first image in the data set
  int64_t num_classes_;
  std::vector<std::string> class_names_;
  int64_t size_ = 0;
};

}  // namespace

std::shared_ptr<const Dataset> build_cifar_parts(std::vector<CifarPart> parts, int64_t num_classes,
                                                 std::vector<std::string> class_names) {
  return std::make_shared<CifarDataset>(std::move(parts), num_classes, std::move(class_names));
}

std::shared_ptr<const Dataset> build_cifar_dataset(const CifarConfig& config) {
  check_input_folder(config.path, "a folder with CIFAR's .bin files");
  for (const BinaryVariant& variant : {kCifar10, kCifar100}) {
    if (config.variant != "auto" && config.variant != fmt::format("cifar{}", variant.num_classes))
      continue;
    for (const fs::path& folder :
         {fs::path(config.path), fs::path(config.path) / variant.archive_folder}) {
      const auto paths = existing_files(folder, config.split, variant);
      if (paths.empty()) continue;
      std::vector<CifarPart> parts;
      for (const fs::path& path : paths) parts.push_back(read_records(path, variant));
      return build_cifar_parts(std::move(parts), variant.num_classes,
                               read_names(folder / variant.names_file, variant.num_classes));
    }
  }
  fail<DataError>(
      "{}: found no {} file of CIFAR (data_batch_1.bin to data_batch_5.bin and test_batch.bin, or "
      "train.bin "
      "and test.bin); unpack the binary version of the set there",
      config.path, config.split);
}

}  // namespace fovea::data
