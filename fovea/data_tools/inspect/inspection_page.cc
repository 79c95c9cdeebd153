#include "fovea/data_tools/inspect/inspection_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "fovea/core/error.h"
#include "fovea/core/write_error.h"
#include "fovea/data/image/jpeg_encode.h"
#include "fovea/data/image/png.h"
#include "fovea/data_tools/inspect/inspection_text.h"
#include "fovea/data_tools/inspect/size_histogram.h"
#include "fovea/files/atomic_file.h"
#include "fovea/files/file_endings.h"
#include "fovea/html/html.h"

namespace fovea::data {
namespace {

constexpr size_t kMostDamagedListed = 1000;
constexpr int kPictureQuality = 88;
constexpr size_t kMostClassRows = 5000;

std::string_view chars(const std::vector<uint8_t>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// PNG where edges are hard: for trees, and where it is about as small as a JPEG, as of small
// pictures that were enlarged.
std::string picture_uri(const Image& picture, bool is_exact) {
  const auto png = encode_png(picture);
  std::vector<uint8_t> jpeg;
  if (!is_exact) encode_jpeg(ImageView(picture), kPictureQuality, jpeg);
  if (is_exact || png.size() < 2 * jpeg.size()) {
    return "data:image/png;base64," + base64_encode(chars(png));
  }
  return "data:image/jpeg;base64," + base64_encode(chars(jpeg));
}

Markup picture_markup(const Image& picture, const std::string& words, bool is_exact) {
  return void_element("img", {{"src", picture_uri(picture, is_exact)},
                              {"alt", words},
                              {"width", std::to_string(picture.width)},
                              {"height", std::to_string(picture.height)},
                              {"loading", "lazy"}});
}

std::string shown_title(const InspectedSet& set) { return set.name.empty() ? "data" : set.name; }

Markup note_markup(const std::string& words) {
  return element("p", {{"class", "note"}}, text(words));
}

Markup headline_figures(const Inspection& inspection) {
  std::vector<Figure> list;
  const auto add = [&](const std::string& label, int64_t value) {
    list.push_back({label, format_count(static_cast<double>(value))});
  };
  int64_t damaged = 0;
  size_t classes = 0;
  for (const auto& set : inspection.sets) {
    add(shown_title(set) + " samples", set.statistics.samples);
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
  return figures(list);
}

Markup sets_markup(const Inspection& inspection) {
  Markup tables;
  for (const auto& set : inspection.sets) {
    Table facts{.caption = shown_title(set), .headers = {}, .rows = {}, .num_text_columns = 2};
    for (const auto& [name, value] : set_facts(set)) {
      facts.rows.push_back(
          {text(name), name == "normalize" ? element("code", text(value)) : text(value)});
    }
    tables += table(facts);
  }
  return section("sets", "Data sets", tables);
}

Markup count_cell(int64_t count, int64_t most) {
  const double share =
      most > 0 ? 100.0 * static_cast<double>(count) / static_cast<double>(most) : 0;
  const auto filled = element("i", {{"style", fmt::format("width:{:.0f}%", share)}}, {});
  return element("span", {{"class", "bar"}}, filled) +
         text(format_count(static_cast<double>(count)));
}

// Counts of every class in every set: labels, or voxels of masks.
Markup counts_markup(const Inspection& inspection, bool is_mask) {
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
  Table out{.caption = is_mask ? "Voxels of each class in the masks, and samples that have it"
                               : "Samples of each class",
            .headers = {"class"},
            .rows = {}};
  for (const auto& set : inspection.sets) {
    out.headers.push_back(shown_title(set));
    if (is_mask) out.headers.push_back(shown_title(set) + ", samples");
  }
  const Dataset& first = *inspection.sets.front().dataset;
  for (size_t c = 0; c < std::min(num_classes, kMostClassRows); ++c) {
    std::vector<Markup> row = {text(class_name_of(first, static_cast<int64_t>(c)))};
    for (size_t s = 0; s < inspection.sets.size(); ++s) {
      const auto& set = inspection.sets[s];
      const int64_t count = c < counts_of(set).size() ? counts_of(set)[c] : 0;
      row.push_back(count_cell(count, most[s]));
      if (!is_mask) continue;
      const auto& samples = set.statistics.samples_with;
      row.push_back(text(format_count(static_cast<double>(c < samples.size() ? samples[c] : 0))));
    }
    out.rows.push_back(std::move(row));
  }
  return table(out);
}

Markup classes_markup(const Inspection& inspection) {
  const auto tables = counts_markup(inspection, false) + counts_markup(inspection, true);
  return tables.empty() ? tables : section("classes", "Classes", tables);
}

Markup sizes_markup(const Inspection& inspection) {
  constexpr size_t kMostSizes = 20;
  Markup tables;
  for (const auto& set : inspection.sets) {
    const auto& sizes = set.statistics.sizes;
    if (sizes.size() < 2) continue;
    std::vector<std::pair<Extent, int64_t>> ordered(sizes.begin(), sizes.end());
    std::stable_sort(ordered.begin(), ordered.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    const bool is_cut = ordered.size() > kMostSizes;
    if (is_cut) ordered.resize(kMostSizes);
    Table out{.caption =
                  fmt::format("{}: sizes of samples{}", shown_title(set),
                              is_cut ? fmt::format(", the most frequent of {}", sizes.size()) : ""),
              .headers = {set.statistics.form == SampleForm::kImage ? "height x width"
                                                                    : "depth x height x width",
                          "samples"},
              .rows = {}};
    for (const auto& [size, count] : ordered) {
      out.rows.push_back(
          {text(size_text(size, set.statistics.form)), count_cell(count, ordered.front().second)});
    }
    tables += size_histograms(sizes, shown_title(set)) + table(out);
  }
  return tables.empty() ? tables : section("sizes", "Sizes", tables);
}

Markup damaged_markup(const Inspection& inspection) {
  Markup tables;
  for (const auto& set : inspection.sets) {
    const auto& damaged = set.statistics.damaged;
    if (damaged.empty()) continue;
    const size_t shown = std::min(damaged.size(), kMostDamagedListed);
    Table out{.caption = fmt::format("{}: {} that cannot be read{}", shown_title(set),
                                     format_count(static_cast<double>(damaged.size())),
                                     shown < damaged.size() ? ", the first ones" : ""),
              .headers = {"index", "why"},
              .rows = {},
              .num_text_columns = 2};
    for (size_t i = 0; i < shown; ++i) {
      out.rows.push_back(
          {text(std::to_string(damaged[i].index)), text(printable(damaged[i].reason))});
    }
    tables += table(out);
  }
  return tables.empty() ? tables : section("unreadable", "Unreadable samples", tables);
}

Markup duplicates_markup(const Inspection& inspection) {
  Markup lines;
  for (const auto& line : duplicate_lines(inspection)) lines += element("li", text(line));
  auto body = note_markup("Samples whose decoded pixels are the same, found by their checksums.") +
              element("ul", lines);
  const auto& groups = inspection.duplicates.groups;
  if (!groups.empty()) {
    Table out{.caption = "The first ones", .headers = {"samples", "same pixels"}, .rows = {}};
    out.num_text_columns = 2;
    for (const auto& group : groups) {
      out.rows.push_back({text(format_count(static_cast<double>(group.size))),
                          text(group_text(inspection, group))});
    }
    body += table(out);
  }
  return section("duplicates", "Duplicates", body);
}

Markup card(const CaptionedPicture& one, bool is_exact) {
  Markup body = element("div", {{"class", "verdict"}}, text(one.caption));
  if (!one.note.empty()) body += element("small", text(one.note));
  return element("li", {{"class", "sample"}},
                 picture_markup(one.picture, one.caption, is_exact) +
                     element("div", {{"class", "body"}}, body));
}

// Colours of the classes that masks are shown with.
Markup mask_legend(const Inspection& inspection) {
  const InspectedSet& first = inspection.sets.front();
  const auto num_classes = static_cast<int64_t>(first.statistics.voxel_counts.size());
  Markup items;
  for (int64_t c = 1; c < std::min<int64_t>(num_classes, 9); ++c) {
    const auto [red, green, blue] = class_color(c);
    const auto swatch = element(
        "i", {{"style", fmt::format("background:rgb({},{},{});height:10px", red, green, blue)}},
        {});
    items += element("li", swatch + text(class_name_of(*first.dataset, c)));
  }
  return items.empty() ? items : element("ul", {{"class", "legend"}}, items);
}

Markup samples_markup(const Inspection& inspection) {
  Markup body = mask_legend(inspection);
  for (const auto& sheet : inspection.samples) {
    if (sheet.pictures.empty()) continue;
    if (!sheet.title.empty()) body += element("h3", text(sheet.title));
    int64_t widest = 0;
    Markup cards;
    for (const auto& one : sheet.pictures) {
      widest = std::max(widest, one.picture.width);
      cards += card(one, false);
    }
    const bool is_wide = widest > 200;  // volumes: three slices side by side
    body += element("ul", {{"class", is_wide ? "samples wide" : "samples"}}, cards);
  }
  return body.empty() ? body : section("samples", "Samples as they are stored", body);
}

Markup augmented_markup(const Inspection& inspection) {
  if (!inspection.augmented || inspection.augmented->pictures.empty()) return {};
  const PictureSheet& sheet = *inspection.augmented;
  auto body = note_markup(
      "A row is one sample: as it is stored, then as the model gets it in one epoch after the "
      "other, "
      "with normalisation undone.");
  const auto columns = static_cast<size_t>(sheet.columns);
  Markup heads = element("span", text("stored"));
  for (size_t i = 1; i < columns; ++i) heads += element("span", text(sheet.pictures[i].caption));
  body += element("div", {{"class", "strip"}}, heads);
  for (size_t first = 0; first + columns <= sheet.pictures.size(); first += columns) {
    Markup row;
    for (size_t i = 0; i < columns; ++i) {
      const auto& one = sheet.pictures[first + i];
      row += picture_markup(one.picture, one.caption, false);
    }
    body += element("div", {{"class", "strip"}}, row);
    body += element("small", text(sheet.pictures[first].caption));
  }
  return section("augmented", "Augmented samples", body);
}

Markup trees_markup(const Inspection& inspection) {
  if (!inspection.trees || inspection.trees->pictures.empty()) return {};
  Markup cards;
  for (const auto& one : inspection.trees->pictures) cards += card(one, true);
  return section("trees", "Adaptive patches", element("ul", {{"class", "samples large"}}, cards));
}

void write_picture(const std::filesystem::path& path, const Image& picture,
                   std::vector<std::string>& written) {
  if (picture.pixels.empty()) {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
    return;
  }
  write_file_atomic(path.string(), chars(encode_png(picture)));
  written.push_back(path.string());
}

}  // namespace

std::string inspection_page(const Inspection& inspection, const std::string& title) {
  Markup notes;
  for (const auto& note : inspection.notes)
    notes += element("p", {{"class", "warning"}}, text(note));
  const std::vector<PagePart> parts = {
      {"sets", "Data sets", sets_markup(inspection)},
      {"classes", "Classes", classes_markup(inspection)},
      {"sizes", "Sizes", sizes_markup(inspection)},
      {"unreadable", "Unreadable samples", damaged_markup(inspection)},
      {"duplicates", "Duplicates", duplicates_markup(inspection)},
      {"samples", "Samples", samples_markup(inspection)},
      {"augmented", "Augmented samples", augmented_markup(inspection)},
      {"trees", "Adaptive patches", trees_markup(inspection)}};
  return page(title + " \xE2\x80\x93 fovea data inspect",
              body_of_parts(title, "What is in the data", notes + headline_figures(inspection),
                            parts, "Written by fovea data inspect."));
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
