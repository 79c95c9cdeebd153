#include "fovea/weights/read_weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "fovea/core/error.h"
#include "fovea/core/printable.h"
#include "fovea/weights/parameter_names.h"

namespace fovea::weights {
namespace {

bool is_all_known(const nn::NamedTensors& tensors, const std::set<std::string>& known) {
  return !tensors.empty() && std::all_of(tensors.begin(), tensors.end(), [&](const auto& item) {
    return known.contains(item.first);
  });
}

// One of two would be passed over without a word.
void check_names_differ(const nn::NamedTensors& tensors, const std::string& path) {
  std::set<std::string_view> names;
  for (const auto& item : tensors) {
    if (names.insert(item.first).second) continue;
    fail<CheckpointError>("{}: two of its tensors are {}; expected one of each name", path,
                          printable_start(item.first));
  }
}

}  // namespace

const Naming* choose_naming(const nn::NamedTensors& tensors, const ReadOptions& options,
                            const std::string& path) {
  if (options.from == "auto" || options.from == "torch")
    return is_all_known(tensors, options.known) ? nullptr : find_naming(tensors);
  if (options.from != "hf") return &naming_named(options.from);
  const auto* found = find_naming(tensors);
  if (found == nullptr || !found->name.starts_with("hf_")) {
    fail<CheckpointError>("{}: its names are not Hugging Face's{}", path,
                          found == nullptr ? std::string() : fmt::format(" but {}", found->title));
  }
  return found;
}

std::string FoveaWeights::text() const {
  auto line = fmt::format("{} file, ", format);
  line += naming.empty() ? "names as they stand"
                         : fmt::format("names of {}", naming_named(naming).title);
  if (!left_out.empty()) {
    const auto shown = std::min<size_t>(left_out.size(), 3);
    line += fmt::format(
        "; {} other tensors left out: {}{}", left_out.size(),
        fmt::join(left_out.begin(), left_out.begin() + static_cast<int64_t>(shown), ", "),
        shown < left_out.size() ? ", ..." : "");
  }
  return line + "\n  " + report.text();
}

FoveaWeights read_weights(const std::string& path, const ReadOptions& options) {
  auto file = read_weights_file(path, options.key);
  check_names_differ(file.tensors, path);
  FoveaWeights weights;
  weights.format = file.format;
  weights.key = file.key;
  weights.left_out = std::move(file.left_out);
  weights.metadata = std::move(file.metadata);
  weights.mapped = std::move(file.mapped);
  const auto* naming = choose_naming(file.tensors, options, path);
  if (naming == nullptr) {
    for (const auto& item : file.tensors) weights.report.same.push_back(item.first);
    weights.tensors = std::move(file.tensors);
  } else {
    weights.naming = naming->name;
    std::map<std::string, at::Tensor> by_name(file.tensors.begin(), file.tensors.end());
    auto conversion = to_fovea(*naming, std::move(file.tensors), options.num_heads);
    if (!conversion.report.missing.empty()) {
      fail<CheckpointError>("{}: read as weights of {}, but parts are missing: {}", path,
                            naming->title, fmt::join(conversion.report.missing, ", "));
    }
    weights.tensors = std::move(conversion.tensors);
    weights.report = std::move(conversion.report);
    // Those that a rule passed on, though no model has them, are there already.
    std::set<std::string> passed_on;
    for (const auto& item : weights.tensors) {
      if (!is_parameter_name(item.first)) passed_on.insert(item.first);
    }
    for (const auto& name : weights.report.unexpected) {
      if (!passed_on.contains(name) && by_name.contains(name))
        weights.tensors.emplace_back(name, by_name.at(name));
    }
    check_names_differ(weights.tensors, path);
  }
  weights.report.notes.insert(weights.report.notes.begin(), file.notes.begin(), file.notes.end());
  return weights;
}

std::map<std::string, std::string> metadata_of(const std::string& path) {
  if (!is_safetensors(path)) return {};
  return SafetensorsFile::open(path).metadata();
}

}  // namespace fovea::weights
