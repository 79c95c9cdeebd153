#include "fovea/data/datasets/idx.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/input_file.h"
#include "fovea/files/file_endings.h"
#include "fovea/files/input_stream.h"

namespace fovea::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxDimensions = 4;
constexpr size_t kMaxHeaderBytes = 4 + 4 * kMaxDimensions;

uint32_t read_big_endian(std::span<const uint8_t> bytes, size_t offset) {
  return uint32_t{bytes[offset]} << 24 | uint32_t{bytes[offset + 1]} << 16 |
         uint32_t{bytes[offset + 2]} << 8 | uint32_t{bytes[offset + 3]};
}

struct IdxArray {
  std::string path;
  std::vector<int64_t> sizes;
  std::vector<uint8_t> bytes;  // the file, header included
  size_t offset = 0;           // where the data starts
};

IdxArray read_idx(const std::string& path, int64_t max_unpacked_bytes) {
  IdxArray array;
  array.path = path;
  const IdxHeader header = parse_idx_header(read_gzip(path, kMaxHeaderBytes), path);
  const size_t expected = header.header_bytes + header.data_bytes;
  const InputStream stream(path);
  if (stream.is_gzip())
    check_unpacked_bytes(stream.file_bytes(), expected, max_unpacked_bytes, path);
  array.bytes = read_gzip(path, expected + 1);
  if (array.bytes.size() != expected) {
    fail<DataError>(
        "{}: the header announces {} bytes of data, the file holds {}{}; fetch the file again",
        path, header.data_bytes, array.bytes.size() > expected ? "more than " : "",
        std::min(array.bytes.size(), expected) - header.header_bytes);
  }
  array.sizes = header.sizes;
  array.offset = header.header_bytes;
  return array;
}

class IdxDataset : public Dataset {
 public:
  IdxDataset(IdxArray images, std::optional<IdxArray> labels, const IdxConfig& config)
      : images_(std::move(images)), labels_(std::move(labels)), class_names_(config.class_names) {
    check_dimensions();
    if (!labels_) return;
    const auto first = labels_->bytes.begin() + static_cast<ptrdiff_t>(labels_->offset);
    const auto largest = std::max_element(first, labels_->bytes.end());
    num_classes_ = config.num_classes.value_or(
        class_names_.empty() ? *largest + int64_t{1} : static_cast<int64_t>(class_names_.size()));
    if (*largest >= num_classes_) {
      fail<DataError>(
          "{}: sample {} has label {}, but there are {} classes (0 to {}); correct num_classes or "
          "class_names, or take the right labels file",
          labels_->path, largest - first, *largest, num_classes_, num_classes_ - 1);
    }
  }

  int64_t size() const override { return images_.sizes[0]; }
  int64_t num_classes() const override { return num_classes_; }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  VolumeSize size_of(int64_t) const override { return {1, images_.sizes[1], images_.sizes[2]}; }

  void read(int64_t index, Sample& sample) const override {
    FOVEA_CHECK(index >= 0 && index < size(), "index={}; expected 0 to {}", index, size() - 1);
    Image& image = sample.become<Image>();
    image.height = images_.sizes[1];
    image.width = images_.sizes[2];
    image.channels = images_.sizes.size() == 4 ? images_.sizes[3] : 1;
    const int64_t bytes = image.height * image.width * image.channels;
    const uint8_t* first = images_.bytes.data() + images_.offset + index * bytes;
    image.pixels.assign(first, first + bytes);
    sample.label = labels_ ? labels_->bytes[labels_->offset + static_cast<size_t>(index)] : -1;
  }

  std::string describe(int64_t index) const override {
    return fmt::format("{}[{}]", printable(fs::path(images_.path).filename().string()), index);
  }

 private:
  void check_dimensions() const {
    const auto& sizes = images_.sizes;
    if (sizes.size() != 3 && sizes.size() != 4) {
      fail<DataError>(
          "{}: {} dimension(s) in the header; images have 3 [N, H, W] or 4 [N, H, W, C]{}",
          images_.path, sizes.size(), sizes.size() == 1 ? "; this looks like a labels file" : "");
    }
    if (!labels_) return;
    if (labels_->sizes.size() != 1) {
      fail<DataError>(
          "{}: {} dimensions in the header; labels have one [N]; this looks like an images file",
          labels_->path, labels_->sizes.size());
    }
    if (labels_->sizes[0] != sizes[0]) {
      fail<DataError>(
          "{} holds {} labels, but {} holds {} images; the two files do not belong together",
          labels_->path, labels_->sizes[0], images_.path, sizes[0]);
    }
  }

