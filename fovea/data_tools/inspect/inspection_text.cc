#include "fovea/data_tools/inspect/inspection_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "fovea/core/number_text.h"
#include "fovea/core/utf8.h"
#include "fovea/files/file_endings.h"

namespace fovea::data {
namespace {

constexpr size_t kMissingNamed = 10;

std::string plural(int64_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count_text(count), count == 1 ? one : many);
}

std::string size_fact(const SetStatistics& statistics) {
  const auto [smallest, median, largest] = summarize_sizes(statistics.sizes);
  if (smallest == largest && statistics.sizes.size() == 1) {
    return size_text(smallest, statistics.form) + ", all";
  }
  return fmt::format("smallest {}, median {}, largest {}; {} sizes",
                     size_text(smallest, statistics.form), size_text(median, statistics.form),
                     size_text(largest, statistics.form),
                     count_text(static_cast<int64_t>(statistics.sizes.size())));
}

std::string channel_fact(const SetStatistics& statistics) {
  std::vector<std::string> parts;
  for (const auto& [channels, count] : statistics.channels) {
    parts.push_back(statistics.channels.size() == 1
                        ? fmt::format("{}", channels)
                        : fmt::format("{} ({})", channels, plural(count, "sample", "samples")));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string spacing_fact(const SetStatistics& statistics) {
  const auto first = statistics.spacings.begin()->first;
  auto least = first, most = first;
  for (const auto& [spacing, count] : statistics.spacings) {
    for (size_t i = 0; i < 3; ++i) {
      least[i] = std::min(least[i], spacing[i]);
      most[i] = std::max(most[i], spacing[i]);
    }
  }
  std::vector<std::string> sides;
  for (size_t i = 0; i < 3; ++i) {
    sides.push_back(least[i] == most[i] ? fmt::format("{:.4g}", least[i])
                                        : fmt::format("({:.4g} to {:.4g})", least[i], most[i]));
  }
  return fmt::format("{} mm", fmt::join(sides, " x "));
}

// Counts by class: of labels, or of voxels where there are masks.
std::string class_fact(const InspectedSet& set, const std::vector<int64_t>& counts,
                       const char* unit) {
  const auto num_classes = static_cast<int64_t>(counts.size());
  std::vector<std::string> missing;
  for (int64_t c = 0; c < num_classes; ++c) {
    if (counts[static_cast<size_t>(c)] == 0) missing.push_back(class_name_of(*set.dataset, c));
  }
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  const auto named = [&](auto place) {
    return fmt::format("{} ({} {})", class_name_of(*set.dataset, place - counts.begin()),
                       count_text(*place), unit);
  };
  std::string text = count_text(num_classes);
  if (*least == *most) {
    text += fmt::format(", {} {} each", count_text(*most), unit);
  } else {
    text += fmt::format(", largest {}, smallest {}", named(most), named(least));
  }
  if (missing.empty()) return text + ", none missing";
  const size_t shown = std::min(missing.size(), kMissingNamed);
  text +=
      fmt::format(", {} missing: {}", missing.size(),
                  fmt::join(missing.begin(), missing.begin() + static_cast<int64_t>(shown), ", "));
  return shown < missing.size() ? text + ", ..." : text;
}

std::string range_fact(const SetStatistics& statistics) {
  std::vector<std::string> parts;
  for (const ChannelMoments& channel : statistics.moments) {
    parts.push_back(fmt::format("[{:.4g}, {:.4g}]", channel.least, channel.most));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string section_title(const std::string& name) { return name.empty() ? "the data" : name; }

std::string by_class_text(const Inspection& inspection, const std::string& section,
                          const std::map<int64_t, int64_t>& counts) {
  const auto set = std::find_if(inspection.sets.begin(), inspection.sets.end(),
                                [&](const auto& one) { return one.section == section; });
  std::vector<std::pair<int64_t, int64_t>> ordered(counts.begin(), counts.end());
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> parts;
  for (const auto& [label, count] : ordered) {
    if (label < 0) continue;
    if (parts.size() == kMissingNamed) {
      parts.push_back("...");
      break;
    }
    parts.push_back(fmt::format("{} {}", class_name_of(*set->dataset, label), count_text(count)));
  }
  return parts.empty() ? "" : fmt::format(" ({})", fmt::join(parts, ", "));
}

// Columns of text that people see, not bytes; names of classes may be in any script.
size_t width_of(std::string_view text) {
  size_t width = 0;
  while (!text.empty()) {
    text.remove_prefix(std::max<size_t>(utf8_length(text), 1));
    ++width;
  }
  return width;
}

std::string padded(const std::string& text, size_t width) {
  const size_t used = width_of(text);
  return text + std::string(used < width ? width - used : 0, ' ');
}

// A row for each class with its count in every set. Of many classes the largest and the smallest of
// the first set.
std::string class_table(const Inspection& inspection, int64_t max_listed) {
  size_t num_classes = 0;
  for (const auto& set : inspection.sets) {
    num_classes = std::max(num_classes, set.statistics.class_counts.size());
  }
  const auto& first = inspection.sets.front();
  if (num_classes == 0 || first.statistics.unlabelled == first.statistics.inspected) return {};
  std::vector<size_t> order(num_classes);
  std::iota(order.begin(), order.end(), size_t{0});
  const auto count = [](const InspectedSet& set, size_t label) {
    const auto& counts = set.statistics.class_counts;
    return label < counts.size() ? counts[label] : 0;
  };
  const auto limit = static_cast<size_t>(max_listed);
  const bool is_cut = num_classes > limit;
  if (is_cut) {
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return count(first, a) > count(first, b); });
    order.erase(order.begin() + static_cast<int64_t>(limit / 2),
                order.end() - static_cast<int64_t>(limit / 2));
  }
  size_t width = 5;
  for (const size_t c : order) {
    width = std::max(width, width_of(class_name_of(*first.dataset, static_cast<int64_t>(c))));
  }
  std::string text = fmt::format("\n{}", padded("class", width));
  for (const auto& set : inspection.sets) text += fmt::format("  {:>12}", set_title(set));
  text += "\n";
  for (size_t i = 0; i < order.size(); ++i) {
    if (is_cut && i == order.size() / 2) text += "...\n";
    text += padded(class_name_of(*first.dataset, static_cast<int64_t>(order[i])), width);
    for (const auto& set : inspection.sets) {
      text += fmt::format("  {:>12}", count_text(count(set, order[i])));
    }
    text += "\n";
  }
  return text;
}

std::string damaged_text(const InspectedSet& set, int64_t max_listed) {
  const auto& damaged = set.statistics.damaged;
  if (damaged.empty()) return {};
  std::string text = fmt::format("\n{}: {} cannot be read\n", set_title(set),
                                 plural(static_cast<int64_t>(damaged.size()), "sample", "samples"));
  const auto shown = std::min(damaged.size(), static_cast<size_t>(max_listed));
  for (size_t i = 0; i < shown; ++i) {
    text += fmt::format("  [{}] {}\n", damaged[i].index, printable(damaged[i].reason));
  }
  if (shown < damaged.size()) text += fmt::format("  ... and {} more\n", damaged.size() - shown);
  return text;
}

}  // namespace

std::string count_text(int64_t count) { return format_count(static_cast<double>(count)); }

std::string set_title(const InspectedSet& set) { return set.name.empty() ? "data" : set.name; }

std::vector<SetFact> set_facts(const InspectedSet& set) {
  const SetStatistics& statistics = set.statistics;
  const bool is_volume = statistics.form == SampleForm::kVolume;
  std::vector<SetFact> facts;
  auto samples =
      plural(statistics.samples, is_volume ? "volume" : "image", is_volume ? "volumes" : "images");
  if (statistics.is_subset()) {
    samples += fmt::format("; all numbers are of {} of them, evenly spread",
                           count_text(statistics.inspected));
  }
  facts.push_back({"samples", samples});
  facts.push_back({"unreadable", count_text(static_cast<int64_t>(statistics.damaged.size()))});
  if (statistics.records.empty()) return facts;
  facts.push_back({"channels", channel_fact(statistics)});
  facts.push_back({"sizes", size_fact(statistics)});
  if (is_volume) facts.push_back({"spacing", spacing_fact(statistics)});
  const auto labelled = static_cast<int64_t>(statistics.records.size()) - statistics.unlabelled;
  if (labelled > 0 && !statistics.class_counts.empty()) {
    auto text = class_fact(set, statistics.class_counts, "samples");
    if (statistics.unlabelled > 0) {
      text +=
          fmt::format("; {} without a label", plural(statistics.unlabelled, "sample", "samples"));
    }
    facts.push_back({"classes", text});
  }
  if (!statistics.voxel_counts.empty()) {
    facts.push_back(
        {"mask", class_fact(set, statistics.voxel_counts, is_volume ? "voxels" : "pixels")});
  }
  if (is_volume) facts.push_back({"values", range_fact(statistics)});
  facts.push_back({"normalize", normalize_line(statistics)});
  return facts;
}

std::vector<std::string> duplicate_lines(const Inspection& inspection) {
  const DuplicateReport& report = inspection.duplicates;
  std::vector<std::string> lines;
  if (report.sections.size() == 2) {
    const auto& known = report.sections[0].section;
    const auto& other = report.sections[1].section;
    lines.push_back(report.shared_samples == 0
                        ? fmt::format("no sample of {} is in {} too", other, known)
                        : fmt::format("{} of {} {} in {} too{}",
                                      plural(report.shared_samples, "sample", "samples"), other,
                                      report.shared_samples == 1 ? "is" : "are", known,
                                      by_class_text(inspection, other, report.shared_of_class)));
  }
  for (const auto& one : report.sections) {
    const auto title = section_title(one.section);
    lines.push_back(one.copies == 0
                        ? fmt::format("no sample is in {} twice", title)
                        : fmt::format("{} more than once in {}, with {} too many{}",
                                      plural(one.groups, "sample is", "samples are"), title,
                                      plural(one.copies, "copy", "copies"),
                                      by_class_text(inspection, one.section, one.copies_of_class)));
  }
  if (report.groups_with_several_labels > 0) {
    lines.push_back(
        fmt::format("{} under several labels",
                    plural(report.groups_with_several_labels, "sample stands", "samples stand")));
  }
  return lines;
}

std::string group_text(const Inspection& inspection, const DuplicateGroup& group) {
  std::vector<std::string> parts;
  for (const SampleRef& ref : group.samples) {
    const InspectedSet& set = inspection.sets[ref.set];
    const auto name = printable(set.dataset->describe(ref.index));
    auto part = set.name.empty() ? name : fmt::format("{}: {}", set.name, name);
    if (ref.label >= 0) part += fmt::format(" ({})", class_name_of(*set.dataset, ref.label));
    parts.push_back(part);
  }
  const auto left = group.size - static_cast<int64_t>(group.samples.size());
  if (left > 0) parts.push_back(fmt::format("{} more", count_text(left)));
  return fmt::format("{}", fmt::join(parts, " = "));
}

std::string inspection_text(const Inspection& inspection, int64_t max_listed) {
  std::string text;
  for (const auto& set : inspection.sets) {
    text += fmt::format("{}{}\n", text.empty() ? "" : "\n", set_title(set));
    for (const auto& [name, value] : set_facts(set))
      text += fmt::format("  {:<11} {}\n", name, value);
  }
  text += class_table(inspection, max_listed);
  text += "\nduplicates (samples with the same pixels)\n";
  for (const auto& line : duplicate_lines(inspection)) text += "  " + line + "\n";
  const auto& groups = inspection.duplicates.groups;
  const auto shown = std::min(groups.size(), static_cast<size_t>(max_listed) / 2);
  for (size_t i = 0; i < shown; ++i) {
    text += fmt::format("    {}\n", group_text(inspection, groups[i]));
  }
  if (shown < groups.size()) text += "    ... more in inspect.html\n";
  for (const auto& set : inspection.sets) text += damaged_text(set, max_listed);
  for (const auto& note : inspection.notes) text += fmt::format("\nnote: {}\n", note);
  return text;
}

}  // namespace fovea::data
