// What an inspection found, as lines for a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/data_tools/inspect/inspection.h"

namespace fovea::data {

// "60,000"
std::string count_text(int64_t count);
// Its name, or "data".
std::string set_title(const InspectedSet& set);

// One fact about a set, as a terminal and a page both show it.
struct SetFact {
  std::string name;
  std::string value;
};
// Samples, form, channels, sizes, spacing, classes, moments: what applies to the set.
std::vector<SetFact> set_facts(const InspectedSet& set);

// A sentence for each thing that is the same in several samples, or that there is nothing.
std::vector<std::string> duplicate_lines(const Inspection& inspection);

// "train: folder/a.png (cat) = val: folder/b.png (cat)".
std::string group_text(const Inspection& inspection, const DuplicateGroup& group);

// All of it; max_listed: how many damaged samples, pairs and classes are named.
std::string inspection_text(const Inspection& inspection, int64_t max_listed = 20);

}  // namespace fovea::data
