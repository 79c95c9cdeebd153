// CIFAR-10 and CIFAR-100 in their binary form: records of one or two label bytes and 32 x 32
// pixels, plane by plane.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/data/dataset.h"
#include "fovea/data/transforms/any_transform.h"

namespace fovea::data {

struct CifarConfig {
  static constexpr std::string_view kName = "cifar";
  std::string path = {};
  std::string split = "train";
  std::string variant = "auto";
  std::vector<int64_t> channels = {};
  std::vector<AnyTransformConfig> transforms = {};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("path", self.path,
            "folder with data_batch_*.bin and test_batch.bin, or train.bin and test.bin",
            {.required = true});
    v.field("split", self.split, "which of the folder's two sets", {.choices = {"train", "test"}});
    v.field("variant", self.variant, "which CIFAR; auto: told from the names of the files",
            {.choices = {"auto", "cifar10", "cifar100"}});
  }
};

inline constexpr int64_t kCifarPixels = 3 * 32 * 32;

// The images of one file.
struct CifarPart {
  std::string name;
  std::shared_ptr<const void> owner;  // of the pixels
  const uint8_t* pixels = nullptr;    // of the first image, [3, 32, 32]
  int64_t stride = kCifarPixels;      // from image to image
  std::vector<int64_t> labels = {};   // of each
};

// Of parts that are not empty, one behind the other.
std::shared_ptr<const Dataset> build_cifar_parts(std::vector<CifarPart> parts, int64_t num_classes,
                                                 std::vector<std::string> class_names);

// Throws DataError: missing files, a size that is not a whole number of records, labels out of
// range, a list of class names of the wrong length. CIFAR-100 gets its fine labels.
std::shared_ptr<const Dataset> build_cifar_dataset(const CifarConfig& config);

}  // namespace fovea::data
