// CIFAR-10 and CIFAR-100 in their Python form: pickles in cifar-10-python.tar.gz or
// cifar-100-python.tar.gz, read as data; nothing in them runs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/data/dataset.h"
#include "fovea/data/transforms/any_transform.h"

namespace fovea::data {

struct CifarPythonConfig {
  static constexpr std::string_view kName = "cifar_python";
  std::string path = {};
  std::string split = "train";
  std::string labels = "fine";
  std::vector<int64_t> channels = {};
  std::vector<AnyTransformConfig> transforms = {};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("path", self.path,
            "cifar-10-python.tar.gz or cifar-100-python.tar.gz, or the folder that holds it or "
            "into which it was unpacked",
            {.required = true});
    v.field("split", self.split, "which of the two sets", {.choices = {"train", "test"}});
    v.field("labels", self.labels, "of CIFAR-100: 100 fine or 20 coarse classes",
            {.choices = {"fine", "coarse"}});
  }
};

// Throws DataError: no such files, a damaged archive, links in it, a pickle that holds more than
// data, arrays and labels that do not fit.
std::shared_ptr<const Dataset> build_cifar_python_dataset(const CifarPythonConfig& config);

}  // namespace fovea::data
