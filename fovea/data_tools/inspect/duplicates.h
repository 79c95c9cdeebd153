// Samples with exactly the same pixels, within a section and in both: what is in the training set
// should not be in the validation set.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fovea/data_tools/inspect/statistics.h"

namespace fovea::data {

// One set of a section ("train", "val", or another name; a mix has several sets in a section).
struct HashedSet {
  std::string section;
  const std::vector<SampleRecord>* records = nullptr;
};

struct SampleRef {
  size_t set = 0;
  int64_t index = 0;
  int64_t label = -1;
  bool operator==(const SampleRef&) const = default;
};

// Samples with the same pixels.
struct DuplicateGroup {
  std::vector<SampleRef> samples;  // by set and index; of each section the first ones
  int64_t size = 0;
  bool is_shared = false;           // in both sections
  bool has_several_labels = false;  // the same pixels under different labels
  static constexpr int64_t kMostOfSection = 4;
};

struct SectionDuplicates {
  std::string section;
  int64_t groups = 0;                          // pictures that are there more than once
  int64_t copies = 0;                          // samples beyond the first of each group
  std::map<int64_t, int64_t> copies_of_class;  // label -> those of them with this label
};

struct DuplicateReport {
  std::vector<SectionDuplicates> sections;  // in the order of the sets
  // Samples of the second section whose pixels are in the first one too.
  int64_t shared_samples = 0;
  std::map<int64_t, int64_t> shared_of_class;  // label -> those of them with this label
  int64_t groups_with_several_labels = 0;
  // The first ones: shared ones before others, by their first sample.
  std::vector<DuplicateGroup> groups;
};

// max_groups: how many groups are listed; counts are of all. Throws Error for more than two
// sections.
DuplicateReport find_duplicates(const std::vector<HashedSet>& sets, size_t max_groups = 100);

}  // namespace fovea::data
