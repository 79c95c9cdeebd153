#include "fovea/models/weights.h"

#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "fovea/core/config_describe.h"
#include "fovea/core/error.h"
#include "fovea/weights/read_weights.h"

namespace fovea::models {
namespace {

// Also what stands in a pre-trained autoencoder's place of the head.
bool is_head(const std::string& name) {
  return name.starts_with("head.") || name.starts_with("head_dist.") ||
         name.starts_with("pre_logits.") || name.starts_with("decoder_") || name == "mask_token";
}

// An encoder's names with and without "encoder.", whichever the model has.
std::string name_in(const std::set<std::string>& known, const std::string& name) {
  constexpr std::string_view kEncoder = "encoder.";
  if (known.contains(name)) return name;
  if (known.contains(fmt::format("{}{}", kEncoder, name)))
    return fmt::format("{}{}", kEncoder, name);
  const auto first = known.lower_bound(std::string(kEncoder));
  const bool has_encoder = first != known.end() && first->starts_with(kEncoder);
  return name.starts_with(kEncoder) && !has_encoder ? name.substr(kEncoder.size()) : name;
}

// A classifier on averaged tokens has a norm of its own (fc_norm) in the place of the encoder's:
// one that starts from an encoder with its norm keeps the fresh one, as MAE's fine-tuning does.
bool is_other_norm(const std::map<std::string, at::Tensor>& saved,
                   const std::vector<std::string>& known, const std::string& name) {
  const auto has = [&](const char* wanted) {
    return std::find(known.begin(), known.end(), wanted) != known.end();
  };
  return (name.starts_with("fc_norm.") || name.starts_with("norm.")) && has("fc_norm.weight") &&
         !has("norm.weight") && saved.contains("norm.weight") && !saved.contains("fc_norm.weight");
}

std::string shape_text(const at::Tensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.sizes(), ", "));
}

// The tensor that goes into `parameter`: the saved one, or one made to fit; undefined where it does
// not.
at::Tensor fit(const Model& model, const std::string& name, const at::Tensor& saved,
               const at::Tensor& parameter, const LoadOptions& options, LoadReport& report) {
  if (saved.sizes() == parameter.sizes()) {
    report.loaded.push_back(name);
    return saved;
  }
  const bool is_wanted =
      name.ends_with("pos_embed") ? options.resize_pos_embed : options.adapt_in_chans;
  const auto adapted = is_wanted ? model.adapt_parameter(name, saved) : at::Tensor();
  const auto change = fmt::format("{}: {} -> {}", name, shape_text(saved), shape_text(parameter));
  if (adapted.defined() && adapted.sizes() == parameter.sizes()) {
    report.adapted.push_back(change);
    return adapted;
  }
  report.mismatched.push_back(change);
  return {};
}

std::string section(const char* title, const std::vector<std::string>& names) {
  constexpr size_t kShown = 12;
  if (names.empty()) return "";
  const std::vector<std::string> shown(
      names.begin(), names.begin() + static_cast<int64_t>(std::min(kShown, names.size())));
  auto text = fmt::format("\n  {:<11} {:>4}  {}", title, names.size(), fmt::join(shown, ", "));
  if (names.size() > kShown) text += ", ...";
  return text;
}

}  // namespace

std::string LoadReport::text() const {
  return fmt::format("{} loaded", loaded.size()) + section("adapted", adapted) +
         section("skipped", skipped) + section("missing", missing) +
         section("unexpected", unexpected) + section("mismatched", mismatched);
}

LoadReport load_weights(Model& model, const nn::NamedTensors& tensors, const std::string& source,
                        const LoadOptions& options) {
  const at::NoGradGuard no_grad;
  std::map<std::string, at::Tensor> saved(tensors.begin(), tensors.end());
  LoadReport report;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;  // to, from
  std::vector<std::string> known;
  for (const auto& item : model.named_parameters()) known.push_back(item.key());
  const auto all_saved = saved;
  const auto is_skipped = [&](const std::string& name) {
    return options.skip_head && (is_head(name) || is_other_norm(all_saved, known, name));
  };
  for (const auto& item : model.named_parameters()) {
    const auto found = saved.find(item.key());
    if (is_skipped(item.key())) {
      report.skipped.push_back(item.key());
    } else if (found == saved.end()) {
      report.missing.push_back(item.key());
    } else if (auto value = fit(model, item.key(), found->second, item.value(), options, report);
               value.defined()) {
      copies.emplace_back(item.value(), value);
    }
    if (found != saved.end()) saved.erase(found);
  }
  for (const auto& [name, tensor] : saved) {
    if (is_skipped(name)) {
      report.skipped.push_back(name);
      continue;
    }
    const auto nearest = detail::nearest(name, known);
    report.unexpected.push_back(nearest.empty() ? name
                                                : fmt::format("{} (nearest: {})", name, nearest));
  }
  if (!report.is_complete()) {
    fail<CheckpointError>(
        "{}: these are weights of another model: {}\nCheck the model's name and options; "
        "init.skip_head leaves the classifier out",
        source, report.text());
  }
  for (const auto& [to, from] : copies) to.copy_(from);
  return report;
}

LoadReport load_weights(Model& model, const std::string& path, const LoadOptions& options) {
  std::set<std::string> known;
  for (const auto& item : model.named_parameters()) known.insert(item.key());
  auto file = weights::read_weights(path, {.known = known});
  for (auto& item : file.tensors) item.first = name_in(known, item.first);
  const auto source = file.naming.empty() || file.naming == "timm"
                          ? path
                          : fmt::format("{} ({})", path, weights::naming_named(file.naming).title);
  return load_weights(model, file.tensors, source, options);
}

nn::NamedTensors weights_of(const Model& model) {
  nn::NamedTensors weights;
  for (const auto& item : model.named_parameters())
    weights.emplace_back(item.key(), item.value().detach());
  return weights;
}

void save_weights(const Model& model, const std::string& path,
                  const std::map<std::string, std::string>& metadata) {
  auto with_format = metadata;
  with_format.emplace("format", "pt");  // what Python's loaders ask for
  nn::write_tensor_file(path, weights_of(model), with_format);
}

}  // namespace fovea::models
