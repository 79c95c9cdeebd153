#include "fovea/models/select_weights.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>

#include <algorithm>
#include <array>

#include "fovea/core/error.h"
#include "fovea/nn/pos_embed.h"

namespace fovea::models {
namespace {

constexpr std::string_view kEncoder = "encoder.";

using TensorMap = std::map<std::string, at::Tensor>;

bool has_prefix(const std::string& name, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

// Of a ViT: what stands behind its last norm, which belongs to one task.
bool is_of_head(const std::string& name) {
  return has_prefix(name, {"head.", "head_dist.", "pre_logits.", "fc_norm.", "attn_pool."});
}

// UNETR's convolutions and SAP's decoder too, which stand beside the names of a ViT in UCF-VIT's
// files.
bool is_of_decoder(const std::string& name) {
  return name == "up" || has_prefix(name, {"decoder", "mask_token", "encoder1.", "encoder2.",
                                           "encoder3.", "encoder4.", "out."});
}

std::set<std::string> parameter_names(const Model& model) {
  std::set<std::string> names;
  for (const auto& item : model.named_parameters()) names.insert(item.key());
  return names;
}

template <class Names, class NameOf>
bool any_in_encoder(const Names& names, NameOf name_of) {
  return std::any_of(names.begin(), names.end(),
                     [&](const auto& one) { return name_of(one).starts_with(kEncoder); });
}

// The encoder's tensors of a file under timm's names, without `encoder.`.
TensorMap encoder_of(const nn::NamedTensors& tensors, std::vector<std::string>& left_out) {
  const bool has_encoder = any_in_encoder(tensors, [](const auto& item) { return item.first; });
  TensorMap encoder;
  for (const auto& [name, tensor] : tensors) {
    if (has_encoder ? name.starts_with(kEncoder) : !is_of_head(name) && !is_of_decoder(name)) {
      encoder[has_encoder ? name.substr(kEncoder.size()) : name] = tensor;
    } else {
      left_out.push_back(name);
    }
  }
  return encoder;
}

// Leaves out the prefix tokens for which `is_known` is false, and their rows of the position
// embedding.
template <class IsKnown>
void leave_out_tokens(TensorMap& encoder, IsKnown is_known, std::vector<std::string>& left_out) {
  constexpr std::array kTokens = {"cls_token", "reg_token",
                                  "dist_token"};  // in order of their rows
  const auto rows_of = [&](const char* name) {
    const auto found = encoder.find(name);
    return found == encoder.end() || found->second.dim() != 3 ? 0 : found->second.size(1);
  };
  int64_t num_prefix = 0;
  for (const auto* name : kTokens) num_prefix += rows_of(name);
  const auto position = encoder.find("pos_embed");
  auto patches = encoder.find("patch_embed.proj.weight");
  if (patches == encoder.end()) patches = encoder.find("patch_embed.token_embeds.0.proj.weight");
  const auto num_sides = patches == encoder.end() ? 2 : patches->second.dim() - 2;
  const bool has_rows = position != encoder.end() && position->second.dim() == 3 &&
                        nn::has_prefix_rows(position->second.size(1), num_prefix, num_sides);
  std::vector<at::Tensor> kept_rows;
  int64_t row = 0;
  for (const auto* name : kTokens) {
    const auto count = rows_of(name);
    if (count == 0) continue;
    if (is_known(name)) {
      if (has_rows) kept_rows.push_back(position->second.narrow(1, row, count));
    } else {
      left_out.emplace_back(name);
      encoder.erase(name);
    }
    row += count;
  }
  if (!has_rows || row == 0) return;
  const auto& table = position->second;
  kept_rows.push_back(table.narrow(1, row, table.size(1) - row));
  position->second = at::cat(kept_rows, 1);
}

// UCF-VIT's files hold a shared tokeniser once for each variable: equal copies of the first one
// that the model has no place for go.
template <class IsKnown>
void leave_out_copies(TensorMap& tensors, IsKnown is_known, std::vector<std::string>& left_out) {
  constexpr std::string_view kTokenizers = "patch_embed.token_embeds.";
  std::erase_if(tensors, [&](const auto& item) {
    const auto& [name, tensor] = item;
    const auto at = name.find(kTokenizers);
    if (at == name.npos || is_known(name)) return false;
    const auto number = at + kTokenizers.size();
    const auto end = name.find('.', number);
    if (end == name.npos) return false;
    const auto first = tensors.find(name.substr(0, number) + "0" + name.substr(end));
    if (first == tensors.end() || first->first == name) return false;
    if (!at::equal(first->second, tensor)) return false;
    left_out.push_back(name);
    return true;
  });
}

SelectedWeights select_encoder(const Model& model, const nn::NamedTensors& tensors) {
  SelectedWeights selected;
  const auto names = parameter_names(model);
  const bool has_encoder = any_in_encoder(names, [](const auto& name) { return name; });
  const std::string prefix(has_encoder ? kEncoder : "");
  for (const auto& name : names) {
    const bool is_encoder = has_encoder ? name.starts_with(kEncoder) : !is_of_head(name);
    if (!is_encoder) selected.kept.insert(name);
  }
  const auto is_known = [&](const std::string& name) { return names.contains(prefix + name); };
  auto encoder = encoder_of(tensors, selected.left_out);
  leave_out_tokens(encoder, is_known, selected.left_out);
  for (const std::string name : {"norm.weight", "norm.bias"}) {
    if (is_known(name) || !is_known("fc_norm.weight") || encoder.erase(name) == 0) continue;
    selected.left_out.push_back(name);
  }
  leave_out_copies(encoder, is_known, selected.left_out);
  for (auto& [name, tensor] : encoder) selected.tensors[prefix + name] = tensor;
  return selected;
}

}  // namespace

WeightsPart weights_part_from_name(std::string_view name) {
  if (name == "all") return WeightsPart::kAll;
  if (name == "encoder") return WeightsPart::kEncoder;
  fail<ConfigError>("part '{}' of weights is unknown; expected all or encoder", name);
}

SelectedWeights select_weights(const Model& model, const nn::NamedTensors& tensors,
                               WeightsPart part) {
  if (part == WeightsPart::kEncoder) return select_encoder(model, tensors);
  SelectedWeights selected;
  const auto names = parameter_names(model);
  const bool is_flat = !any_in_encoder(tensors, [](const auto& item) { return item.first; });
  TensorMap all(tensors.begin(), tensors.end());
  const auto is_known = [&](const std::string& name) {
    return names.contains(name) || (is_flat && names.contains(std::string(kEncoder) + name));
  };
  leave_out_copies(all, is_known, selected.left_out);
  for (const auto& [name, tensor] : all) {
    const auto in_encoder = std::string(kEncoder) + name;
    const bool is_moved = is_flat && !names.contains(name) && names.contains(in_encoder);
    selected.tensors[is_moved ? in_encoder : name] = tensor;
  }
  return selected;
}

}  // namespace fovea::models
