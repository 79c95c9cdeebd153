#include "fovea/config/any_of.h"

#include <algorithm>
#include <string>

#include "fovea/core/error.h"

namespace fovea::detail {
namespace {

const ConfigAlternativeEntry& entry_of(const ConfigAlternatives& all, const std::type_info& type) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& entry) { return *entry.type == type; });
  FOVEA_CHECK(found != all.end(), "{} is none of the {} alternatives from {} on", type.name(),
              all.size(), all.front().name);
  return *found;
}

}  // namespace

AnyConfig::AnyConfig(const ConfigAlternatives& all) : all_(&all), held_(all.front().make()) {}

AnyConfig::AnyConfig(const ConfigAlternatives& all, const std::type_info& type)
    : all_(&all), held_(entry_of(all, type).make()) {}

AnyConfig::AnyConfig(const AnyConfig& other)
    : all_(other.all_), held_(other.held_ ? other.held_->clone() : nullptr) {}

AnyConfig& AnyConfig::operator=(const AnyConfig& other) { return *this = AnyConfig(other); }

void AnyConfig::select(size_t index) { held_ = all_->at(index).make(); }

std::vector<std::string> BoundAnyConfig::names() const {
  std::vector<std::string> names;
  for (const auto& entry : target.all()) names.emplace_back(entry.name);
  return names;
}

size_t BoundAnyConfig::index() const {
  const auto& all = target.all();
  return static_cast<size_t>(&entry_of(all, target.held().type()) - all.data());
}

ConfigPrototype BoundAnyConfig::prototype(size_t index) const {
  std::shared_ptr<ConfigAlternative> value = target.all().at(index).make();
  auto binding = value->bind();
  return {std::move(value), std::move(binding)};
}

}  // namespace fovea::detail
