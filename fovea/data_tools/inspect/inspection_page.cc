#include "fovea/data_tools/inspect/inspection_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "fovea/core/error.h"
#include "fovea/core/write_error.h"
#include "fovea/data_tools/inspect/inspection_text.h"
#include "fovea/data_tools/inspect/size_histogram.h"
#include "fovea/data_tools/picture_markup.h"
#include "fovea/files/atomic_file.h"
#include "fovea/files/file_endings.h"
#include "fovea/html/html.h"

namespace fovea::data {
namespace {

constexpr size_t kMostDamagedListed = 1000;
constexpr size_t kMostClassRows = 5000;

html::Markup note_markup(const std::string& words) {
  return html::element("p", {{"class", "note"}}, html::text(words));
}

html::Markup headline_figures(const Inspection& inspection) {
  std::vector<html::Figure> list;
  const auto add = [&](const std::string& label, int64_t value) {
    list.push_back({label, count_text(value)});
  };
  int64_t damaged = 0;
  size_t classes = 0;
  for (const auto& set : inspection.sets) {
    add(set_title(set) + " samples", set.statistics.samples);
    damaged += static_cast<int64_t>(set.statistics.damaged.size());
    classes =
        std::max({classes, set.statistics.class_counts.size(), set.statistics.voxel_counts.size()});
  }
  if (classes > 0) add("classes", static_cast<int64_t>(classes));
  add("unreadable", damaged);
  const auto& duplicates = inspection.duplicates;
  if (duplicates.sections.size() == 2) {
    add(fmt::format("{} samples in {} too", duplicates.sections[1].section,
                    duplicates.sections[0].section),
        duplicates.shared_samples);
  }
  for (const auto& one : duplicates.sections) {
    add(one.section.empty() ? "copies" : "copies within " + one.section, one.copies);
  }
  return html::figures(list);
}

html::Markup sets_markup(const Inspection& inspection) {
  html::Markup tables;
  for (const auto& set : inspection.sets) {
    html::Table facts{.caption = set_title(set), .headers = {}, .rows = {}, .num_text_columns = 2};
    for (const auto& [name, value] : set_facts(set)) {
      facts.rows.push_back({html::text(name), name == "normalize"
                                                  ? html::element("code", html::text(value))
                                                  : html::text(value)});
    }
    tables += html::table(facts);
  }
  return html::section("sets", "Data sets", tables);
}

html::Markup count_cell(int64_t count, int64_t most) {
  const double share =
      most > 0 ? 100.0 * static_cast<double>(count) / static_cast<double>(most) : 0;
  const auto filled = html::element("i", {{"style", fmt::format("width:{:.0f}%", share)}}, {});
  return html::element("span", {{"class", "bar"}}, filled) + html::text(count_text(count));
}

// Counts of every class in every set: labels, or voxels of masks.
html::Markup counts_markup(const Inspection& inspection, bool is_mask) {
  const auto counts_of = [&](const InspectedSet& set) -> const std::vector<int64_t>& {
    return is_mask ? set.statistics.voxel_counts : set.statistics.class_counts;
  };
  size_t num_classes = 0;
  int64_t sum = 0;
  std::vector<int64_t> most;
  for (const auto& set : inspection.sets) {
    num_classes = std::max(num_classes, counts_of(set).size());
    most.push_back(0);
    for (const int64_t count : counts_of(set)) {
      most.back() = std::max(most.back(), count);
      sum += count;
    }
  }
  if (sum == 0) return {};
  html::Table out{.caption = is_mask ? "Voxels of each class in the masks, and samples that have it"
                                     : "Samples of each class",
                  .headers = {"class"},
                  .rows = {}};
  for (const auto& set : inspection.sets) {
    out.headers.push_back(set_title(set));
    if (is_mask) out.headers.push_back(set_title(set) + ", samples");
  }
  const Dataset& first = *inspection.sets.front().dataset;
  for (size_t c = 0; c < std::min(num_classes, kMostClassRows); ++c) {
    std::vector<html::Markup> row = {html::text(class_name_of(first, static_cast<int64_t>(c)))};
    for (size_t s = 0; s < inspection.sets.size(); ++s) {
      const auto& set = inspection.sets[s];
      const int64_t count = c < counts_of(set).size() ? counts_of(set)[c] : 0;
      row.push_back(count_cell(count, most[s]));
      if (!is_mask) continue;
      const auto& samples = set.statistics.samples_with;
      row.push_back(html::text(count_text(c < samples.size() ? samples[c] : 0)));
    }
    out.rows.push_back(std::move(row));
  }
  return html::table(out);
}

html::Markup classes_markup(const Inspection& inspection) {
  const auto tables = counts_markup(inspection, false) + counts_markup(inspection, true);
  return tables.empty() ? tables : html::section("classes", "Classes", tables);
}

html::Markup sizes_markup(const Inspection& inspection) {
  constexpr size_t kMostSizes = 20;
  html::Markup tables;
  for (const auto& set : inspection.sets) {
    const auto& sizes = set.statistics.sizes;
    if (sizes.size() < 2) continue;
    std::vector<std::pair<Extent, int64_t>> ordered(sizes.begin(), sizes.end());
    std::stable_sort(ordered.begin(), ordered.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    const bool is_cut = ordered.size() > kMostSizes;
    if (is_cut) ordered.resize(kMostSizes);
    html::Table out{
        .caption =
            fmt::format("{}: sizes of samples{}", set_title(set),
                        is_cut ? fmt::format(", the most frequent of {}", sizes.size()) : ""),
        .headers = {set.statistics.form == SampleForm::kImage ? "height x width"
                                                              : "depth x height x width",
                    "samples"},
        .rows = {}};
    for (const auto& [size, count] : ordered) {
      out.rows.push_back({html::text(size_text(size, set.statistics.form)),
                          count_cell(count, ordered.front().second)});
    }
    tables += size_histograms(sizes, set_title(set)) + html::table(out);
  }
  return tables.empty() ? tables : html::section("sizes", "Sizes", tables);
}

html::Markup damaged_markup(const Inspection& inspection) {
  html::Markup tables;
  for (const auto& set : inspection.sets) {
    const auto& damaged = set.statistics.damaged;
    if (damaged.empty()) continue;
    const size_t shown = std::min(damaged.size(), kMostDamagedListed);
    html::Table out{.caption = fmt::format("{}: {} that cannot be read{}", set_title(set),
                                           count_text(std::ssize(damaged)),
                                           shown < damaged.size() ? ", the first ones" : ""),
                    .headers = {"index", "why"},
                    .rows = {},
                    .num_text_columns = 2};
    for (size_t i = 0; i < shown; ++i) {
      out.rows.push_back(
          {html::text(std::to_string(damaged[i].index)), html::text(printable(damaged[i].reason))});
    }
    tables += html::table(out);
  }
  return tables.empty() ? tables : html::section("unreadable", "Unreadable samples", tables);
}

html::Markup duplicates_markup(const Inspection& inspection) {
  html::Markup lines;
  for (const auto& line : duplicate_lines(inspection))
    lines += html::element("li", html::text(line));
  auto body = note_markup("Samples whose decoded pixels are the same, found by their checksums.") +
              html::element("ul", lines);
  const auto& groups = inspection.duplicates.groups;
  if (!groups.empty()) {
    html::Table out{.caption = "The first ones", .headers = {"samples", "same pixels"}, .rows = {}};
    out.num_text_columns = 2;
    for (const auto& group : groups) {
      out.rows.push_back(
          {html::text(count_text(group.size)), html::text(group_text(inspection, group))});
    }
    body += html::table(out);
  }
  return html::section("duplicates", "Duplicates", body);
}

html::Markup card(const CaptionedPicture& one, bool is_exact) {
  html::Markup body = html::element("div", {{"class", "verdict"}}, html::text(one.caption));
  if (!one.note.empty()) body += html::element("small", html::text(one.note));
  return html::element("li", {{"class", "sample"}},
                       picture_markup(one.picture, one.caption, is_exact) +
                           html::element("div", {{"class", "body"}}, body));
}

// Colours of the classes that masks are shown with.
html::Markup mask_legend(const Inspection& inspection) {
  const InspectedSet& first = inspection.sets.front();
  const auto num_classes = static_cast<int64_t>(first.statistics.voxel_counts.size());
  html::Markup items;
  for (int64_t c = 1; c < std::min<int64_t>(num_classes, 9); ++c) {
    items += html::element(
        "li", swatch_markup(class_color(c)) + html::text(class_name_of(*first.dataset, c)));
  }
  return items.empty() ? items : html::element("ul", {{"class", "legend"}}, items);
}

html::Markup samples_markup(const Inspection& inspection) {
  html::Markup body = mask_legend(inspection);
  for (const auto& sheet : inspection.samples) {
    if (sheet.pictures.empty()) continue;
    if (!sheet.title.empty()) body += html::element("h3", html::text(sheet.title));
    int64_t widest = 0;
    html::Markup cards;
    for (const auto& one : sheet.pictures) {
      widest = std::max(widest, one.picture.width);
      cards += card(one, false);
    }
    const bool is_wide = widest > 200;  // volumes: three slices side by side
    body += html::element("ul", {{"class", is_wide ? "samples wide" : "samples"}}, cards);
  }
  return body.empty() ? body : html::section("samples", "Samples as they are stored", body);
}

html::Markup augmented_markup(const Inspection& inspection) {
  if (!inspection.augmented || inspection.augmented->pictures.empty()) return {};
  const PictureSheet& sheet = *inspection.augmented;
  auto body = note_markup(
      "A row is one sample: as it is stored, then as the model gets it in one epoch after the "
      "other, "
      "with normalisation undone.");
  const auto columns = static_cast<size_t>(sheet.columns);
  html::Markup heads = html::element("span", html::text("stored"));
  for (size_t i = 1; i < columns; ++i)
    heads += html::element("span", html::text(sheet.pictures[i].caption));
  body += html::element("div", {{"class", "strip"}}, heads);
  for (size_t first = 0; first + columns <= sheet.pictures.size(); first += columns) {
    html::Markup row;
    for (size_t i = 0; i < columns; ++i) {
      const auto& one = sheet.pictures[first + i];
      row += picture_markup(one.picture, one.caption, false);
    }
    body += html::element("div", {{"class", "strip"}}, row);
    body += html::element("small", html::text(sheet.pictures[first].caption));
  }
  return html::section("augmented", "Augmented samples", body);
}

html::Markup trees_markup(const Inspection& inspection) {
  if (!inspection.trees || inspection.trees->pictures.empty()) return {};
  html::Markup cards;
  for (const auto& one : inspection.trees->pictures) cards += card(one, true);
  return html::section("trees", "Adaptive patches",
                       html::element("ul", {{"class", "samples large"}}, cards));
}

void write_picture(const std::filesystem::path& path, const Image& picture,
                   std::vector<std::string>& written) {
  if (picture.pixels.empty()) {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
    return;
  }
  write_file_atomic(path.string(), png_text(picture));
  written.push_back(path.string());
}

}  // namespace

std::string inspection_page(const Inspection& inspection, const std::string& title) {
  html::Markup notes;
  for (const auto& note : inspection.notes)
    notes += html::element("p", {{"class", "warning"}}, html::text(note));
  const std::vector<html::PagePart> parts = {
      {"sets", "Data sets", sets_markup(inspection)},
      {"classes", "Classes", classes_markup(inspection)},
      {"sizes", "Sizes", sizes_markup(inspection)},
      {"unreadable", "Unreadable samples", damaged_markup(inspection)},
      {"duplicates", "Duplicates", duplicates_markup(inspection)},
      {"samples", "Samples", samples_markup(inspection)},
      {"augmented", "Augmented samples", augmented_markup(inspection)},
      {"trees", "Adaptive patches", trees_markup(inspection)}};
  return html::page(
      title + " \xE2\x80\x93 fovea data inspect",
      html::body_of_parts(title, "What is in the data", notes + headline_figures(inspection), parts,
                          "Written by fovea data inspect."));
}

std::vector<std::string> write_inspection(const Inspection& inspection, const std::string& title,
                                          const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    fail<WriteError>("{}: cannot be made ({}); give another folder with --out", folder,
                     error.message());
  std::vector<std::string> written = {(fs::path(folder) / "inspect.html").string()};
  write_file_atomic(written[0], inspection_page(inspection, title));
  std::vector<Image> sheets;
  for (const auto& sheet : inspection.samples) {
    if (!sheet.sheet.pixels.empty()) sheets.push_back(sheet.sheet);
  }
  const auto place = [&](const char* name) { return fs::path(folder) / name; };
  const auto sheet_of = [](const std::optional<PictureSheet>& one) {
    return one ? one->sheet : Image{};
  };
  write_picture(place("contact_sheet.png"), sheets.empty() ? Image{} : stack(sheets, {.gap = 12}),
                written);
  write_picture(place("augmented.png"), sheet_of(inspection.augmented), written);
  write_picture(place("tree.png"), sheet_of(inspection.trees), written);
  return written;
}

}  // namespace fovea::data
