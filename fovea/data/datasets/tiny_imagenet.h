// Tiny-ImageNet as it unpacks: train/WNID/images/*.JPEG, val/images/*.JPEG with
// val/val_annotations.txt, wnids.txt (the classes, in label order), words.txt (their names).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/data/dataset.h"
#include "fovea/data/labels.h"
#include "fovea/data/transforms/any_transform.h"

namespace fovea::data {

struct TinyImagenetConfig {
  static constexpr std::string_view kName = "tiny_imagenet";
  std::string path = {};
  std::string split = "train";
  std::string classes = "wnids";
  std::optional<int64_t> num_classes = {};
  std::vector<int64_t> channels = {};
  std::vector<AnyTransformConfig> transforms = {};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("path", self.path, "folder with wnids.txt, train and val", {.required = true});
    v.field("split", self.split, "which of the two labelled sets", {.choices = {"train", "val"}});
    v.field("classes", self.classes,
            "file whose lines are the classes, in label order; wnids: those of wnids.txt that have "
            "a folder in train; words: every line of words.txt, as BioNeMo's class_map",
            {.choices = {"wnids", "words"}});
    v.field("num_classes", self.num_classes,
            "number of classes, where the head has more than the file has lines; default: the "
            "file's",
            {.min = 1, .max = kMaxClasses});
  }
};

// Classes are those of wnids.txt, in its order, that have a folder in train (smaller copies of the
// set leave some out), or all lines of words.txt; both splits have the same. Class names come from
// words.txt, else they are the WNIDs. Order of the images: by class, then by name (train); by name
// (val). Throws DataError: a file or class that is missing, an annotation that cannot be.
std::shared_ptr<const Dataset> build_tiny_imagenet_dataset(const TinyImagenetConfig& config);

}  // namespace fovea::data
