// MedMNIST's layout: a .npz with {train,val,test}_images and _labels (Yang et al. 2023, "MedMNIST
// v2"). 2-D sets are images [N, H, W] or [N, H, W, 3], 3-D sets volumes [N, D, H, W].
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/data/dataset.h"
#include "fovea/data/labels.h"
#include "fovea/data/transforms/any_transform.h"
#include "fovea/files/unpack_limit.h"

namespace fovea::data {

struct MedMnistConfig {
  static constexpr std::string_view kName = "medmnist";
  static constexpr std::string_view kSample = "an image or volume";
  std::string path = {};
  std::string split = "train";
  std::vector<std::string> class_names = {};
  std::optional<int64_t> num_classes = {};
  int64_t max_unpacked_bytes = kDefaultUnpackedBytes;
  std::vector<int64_t> channels = {};
  std::vector<AnyTransformConfig> transforms = {};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("path", self.path, "the .npz file, such as pathmnist.npz", {.required = true});
    v.field("split", self.split, "which of the file's sets", {.choices = {"train", "val", "test"}});
    v.field("class_names", self.class_names, "names of the classes, in label order");
    v.field("num_classes", self.num_classes,
            "number of classes; default: the largest label of all splits + 1",
            {.min = 1, .max = kMaxClasses});
    v.field("max_unpacked_bytes", self.max_unpacked_bytes, kUnpackedBytesHelp,
            {.min = 1, .unit = "bytes"});
  }
};

// Throws DataError: see build_npz_dataset; sets with several labels a sample (ChestMNIST).
std::shared_ptr<const Dataset> build_medmnist_dataset(const MedMnistConfig& config);

}  // namespace fovea::data
