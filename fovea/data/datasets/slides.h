// Tiles of whole-slide images, drawn anew each epoch where the tissue is.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/data/dataset.h"
#include "fovea/data/datasets/folder.h"
#include "fovea/data/labels.h"
#include "fovea/data/transforms/any_transform.h"

namespace fovea::data {

struct SlidesConfig {
  static constexpr std::string_view kName = "slides";
  static constexpr std::string_view kSample = "a tile";
  std::string path = {};
  std::string root = {};
  int64_t tile_size = 256;
  int64_t tiles = 64;
  std::optional<int64_t> level = {};
  std::optional<double> mpp = {};
  bool tissue = true;
  int64_t open_slides = 16;
  std::vector<std::string> class_names = {};
  std::optional<int64_t> num_classes = {};
  int64_t ignored_class = 255;
  std::vector<int64_t> channels = {};
  std::vector<AnyTransformConfig> transforms = {};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field(
        "path", self.path,
        "folder with one folder of slides (at any depth) for each class; or a list of slides as "
        "format list takes it: CSV (path,label,mask) or .jsonl",
        {.required = true});
    v.field("root", self.root, "folder that paths of a list start from; default: that of the list");
    v.field("tile_size", self.tile_size, "side of a tile",
            {.min = 1, .max = 8192, .unit = "pixels"});
    v.field("tiles", self.tiles, "tiles of each slide in an epoch", {.min = 1, .unit = "tiles"});
    v.field("level", self.level,
            "level of the pyramid that tiles are cut from; default: 0, or what mpp says",
            {.min = 0});
    v.field("mpp", self.mpp,
            "microns a pixel of tiles; where no level has them, the next finer one is shrunk",
            {.min = 0, .exclusive_min = true});
    v.field("tissue", self.tissue,
            "draw tiles whose middle is tissue: where the saturation is above Otsu's threshold on "
            "the slide's smallest level; false: anywhere on the slide");
    v.field("open_slides", self.open_slides,
            "slides that are kept open; OpenSlide keeps up to 32 MiB of pixels of each",
            {.min = 1, .max = 4096, .unit = "slides"});
    v.field("class_names", self.class_names, "names of the classes, in label order");
    v.field("num_classes", self.num_classes,
            "number of classes of a list; default: that of class_names, else largest label + 1",
            {.min = 1, .max = kMaxClasses});
    v.field("ignored_class", self.ignored_class, "value in masks that stands for no class",
            {.min = 0, .max = 255});
  }
  void validate(ConfigIssues& issues) const;
};

// Sample i is a tile of slide i / tiles, at a place drawn from Sample::random, without one from the
// sample's number. Lists the slides; each is opened, and its tissue found, when a tile of it is
// first asked for. Throws DataError and ConfigError as the folder and list formats do.
std::shared_ptr<const Dataset> build_slides_dataset(
    const SlidesConfig& config, EmptyClasses empty_classes = EmptyClasses::kRefused);

}  // namespace fovea::data
