// IDX, the format of MNIST and its relatives: a big-endian header (magic, one size a dimension),
// then bytes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/data/dataset.h"
#include "fovea/data/labels.h"
#include "fovea/data/transforms/any_transform.h"
#include "fovea/files/unpack_limit.h"

namespace fovea::data {

struct IdxConfig {
  static constexpr std::string_view kName = "idx";
  std::string path = {};
  std::string split = "train";
  std::string images = {};
  std::string labels = {};
  std::vector<std::string> class_names = {};
  std::optional<int64_t> num_classes = {};
  int64_t max_unpacked_bytes = kDefaultUnpackedBytes;
  std::vector<int64_t> channels = {};
  std::vector<AnyTransformConfig> transforms = {};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field(
        "path", self.path,
        "folder with {train,t10k}-{images-idx3,labels-idx1}-ubyte[.gz]; or give images and labels",
        {.instead_of = {"images", "labels"}});
    v.field("split", self.split, "which of the folder's two sets", {.choices = {"train", "test"}});
    v.field("images", self.images, "images file, [N, H, W] or [N, H, W, C], plain or .gz",
            {.instead_of = {"path"}});
    v.field("labels", self.labels, "labels file, [N], plain or .gz", {.instead_of = {"path"}});
    v.field("class_names", self.class_names, "names of the classes, in label order");
    v.field("num_classes", self.num_classes, "number of classes; default: largest label + 1",
            {.min = 1, .max = kMaxClasses});
    v.field("max_unpacked_bytes", self.max_unpacked_bytes, kUnpackedBytesHelp,
            {.min = 1, .unit = "bytes"});
  }
  void validate(ConfigIssues& issues) const;
};

// The sizes that an IDX header announces.
struct IdxHeader {
  std::vector<int64_t> sizes;  // one to four dimensions, each > 0
  size_t header_bytes = 0;     // offset of the data
  size_t data_bytes = 0;       // product of the sizes
};

// Reads the header at the front of `bytes`. Throws DataError naming `path`: wrong magic, an element
// type other than unsigned bytes, a size of zero, sizes whose product overflows.
IdxHeader parse_idx_header(std::span<const uint8_t> bytes, const std::string& path);

// Throws DataError: missing or damaged files, counts of images and labels that differ, labels out
// of range.
std::shared_ptr<const Dataset> build_idx_dataset(const IdxConfig& config);

}  // namespace fovea::data