  IdxArray images_;
  std::optional<IdxArray> labels_;
  std::vector<std::string> class_names_;
  int64_t num_classes_ = 0;
};

// The first of `folder`/`name` and `folder`/`name`.gz that exists, in both spellings that are in
// use.
std::string find_idx_file(const std::string& folder, const std::string& stem,
                          const std::string& kind) {
  for (const char* separator : {"-", "."}) {
    for (const char* ending : {"", ".gz"}) {
      const fs::path path = fs::path(folder) / (stem + separator + kind + "-ubyte" + ending);
      if (is_there(path)) return path.string();
    }
  }
  fail<DataError>(
      "{}: found neither {}-{}-ubyte nor {}-{}-ubyte.gz; give the folder that holds them as path, "
      "or the "
      "files as images and labels",
      folder, stem, kind, stem, kind);
}

}  // namespace

void IdxConfig::validate(ConfigIssues& issues) const {
  if (path.empty() == images.empty()) {
    issues.add("path", {"images"},
               path.empty() ? "missing; give path (a folder), or images and labels (files)"
                            : "given together with images; give one of the two");
  }
  if (images.empty() && !labels.empty())
    issues.add("labels", {"images"}, "given without images; give both");
  check_class_count(num_classes, class_names, issues);
}

IdxHeader parse_idx_header(std::span<const uint8_t> bytes, const std::string& path) {
  if (bytes.size() < 4)
    fail<DataError>("{}: {} bytes are too few for an IDX file", path, bytes.size());
  const uint32_t magic = read_big_endian(bytes, 0);
  const size_t dimensions = bytes[3];
  if (magic >> 16 != 0 || bytes[2] < 0x08 || bytes[2] > 0x0E) {
    fail<DataError>(
        "{}: not an IDX file: it starts with 0x{:08x}; expected 0x00000801 (labels), 0x00000803 "
        "(images) "
        "or 0x00000804 (images with channels)",
        path, magic);
  }
  if (bytes[2] != 0x08) {
    fail<DataError>("{}: IDX element type 0x{:02x}; expected 0x08 (unsigned bytes)", path,
                    bytes[2]);
  }
  if (dimensions < 1 || dimensions > kMaxDimensions) {
    fail<DataError>("{}: {} dimensions in the IDX header; expected 1 to {}", path, dimensions,
                    kMaxDimensions);
  }
  IdxHeader header;
  header.header_bytes = 4 + 4 * dimensions;
  if (bytes.size() < header.header_bytes) fail<DataError>("{}: the IDX header is truncated", path);
  header.data_bytes = 1;
  for (size_t i = 0; i < dimensions; ++i) {
    const uint32_t size = read_big_endian(bytes, 4 + 4 * i);
    if (size == 0)
      fail<DataError>("{}: dimension {} of the IDX header is 0: the file is empty", path, i);
    if (header.data_bytes > std::numeric_limits<int64_t>::max() / 2 / size) {
      fail<DataError>("{}: the sizes in the IDX header multiply to more than any file holds", path);
    }
    header.data_bytes *= size;
    header.sizes.push_back(size);
  }
  return header;
}

std::shared_ptr<const Dataset> build_idx_dataset(const IdxConfig& config) {
  std::string images = config.images;
  std::string labels = config.labels;
  if (images.empty()) {
    check_input_folder(config.path, "a folder with IDX files");
    const std::string stem = config.split == "train" ? "train" : "t10k";
    images = find_idx_file(config.path, stem, "images-idx3");
    labels = find_idx_file(config.path, stem, "labels-idx1");
  }
  std::optional<IdxArray> label_array;
  if (!labels.empty()) label_array = read_idx(labels, config.max_unpacked_bytes);
  return std::make_shared<IdxDataset>(read_idx(images, config.max_unpacked_bytes),
                                      std::move(label_array), config);
}

}  // namespace fovea::data
