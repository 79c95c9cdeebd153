// Data sets from outside of this library: once registered, a recipe names one with `format: own`.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/data/dataset.h"
#include "fovea/data/transforms/any_transform.h"

namespace fovea::data {

struct OwnDatasetConfig {
  static constexpr std::string_view kName = "own";
  std::string dataset = {};
  std::vector<int64_t> channels = {};
  std::vector<AnyTransformConfig> transforms = {};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("dataset", self.dataset,
            "name that the program which reads the recipe has given it: fovea.register_dataset in "
            "Python, data::register_dataset in C++",
            {.required = true});
  }
};

using OpenDataset = std::function<std::shared_ptr<const Dataset>()>;

// To be called before a recipe is read, from one thread. A name that is there already stands for
// this one from now on.
void register_dataset(const std::string& name, OpenDataset open);

// Throws ConfigError: nobody has registered the name.
std::shared_ptr<const Dataset> build_own_dataset(const OwnDatasetConfig& config);

}  // namespace fovea::data
