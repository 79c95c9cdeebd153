#include "fovea/data/datasets/own.h"

#include <utility>

#include "fovea/core/own_parts.h"

namespace fovea::data {
namespace {

OwnParts<OpenDataset>& own_datasets() {
  static OwnParts<OpenDataset> all;
  return all;
}

}  // namespace

void register_dataset(const std::string& name, OpenDataset open) {
  own_datasets().add(name, std::move(open));
}

std::shared_ptr<const Dataset> build_own_dataset(const OwnDatasetConfig& config) {
  return own_datasets().find(config.dataset, "format: own, dataset", "fovea.register_dataset")();
}

}  // namespace fovea::data
