// UCF-VIT's basic_ct: CT volumes imagesTr/image<S>.nii with masks labelsTr/label<S>.nii.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/data/dataset.h"
#include "fovea/data/datasets/volume_axes.h"
#include "fovea/data/labels.h"
#include "fovea/data/transforms/any_transform.h"
#include "fovea/files/unpack_limit.h"

namespace fovea::data {

struct BasicCtConfig {
  static constexpr std::string_view kName = "basic_ct";
  static constexpr std::string_view kSample = "a volume";
  std::string path = {};
  bool masks = true;
  int64_t num_classes = 4;
  int64_t label_offset = 1;
  std::vector<int64_t> ignore_values = {};
  double start = 0;
  double end = 1;
  std::vector<std::string> class_names = {};
  int64_t max_unpacked_bytes = kDefaultUnpackedBytes;
  std::vector<int64_t> channels = {};
  std::vector<AnyTransformConfig> transforms = {};

  VolumeAxes volume_axes() const { return VolumeAxes::kXyz; }

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("path", self.path, "folder with imagesTr and labelsTr", {.required = true});
    v.field("masks", self.masks, "read labelsTr; false: volumes alone, for pretraining");
    v.field("num_classes", self.num_classes, "classes of voxels", {.min = 1, .max = kMaxClasses});
    v.field("label_offset", self.label_offset,
            "number in masks that is class 0: upstream's masks hold 1 to 4");
    v.field("ignore_values", self.ignore_values, "numbers in masks that stand for no class (-1)",
            {.one_is_list = true});
    v.field("start", self.start,
            "part of the sorted files to begin with (upstream's dict_start_idx)",
            {.min = 0, .max = 1});
    v.field("end", self.end, "part of the sorted files to end before (upstream's dict_end_idx)",
            {.min = 0, .max = 1});
    v.field("class_names", self.class_names, "names of the classes, in label order");
    v.field("max_unpacked_bytes", self.max_unpacked_bytes, kUnpackedBytesHelp,
            {.min = 1, .unit = "bytes"});
  }
  void validate(ConfigIssues& issues) const;
};

// One channel, scaled to [0, 1] by each volume's own minimum and maximum. Throws DataError: no
// files, an image without its mask (label + what follows "image" in its name, .nii or .nii.gz).
std::shared_ptr<const Dataset> build_basic_ct_dataset(const BasicCtConfig& config);

}  // namespace fovea::data
