// Images in one flat folder whose names begin with their class: cat.0.jpg, dog.17.jpg.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/data/dataset.h"
#include "fovea/data/transforms/any_transform.h"

namespace fovea::data {

struct CatsdogsConfig {
  static constexpr std::string_view kName = "catsdogs";
  std::string path = {};
  std::vector<std::string> class_names = {};
  std::vector<int64_t> channels = {};
  std::vector<AnyTransformConfig> transforms = {};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("path", self.path, "folder of images; the class is the name up to the first dot",
            {.required = true});
    v.field("class_names", self.class_names,
            "the classes, in label order; default: all that there are, sorted by name");
  }
};

// Order of the images: by name. Throws DataError: no such folder, no images, an image of no class.
std::shared_ptr<const Dataset> build_catsdogs_dataset(const CatsdogsConfig& config);

}  // namespace fovea::data
