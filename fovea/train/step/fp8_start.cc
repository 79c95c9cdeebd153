#include "fovea/train/step/fp8_start.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/core/log.h"
#include "fovea/kernels/linear/fp8.h"
#include "fovea/models/registry.h"
#include "fovea/train/bench/model_summary.h"

namespace fovea::train {
namespace {

// Rows of each layer's product for one sample, by path.
std::map<std::string, int64_t> rows_of_a_sample(const TrainConfig& config) {
  const auto on_meta = models::build_model(config.model, at::kMeta);
  std::map<std::string, int64_t> rows;
  for (const auto& layer : summarize_model(config, *on_meta).layers) {
    int64_t count = 1;
    for (size_t i = 0; i + 1 < layer.output_shape.size(); ++i) count *= layer.output_shape[i];
    rows[layer.path] = count;
  }
  return rows;
}

std::vector<Fp8Candidate> with_shapes(const NamedLinears& layers, const TrainConfig& config,
                                      const Fp8Start& start) {
  const auto rows = rows_of_a_sample(config);
  std::vector<Fp8Candidate> candidates;
  for (const auto& [name, layer] : layers) {
    const int64_t all = rows.at(name) * start.samples;
    candidates.push_back({.name = name,
                          .shape = {.rows = (all + start.cp - 1) / start.cp,
                                    .in_features = layer->weight.size(1),
                                    .out_features = layer->weight.size(0)}});
  }
  return candidates;
}

// The names that the first rank has found, and one line about them. Clocks differ between ranks,
// and so would decisions: one rank's hold for all.
std::vector<std::string> chosen_by_first(const NamedLinears& layers, const TrainConfig& config,
                                         c10::Device device, const Fp8Start& start,
                                         parallel::Communicator& all) {
  nlohmann::json own;
  if (all.rank() == 0) {
    const auto measure = start.measure ? start.measure : [&](const LinearShape& shape) {
      return measure_linear(shape, device);
    };
    const auto choice = choose_fp8(with_shapes(layers, config, start), measure);
    own = {{"layers", choice.layers}, {"text", choice.text}};
  }
  const auto first =
      nlohmann::json::parse(parallel::all_gather_text(all, own.dump(), "layers in FP8").front());
  log_info(first.at("text").get<std::string>());
  return first.at("layers").get<std::vector<std::string>>();
}

NamedLinears named(const NamedLinears& layers, const std::vector<std::string>& names) {
  NamedLinears chosen;
  for (const auto& [name, layer] : layers) {
    const bool is_chosen = std::find(names.begin(), names.end(), name) != names.end();
    if (is_chosen) chosen.emplace_back(name, layer);
  }
  return chosen;
}

// Of auto.
NamedLinears chosen(const NamedLinears& layers, const TrainConfig& config, c10::Device device,
                    const Fp8Start& start, parallel::Communicator& all) {
  if (start.saved) return named(layers, Fp8Layers::names_in(*start.saved));
  if (device.is_meta()) return layers;
  return named(layers, chosen_by_first(layers, config, device, start, all));
}

// Throws ConfigError where `mode` cannot be.
void check_fp8(const std::string& mode, c10::Device device, const NamedLinears& layers) {
  if (!device.is_cpu() && !kernels::has_fp8_products(device)) {
    fail<ConfigError>(
        "device.fp8: found {}, but {} does not multiply FP8; expected a GPU of compute capability "
        "8.9 or more. Set fp8=off, or auto",
        mode, device.str());
  }
  if (!layers.empty()) return;
  fail<ConfigError>(
      "device.fp8: found {}, but no linear layer of a block has widths that are multiples of {}; "
      "expected such a model, or fp8=off",
      mode, kernels::kFp8Alignment);
}

// Every rank's device has it: they are not always alike.
bool all_have_fp8(c10::Device device, parallel::Communicator& all) {
  const double lacks = kernels::has_fp8_products(device) ? 0 : 1;
  return parallel::max_over_ranks(all, lacks, "devices without FP8") == 0;
}

}  // namespace

std::unique_ptr<Fp8Layers> make_fp8(const TrainConfig& config, models::Model& model,
                                    c10::Device device, const Fp8Start& start) {
  const auto& mode = config.device.fp8;
  if (mode == "off") return nullptr;
  auto& all = start.all ? *start.all : parallel::one_rank();
  auto layers = fp8_candidates(model);
  if (mode == "auto") {
    if (!start.measure && !all_have_fp8(device, all)) {
      log_info("device.fp8: off, for not every device here multiplies FP8");
      return nullptr;
    }
    return std::make_unique<Fp8Layers>(chosen(layers, config, device, start, all),
                                       Fp8Scale::kCurrent, device, all, !start.are_gathered);
  }
  check_fp8(mode, device, layers);
  if (!device.is_meta()) {
    log_info(fmt::format(
        "device.fp8: {} linear layers of blocks train in FP8, with {} scaling{}", layers.size(),
        mode, device.is_cpu() ? "; a CPU has none, and takes longer than with fp8=off" : ""));
  }
  auto made = std::make_unique<Fp8Layers>(
      std::move(layers), mode == "delayed" ? Fp8Scale::kDelayed : Fp8Scale::kCurrent, device, all,
      !start.are_gathered);
  if (start.saved) made->load_state(*start.saved);
  return made;
}

}  // namespace fovea::train
