#include "fovea/data_tools/inspect/duplicates.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "fovea/core/error.h"

namespace fovea::data {
namespace {

struct HashedSample {
  uint64_t hash;
  SampleRef ref;
};

class DuplicateFinder {
 public:
  DuplicateFinder(const std::vector<HashedSet>& sets, size_t max_groups) : max_groups_(max_groups) {
    size_t total = 0;
    for (const HashedSet& set : sets) {
      section_of_.push_back(section_number(set.section));
      total += set.records->size();
    }
    samples_.reserve(total);
    for (size_t set = 0; set < sets.size(); ++set) {
      for (const SampleRecord& record : *sets[set].records) {
        samples_.push_back({record.hash, {set, record.index, record.label}});
      }
    }
    std::sort(samples_.begin(), samples_.end(), [](const auto& a, const auto& b) {
      return std::tie(a.hash, a.ref.set, a.ref.index) < std::tie(b.hash, b.ref.set, b.ref.index);
    });
  }

  DuplicateReport run() {
    for (size_t first = 0, last; first < samples_.size(); first = last) {
      last = first + 1;
      while (last < samples_.size() && samples_[last].hash == samples_[first].hash) ++last;
      if (last - first > 1) add_group(first, last);
    }
    std::sort(report_.groups.begin(), report_.groups.end(), comes_first);
    if (report_.groups.size() > max_groups_) report_.groups.resize(max_groups_);
    return std::move(report_);
  }

 private:
  size_t section_number(const std::string& name) {
    auto& sections = report_.sections;
    const auto found = std::find_if(sections.begin(), sections.end(),
                                    [&](const auto& one) { return one.section == name; });
    if (found != sections.end()) return static_cast<size_t>(found - sections.begin());
    FOVEA_CHECK(sections.size() < 2, "a third section {}; expected two", name);
    sections.push_back({name, 0, 0, {}});
    return sections.size() - 1;
  }

  static bool comes_first(const DuplicateGroup& a, const DuplicateGroup& b) {
    if (a.is_shared != b.is_shared) return a.is_shared;
    const SampleRef &x = a.samples[0], &y = b.samples[0];
    return std::tie(x.set, x.index) < std::tie(y.set, y.index);
  }

  void add_group(size_t first, size_t last) {
    DuplicateGroup group;
    group.size = static_cast<int64_t>(last - first);
    std::array<int64_t, 2> members = {};
    for (size_t i = first; i < last; ++i) {
      const SampleRef& ref = samples_[i].ref;
      const size_t section = section_of_[ref.set];
      if (members[section]++ > 0) {
        ++report_.sections[section].copies;
        ++report_.sections[section].copies_of_class[ref.label];
      }
      group.has_several_labels |= ref.label != samples_[first].ref.label;
      if (members[section] <= DuplicateGroup::kMostOfSection) group.samples.push_back(ref);
    }
    group.is_shared = members[0] > 0 && members[1] > 0;
    if (group.is_shared) count_shared(first, last);
    for (size_t s = 0; s < report_.sections.size(); ++s) {
      report_.sections[s].groups += members[s] > 1 ? 1 : 0;
    }
    report_.groups_with_several_labels += group.has_several_labels ? 1 : 0;
    report_.groups.push_back(std::move(group));
    // Twice the limit, then cut: memory stays small where everything is there twice.
    if (report_.groups.size() > 2 * max_groups_ + 1024) trim();
  }

  void count_shared(size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      const SampleRef& ref = samples_[i].ref;
      if (section_of_[ref.set] != 1) continue;
      ++report_.shared_samples;
      ++report_.shared_of_class[ref.label];
    }
  }

  void trim() {
    auto& groups = report_.groups;
    const auto end = groups.begin() + static_cast<std::ptrdiff_t>(max_groups_);
    std::nth_element(groups.begin(), end, groups.end(), comes_first);
    groups.erase(end, groups.end());
  }

  size_t max_groups_;
  std::vector<size_t> section_of_;  // [sets]
  std::vector<HashedSample> samples_;
  DuplicateReport report_;
};

}  // namespace

DuplicateReport find_duplicates(const std::vector<HashedSet>& sets, size_t max_groups) {
  return DuplicateFinder(sets, max_groups).run();
}

}  // namespace fovea::data
