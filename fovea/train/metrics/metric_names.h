// What the names of metrics say.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fovea::train {

// Metrics that are better when smaller; of every other one more is better.
constexpr std::array<std::string_view, 3> kSmallerIsBetter = {"loss", "hd95", "fid"};

inline bool is_smaller_better(std::string_view metric) {
  return std::find(kSmallerIsBetter.begin(), kSmallerIsBetter.end(), metric) !=
         kSmallerIsBetter.end();
}

inline bool improves(std::string_view metric, double value, double best) {
  return is_smaller_better(metric) ? value < best : value > best;
}

// "dice" of "dice_12", which is of class 12; of another metric itself.
inline std::string without_class(const std::string& metric) {
  const auto end = metric.find_last_not_of("0123456789");
  const bool has_class = end != std::string::npos && end + 1 < metric.size() && metric[end] == '_';
  return has_class ? metric.substr(0, end) : metric;
}

// As people read it, with its unit: "psnr" -> "PSNR, dB"; "dice_2" -> "Dice, white matter", or
// "Dice, class 2" where the classes have no names; a name that is not known, as it is.
inline std::string metric_label(const std::string& metric,
                                const std::vector<std::string>& class_names = {}) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kLabels = {
      {{"dice", "Dice"},
       {"iou", "IoU"},
       {"hd95", "Hausdorff distance, 95 %"},
       {"fid",
        "Fr\xC3\xA9"
        "chet distance"},
       {"psnr", "PSNR, dB"},
       {"loss_mean_image", "loss of the mean image"}}};
  const auto name = without_class(metric);
  const auto found = std::find_if(kLabels.begin(), kLabels.end(),
                                  [&](const auto& label) { return label.first == name; });
  if (found == kLabels.end()) return metric;
  if (name.size() == metric.size()) return std::string(found->second);
  const auto label = metric.substr(name.size() + 1);
  size_t place = class_names.size();  // a number of more digits than a label has is none
  if (label.size() < 10) place = std::stoul(label);
  return std::string(found->second) + ", " +
         (place < class_names.size() ? class_names[place] : "class " + label);
}

}  // namespace fovea::train
