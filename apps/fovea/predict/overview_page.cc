#include "apps/fovea/predict/overview_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "fovea/core/number_text.h"
#include "fovea/data/pictures/pictures.h"
#include "fovea/data_tools/picture_markup.h"
#include "fovea/html/html.h"

namespace fovea::app {
namespace {

constexpr size_t kMostClasses = 200;  // more than anybody looks at, and colours repeat

// Those that occur; the most frequent ones where they are too many.
std::vector<int64_t> shown_classes(const std::vector<int64_t>& pixels) {
  std::vector<int64_t> labels;
  for (size_t label = 0; label < pixels.size(); ++label) {
    if (pixels[label] > 0) labels.push_back(static_cast<int64_t>(label));
  }
  if (labels.size() <= kMostClasses) return labels;
  std::stable_sort(labels.begin(), labels.end(), [&](int64_t a, int64_t b) {
    return pixels[static_cast<size_t>(a)] > pixels[static_cast<size_t>(b)];
  });
  labels.resize(kMostClasses);
  return labels;
}

html::Markup legend(const PredictedMask& mask, const train::Inference& inference) {
  html::Markup items;
  for (const auto label : shown_classes(mask.voxels)) {
    const auto i = static_cast<size_t>(label);
    const auto words = fmt::format("{} {} ({} pixels)", inference.class_name(label),
                                   format_percent(100 * mask.share(i)),
                                   format_count(static_cast<double>(mask.voxels[i])));
    const auto color = label == 0 ? html::Markup() : data::swatch_markup(data::class_color(label));
    items += html::element("li", color + html::text(words));
  }
  return html::element("ul", {{"class", "legend"}}, items);
}

}  // namespace

std::string overview_page(const PredictedMask& mask, const data::Image& overview,
                          const train::Inference& inference) {
  const auto title = std::filesystem::path(mask.input).filename().string();
  const auto lead = fmt::format(
      "{} x {} pixels; in colour the class that most pixels of a place "
      "have, and what has no colour is {}",
      mask.sides[1], mask.sides[0], inference.class_name(0));
  const auto picture =
      data::picture_markup(overview, "The image with its classes in colour", false);
  const auto content =
      legend(mask, inference) + html::element("div", {{"class", "strip"}}, picture);
  const auto body = html::body_of_parts(title, lead, {}, {{"overview", "Overview", content}},
                                        "Written by fovea predict.");
  return html::page(title, body);
}

}  // namespace fovea::app
