// What an evaluation shows: accuracy by class, confusions, pictures.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "fovea/core/base64.h"
#include "fovea/core/number_text.h"
#include "fovea/train/report/page_parts.h"
#include "fovea/train/report/svg_plot.h"

namespace fovea::train {
namespace {

constexpr int64_t kMaxHeatClasses = 100;
constexpr size_t kMaxPairs = 15;
constexpr size_t kMaxClassRows = 2000;
constexpr uint32_t kSmallImage = 96;  // pixels; drawn larger with hard edges

struct ClassCounts {
  int64_t label = 0;
  int64_t right = 0, of_label = 0, of_prediction = 0;

  double recall() const { return ratio(right, of_label); }
  double precision() const { return ratio(right, of_prediction); }
  double f1() const { return ratio(2 * right, of_label + of_prediction); }

 private:
  static double ratio(int64_t part, int64_t whole) {
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : kNan;
  }
};

std::vector<ClassCounts> count_classes(const EvaluationFile& evaluation) {
  std::vector<ClassCounts> classes(static_cast<size_t>(evaluation.num_classes));
  for (size_t i = 0; i < classes.size(); ++i) classes[i].label = static_cast<int64_t>(i);
  for (const auto& [label, predicted, count] : evaluation.confusion) {
    classes[static_cast<size_t>(label)].of_label += count;
    classes[static_cast<size_t>(predicted)].of_prediction += count;
    if (label == predicted) classes[static_cast<size_t>(label)].right += count;
  }
  return classes;
}

html::Markup share_with_bar(double share) {
  if (!std::isfinite(share)) return html::text(format_fixed(share, 1));
  const auto filled = html::element(
      "i", {{"style", fmt::format("width:{:.0f}%", 100 * std::clamp(share, 0.0, 1.0))}}, {});
  return html::element("span", {{"class", "bar"}}, filled) +
         html::text(format_fixed(100 * share, 1));
}

// Width and height of a PNG, from its header; 0 where it has none.
std::pair<uint32_t, uint32_t> png_size(const std::string& png) {
  if (png.size() < 24 || png.compare(12, 4, "IHDR") != 0) return {0, 0};
  const auto word = [&](size_t at) {
    uint32_t value = 0;
    for (size_t i = at; i < at + 4; ++i) value = value << 8 | static_cast<unsigned char>(png[i]);
    return value;
  };
  return {word(16), word(20)};
}

html::Markup picture(const std::string& png, const std::string& words) {
  const auto [width, height] = png_size(png);
  if (width == 0) return html::element("div", {{"class", "no-image"}}, html::text("no picture"));
  html::Attributes attributes{
      {"src", "data:image/png;base64," + base64_encode(png)}, {"alt", words}, {"loading", "lazy"}};
  if (std::max(width, height) <= kSmallImage) attributes.emplace_back("class", "pixelated");
  return html::void_element("img", attributes);
}

html::Markup score_list(const SamplePrediction& sample, const std::vector<std::string>& names) {
  html::Markup items;
  for (const auto& [label, score] : sample.scores) {
    const double percent = 100 * std::clamp(score, 0.0, 1.0);
    items += html::element(
        "li", {{"class", label == sample.label ? "is-label" : ""}},
        html::element("span", {{"class", "fill"}, {"style", fmt::format("width:{:.1f}%", percent)}},
                      {}) +
            html::element("span", {{"title", class_name(names, label)}},
                          html::text(class_name(names, label))) +
            html::element("span", html::text(format_fixed(percent, 1) + " %")));
  }
  return items.empty() ? items : html::element("ol", {{"class", "scores"}}, items);
}

html::Markup sample_card(const SamplePrediction& sample, const std::vector<std::string>& names) {
  const auto predicted = class_name(names, sample.predicted);
  const auto label = class_name(names, sample.label);
  const bool is_right = sample.label == sample.predicted;
  std::string verdict = predicted;
  if (sample.label >= 0) verdict = (is_right ? "\xE2\x9C\x93 " : "\xE2\x9C\x97 ") + predicted;
  const auto words = sample.label < 0 ? fmt::format("predicted {}", predicted)
                     : is_right       ? fmt::format("{}, recognised", label)
                                      : fmt::format("{}, taken for {}", label, predicted);
  html::Markup body = html::element("div", {{"class", "verdict"}}, html::text(verdict));
  if (sample.label >= 0 && !is_right) body += html::element("small", html::text("is " + label));
  body += score_list(sample, names);
  auto origin = sample.description;
  if (std::isfinite(sample.loss)) origin += fmt::format(" \xC2\xB7 loss {:.2f}", sample.loss);
  if (!origin.empty()) body += html::element("small", html::text(origin));
  const char* verdict_class = sample.label < 0 ? "sample"
                              : is_right       ? "sample right"
                                               : "sample wrong";
  return html::element(
      "li", {{"class", verdict_class}},
      picture(sample.image_png, words) + html::element("div", {{"class", "body"}}, body));
}

html::Markup cards(const std::vector<SamplePrediction>& samples,
                   const std::vector<std::string>& names) {
  html::Markup items;
  for (const auto& sample : samples) items += sample_card(sample, names);
  return html::element("ul", {{"class", "samples"}}, items);
}

html::Markup confused_pairs(const EvaluationFile& evaluation,
                            const std::vector<ClassCounts>& classes) {
  std::vector<ConfusionCount> pairs;
  for (const auto& pair : evaluation.confusion) {
    if (pair.label != pair.predicted && pair.count > 0) pairs.push_back(pair);
  }
  std::sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) {
    return std::tie(b.count, a.label, a.predicted) < std::tie(a.count, b.label, b.predicted);
  });
  if (pairs.size() > kMaxPairs) pairs.resize(kMaxPairs);
  if (pairs.empty()) return {};
  html::Table out{.caption = "Most frequent confusions",
                  .headers = {"label", "taken for", "images", "of the label, %"},
                  .rows = {},
                  .num_text_columns = 2};
  for (const auto& [label, predicted, count] : pairs) {
    const auto whole = classes[static_cast<size_t>(label)].of_label;
    out.rows.push_back(
        {html::text(class_name(evaluation.class_names, label)),
         html::text(class_name(evaluation.class_names, predicted)),
         html::text(format_count(static_cast<double>(count))),
         html::text(format_fixed(
             100.0 * static_cast<double>(count) / static_cast<double>(std::max<int64_t>(1, whole)),
             1))});
  }
  return html::table(out);
}

}  // namespace

