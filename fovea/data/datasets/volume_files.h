// What data sets of volume files share: which files belong to a sample, and how masks and labels go
// with them. nifti, basic_ct, dicom, npy and raw differ in how one file is opened.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/data/dataset.h"
#include "fovea/data/labels.h"
#include "fovea/data/transforms/any_transform.h"
#include "fovea/data/volume/volume_file.h"

namespace fovea::data {

// The keys that the formats share; each format's config is a child with its kName.
struct VolumeFilesConfig {
  static constexpr std::string_view kSample = "a volume";
  std::string path = {};
  std::vector<std::string> images = {};
  std::string masks = {};
  std::string list = {};
  std::vector<std::string> class_names = {};
  std::optional<int64_t> num_classes = {};
  int64_t label_offset = 0;
  std::vector<int64_t> ignore_values = {};
  std::vector<int64_t> channels = {};
  std::vector<AnyTransformConfig> transforms = {};

  template <class Visitor, class Self>
  static void visit_files(Visitor& v, Self& self) {
    v.field("path", self.path, "folder that images, masks and list are looked up in",
            {.required = true});
    v.field(
        "images", self.images,
        "patterns with *, one a channel (modality); files of a sample agree in what * stands for",
        {.one_is_list = true, .instead_of = {"list"}});
    v.field("masks", self.masks, "pattern of the masks, with as many * as those of images",
            {.instead_of = {"list"}});
    v.field("list", self.list,
            "in place of images and masks: CSV (path,label,mask) or .jsonl; several modalities: "
            "paths divided by ;",
            {.instead_of = {"images", "masks"}});
    v.field("class_names", self.class_names, "names of the classes, in label order");
    v.field(
        "num_classes", self.num_classes,
        "number of classes (of voxels, where there are masks); default: that of class_names, or "
        "of labels the largest + 1",
        {.min = 1, .max = kMaxClasses});
    v.field("label_offset", self.label_offset, "number in masks that is class 0");
    v.field("ignore_values", self.ignore_values, "numbers in masks that stand for no class (-1)",
            {.one_is_list = true});
  }
  void validate(ConfigIssues& issues) const;
};

// The keys of formats whose files say where the patient's right, front and head are.
struct OrientedFilesConfig : VolumeFilesConfig {
  std::string orientation = "as_stored";

  bool is_canonical() const { return orientation == "canonical"; }

  template <class Visitor, class Self>
  static void visit_oriented(Visitor& v, Self& self) {
    visit_files(v, self);
    v.field("orientation", self.orientation,
            "canonical: axes are swapped and flipped to right-anterior-superior, which makes NIfTI "
            "and DICOM alike",
            {.choices = {"as_stored", "canonical"}});
  }
};

// The files of one sample, one a modality: "t1.nii;t2.nii" -> t1.nii, t2.nii.
std::vector<std::string> split_modalities(const std::string& paths);

struct VolumeEntry {
  std::vector<std::string> images;  // one a channel
  std::string mask = {};
  int64_t label = -1;                 // -1: none
  std::optional<int64_t> frame = {};  // of a file of several; nothing: all of them, as channels
};

// `default_image`: the pattern where `images` is empty. Throws DataError: no files, an image
// without its mask or its other modalities (named), a list that is damaged, labels that are no
// classes.
std::vector<VolumeEntry> find_volume_entries(const VolumeFilesConfig& config,
                                             const std::string& default_image);

struct VolumeFilesOptions {
  OpenVolume open_image = {};
  OpenVolume open_mask = {};
  // Whether it is worth opening a file to see whether its regions cost their own bytes, told from
  // its name; nothing: of none.
  std::function<bool(const std::string& path)> may_have_regions = {};
  // What the sizes of these files, so opened, are kept under beside the data set (known_sizes.h);
  // empty: they cost nothing.
  std::string known_as = {};
  bool scales_to_unit_range = false;
  // Likewise the ranges that they are scaled by (known_ranges.h); empty: they are not kept.
  std::string ranges_known_as = {};
};

// Volumes [C, D, H, W] with the channels of all images of an entry, in order. `read` throws
// DataError: what open and convert_values throw; images or masks of a sample that differ in size or
// in orientation.
std::shared_ptr<const Dataset> build_volume_files_dataset(const VolumeFilesConfig& config,
                                                          std::vector<VolumeEntry> entries,
                                                          VolumeFilesOptions options);

}  // namespace fovea::data
