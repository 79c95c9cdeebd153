#include "fovea/data/datasets/own.h"

#include <fmt/ranges.h>

#include <map>
#include <utility>

#include "fovea/core/error.h"

namespace fovea::data {
namespace {

std::map<std::string, OpenDataset>& own_datasets() {
  static std::map<std::string, OpenDataset> all;
  return all;
}

}  // namespace

void register_dataset(const std::string& name, OpenDataset open) {
  own_datasets().insert_or_assign(name, std::move(open));
}

std::shared_ptr<const Dataset> build_own_dataset(const OwnDatasetConfig& config) {
  const auto found = own_datasets().find(config.dataset);
  if (found != own_datasets().end()) return found->second();
  std::vector<std::string> names;
  for (const auto& [name, open] : own_datasets()) names.push_back(name);
  fail<ConfigError>(
      "format: own, dataset: found '{}', but this program has registered {}; expected one of "
      "these. "
      "The program fovea knows none: train with fovea.train in a Python that calls "
      "fovea.register_dataset(\"{}\")",
      config.dataset, names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")),
      config.dataset);
}

}  // namespace fovea::data
