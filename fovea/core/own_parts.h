// Parts of a recipe that come from outside of this library, by the names under which a program has
// registered them.
#pragma once

#include <fmt/ranges.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/core/error.h"

namespace fovea {

template <class Part>
class OwnParts {
 public:
  // A name that is there already stands for this one from now on.
  void add(const std::string& name, Part part) { parts_.insert_or_assign(name, std::move(part)); }

  // key: of the recipe, in front of the message; registers: Python's function that does. Throws
  // ConfigError: nobody has registered the name.
  const Part& find(const std::string& name, std::string_view key,
                   std::string_view registers) const {
    if (const auto found = parts_.find(name); found != parts_.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [known, part] : parts_) names.push_back(known);
    fail<ConfigError>(
        "{}: found '{}', but this program has registered {}; expected one of these. The program "
        "fovea knows none: train with fovea.train in a Python that calls {}(\"{}\")",
        key, name, names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")), registers,
        name);
  }

 private:
  std::map<std::string, Part> parts_;
};

}  // namespace fovea