html::Markup class_part(const EvaluationFile& evaluation) {
  if (evaluation.confusion.empty()) return {};
  auto classes = count_classes(evaluation);
  const bool is_long = classes.size() > 20;
  if (is_long) {
    std::stable_sort(classes.begin(), classes.end(), [](const auto& a, const auto& b) {
      return (std::isfinite(a.f1()) ? a.f1() : 2) < (std::isfinite(b.f1()) ? b.f1() : 2);
    });
  }
  if (classes.size() > kMaxClassRows) classes.resize(kMaxClassRows);
  html::Table out{.caption = fmt::format("Precision, recall and F1 by class, %{}; {} images",
                                         is_long ? ", lowest F1 first" : "",
                                         format_count(static_cast<double>(evaluation.num_samples))),
                  .headers = {"class", "precision", "recall", "F1", "images"},
                  .rows = {}};
  for (const auto& one : classes) {
    out.rows.push_back({html::text(class_name(evaluation.class_names, one.label)),
                        html::text(format_fixed(100 * one.precision(), 1)),
                        html::text(format_fixed(100 * one.recall(), 1)), share_with_bar(one.f1()),
                        html::text(format_count(static_cast<double>(one.of_label)))});
  }
  return html::section("classes", "Classes", html::table(out));
}

html::Markup confusion_part(const EvaluationFile& evaluation) {
  if (evaluation.confusion.empty()) return {};
  const auto classes = count_classes(evaluation);
  html::Markup body;
  if (evaluation.num_classes <= kMaxHeatClasses) {
    HeatMap map{.title = "Confusion matrix", .names = {}, .counts = {}};
    const auto size = static_cast<size_t>(evaluation.num_classes);
    map.counts.assign(size, std::vector<int64_t>(size, 0));
    for (const auto& one : classes)
      map.names.push_back(class_name(evaluation.class_names, one.label));
    for (const auto& [label, predicted, count] : evaluation.confusion) {
      map.counts[static_cast<size_t>(label)][static_cast<size_t>(predicted)] += count;
    }
    body +=
        html::element("p", {{"class", "note"}},
                      html::text("Rows are labels, columns predictions. Blue: recognised; orange: "
                                 "confused, shaded by the square root so that rare ones show."));
    body += heat_map(map);
  }
  return html::section("confusion", "Confusions", body + confused_pairs(evaluation, classes));
}

html::Markup samples_part(const EvaluationFile& evaluation) {
  if (evaluation.samples.empty()) return {};
  return html::section("samples", "Sample predictions",
                       cards(evaluation.samples, evaluation.class_names));
}

html::Markup pictures_part(const EvaluationFile& evaluation) {
  html::Markup items;
  for (const auto& one : evaluation.pictures) {
    auto body = html::element("div", {{"class", "verdict"}}, html::text(one.title));
    if (!one.caption.empty()) body += html::element("small", html::text(one.caption));
    items += html::element(
        "li", {{"class", "sample"}},
        picture(one.image_png, one.title) + html::element("div", {{"class", "body"}}, body));
  }
  if (items.empty()) return items;
  return html::section("pictures", "Pictures",
                       html::element("ul", {{"class", "samples wide"}}, items));
}

html::Markup mistakes_part(const EvaluationFile& evaluation) {
  if (evaluation.mistakes.empty()) return {};
  return html::section(
      "mistakes", "Worst mistakes",
      html::element("p", {{"class", "note"}},
                    html::text("Wrong predictions with the highest loss. Look for labels that are "
                               "wrong themselves.")) +
          cards(evaluation.mistakes, evaluation.class_names));
}

}  // namespace fovea::train
