#include "fovea/hub/published_model.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "fovea/core/error.h"
#include "fovea/core/printable.h"

namespace fovea::hub {
namespace {

using nlohmann::json;

// Sets `key` where the object has `from` and it is not null.
void pass(json& section, std::string_view key, const JsonValue& object, std::string_view from) {
  const auto value = object.find(from);
  if (value && !value->raw().is_null()) section[std::string(key)] = value->raw();
}

bool is_key(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// timm's word, or transformers', for what a recipe calls otherwise.
std::string word_here(const std::string& word) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kWords = {
      {{"layernorm", "layer_norm"},
       {"rmsnorm", "rms_norm"},
       {"gelu_new", "gelu_tanh"},
       {"gelu_pytorch_tanh", "gelu_tanh"}}};
  for (const auto& [theirs, ours] : kWords) {
    if (word == theirs) return std::string(ours);
  }
  return word;
}

// timm

void pass_model_args(json& section, const JsonValue& config) {
  const auto args = config.find("model_args");
  if (!args || args->raw().is_null()) return;
  for (const auto& [key, value] : args->members()) {
    if (!is_key(key) || value.raw().is_object()) {
      value.refuse("an option of the model, by a name of lower-case letters");
    }
    if (value.raw().is_null()) continue;
    section[key] = value.raw().is_string() ? json(word_here(value.text())) : value.raw();
  }
}

void pass_pretrained_cfg(json& section, const JsonValue& cfg) {
  if (const auto size = cfg.find("input_size")) {
    const auto sides = size->integers();
    if (sides.size() != 3) size->refuse("[channels, height, width]");
    section["in_chans"] = sides[0];
    section["img_size"] = {sides[1], sides[2]};
  }
  json input = json::object();
  for (const auto* key : {"mean", "std", "crop_pct", "crop_mode", "interpolation"})
    pass(input, key, cfg, key);
  if (!input.empty()) section["input"] = std::move(input);
}

PublishedModel of_timm(const JsonValue& config) {
  PublishedModel model{.section = json::object(), .is_preset = true};
  auto& section = model.section;
  section["preset"] = config.at("architecture").text();
  if (const auto cfg = config.find("pretrained_cfg")) pass_pretrained_cfg(section, *cfg);
  pass(section, "global_pool", config, "global_pool");
  pass(section, "num_classes", config, "num_classes");
  pass_model_args(section, config);
  return model;
}

// transformers

std::string architecture_of(const JsonValue& config) {
  const auto names = config.find("architectures");
  if (!names || names->raw().is_null()) return {};
  const auto list = names->texts();
  return list.empty() ? "" : list.front();
}

int64_t classes_of(const JsonValue& config) {
  if (const auto labels = config.find("id2label"))
    return static_cast<int64_t>(labels->members().size());
  const auto count = config.find("num_labels");
  return count ? count->integer() : 2;  // what transformers takes
}

std::string interpolation_of(const JsonValue& preprocessor, std::string otherwise) {
  const auto resample = preprocessor.find("resample");
  if (!resample) return otherwise;
  switch (resample->integer()) {  // PIL's numbers
    case 0:
      return "nearest";
    case 2:
      return "bilinear";
    case 3:
      return "bicubic";
    default:
      resample->refuse("0 (nearest), 2 (bilinear) or 3 (bicubic)");
  }
}

// [height, width] of a size that is one number, {height, width} or, of the shorter edge, {shortest_
// edge}.
struct EdgeSizes {
  std::vector<int64_t> sides;
  bool is_shorter_edge = false;
};

EdgeSizes edge_sizes(const JsonValue& size) {
  if (!size.raw().is_object()) return {{size.integer(), size.integer()}};
  if (const auto edge = size.find("shortest_edge"))
    return {{edge->integer(), edge->integer()}, true};
  return {{size.at("height").integer(), size.at("width").integer()}};
}

bool is_off(const JsonValue& preprocessor, std::string_view key) {
  const auto value = preprocessor.find(key);
  return value && !value->boolean();
}

// How images come to the size of the model: resized to it whatever their shape, or by the shorter
// edge, and the centre cropped.
void pass_sizes(json& section, json& input, const JsonValue& preprocessor) {
  const auto size = preprocessor.find("size");
  if (!size || is_off(preprocessor, "do_resize")) return;
  const auto resized = edge_sizes(*size);
  const auto crop = preprocessor.find("crop_size");
  const bool is_cropped = crop && !is_off(preprocessor, "do_center_crop");
  const auto sides = is_cropped ? edge_sizes(*crop).sides : resized.sides;
  if (resized.sides[0] < sides[0] || sides[0] < 1)
    size->refuse("a side of at least 1 and that of the crop");
  section["img_size"] = sides;
  input["crop_pct"] = static_cast<double>(sides[0]) / static_cast<double>(resized.sides[0]);
  input["crop_mode"] = resized.is_shorter_edge ? "center" : "squash";
}

void pass_preprocessor(json& section, const std::optional<JsonValue>& preprocessor,
                       bool is_dinov2) {
  json input = json::object();
  if (is_dinov2) {
    input["mean"] = {0.485, 0.456, 0.406};
    input["std"] = {0.229, 0.224, 0.225};
  }
  input["crop_pct"] = 1.0;
  input["crop_mode"] = "squash";
  input["interpolation"] = is_dinov2 ? "bicubic" : "bilinear";
  if (preprocessor) {
    if (!is_off(*preprocessor, "do_normalize")) {
      pass(input, "mean", *preprocessor, "image_mean");
      pass(input, "std", *preprocessor, "image_std");
    }
    input["interpolation"] = interpolation_of(*preprocessor, input["interpolation"]);
    pass_sizes(section, input, *preprocessor);
  }
  section["input"] = std::move(input);
}

// What transformers' ViT and DINOv2 have in common.
void pass_encoder(json& section, const JsonValue& config) {
  section["name"] = "vit";
  pass(section, "img_size", config, "image_size");
  pass(section, "patch_size", config, "patch_size");
  pass(section, "in_chans", config, "num_channels");
  pass(section, "embed_dim", config, "hidden_size");
  pass(section, "depth", config, "num_hidden_layers");
  pass(section, "num_heads", config, "num_attention_heads");
  pass(section, "qkv_bias", config, "qkv_bias");
  if (const auto act = config.find("hidden_act")) section["act_layer"] = word_here(act->text());
  const auto eps = config.find("layer_norm_eps");
  section["norm_eps"] = eps ? eps->number() : 1e-12;
}

void pass_vit(json& section, const JsonValue& config) {
  const auto hidden = config.find("intermediate_size");
  const auto width = config.find("hidden_size");
  if (!hidden || !width) return;
  if (width->integer() < 1) width->refuse("a width of at least 1");
  section["mlp_ratio"] = hidden->number() / width->number();
}

void pass_dinov2(json& section, const JsonValue& config, bool has_registers) {
  const double ratio = config.find("mlp_ratio") ? config.at("mlp_ratio").number() : 4.0;
  section["mlp_ratio"] = ratio;
  const auto swiglu = config.find("use_swiglu_ffn");
  if (swiglu && swiglu->boolean()) {
    // Two thirds of the width, to a multiple of 8, twice: transformers' rule.
    const auto width = config.at("hidden_size").integer();
    if (width < 1 || width > (1 << 20) || !(ratio > 0 && ratio < 64)) {
      config.refuse("a hidden_size from 1 and an mlp_ratio from 0 to 64");
    }
    const auto hidden = static_cast<int64_t>(static_cast<double>(width) * ratio);
    const auto gated = (hidden * 2 / 3 + 7) / 8 * 8;
    section["mlp_ratio"] = 2 * static_cast<double>(gated) / static_cast<double>(width);
    section["mlp_layer"] = "swiglu_packed";
    section["act_layer"] = "silu";
  }
  const auto scale = config.find("layerscale_value");
  section["init_values"] = scale ? scale->number() : 1.0;
  section["pos_embed_interp"] = "dinov2";
  if (!has_registers) return;
  const auto registers = config.find("num_register_tokens");
  section["reg_tokens"] = registers ? registers->integer() : 4;
  section["no_embed_class"] = true;
}

PublishedModel of_transformers(const JsonValue& config, const std::string& type,
                               const std::optional<JsonValue>& preprocessor) {
  PublishedModel model{.section = json::object()};
  auto& section = model.section;
  const bool is_dinov2 = type.starts_with("dinov2");
  const auto architecture = architecture_of(config);
  const bool is_classifier = architecture.find("ForImageClassification") != architecture.npos;
  if (is_dinov2 && is_classifier) {
    fail<DataError>(
        "{}: {} puts the class token beside the mean of the patches before its classifier, which "
        "no model here does; expected the model without a classifier, whose features a new one is "
        "trained on",
        config.where(), printable_start(architecture));
  }
  pass_encoder(section, config);
  is_dinov2 ? pass_dinov2(section, config, type == "dinov2_with_registers")
            : pass_vit(section, config);
  section["num_classes"] = is_classifier ? classes_of(config) : 0;
  section["distilled"] = architecture == "DeiTForImageClassificationWithTeacher";
  model.may_have_pooler = !is_classifier && !is_dinov2;
  pass_preprocessor(section, preprocessor, is_dinov2);
  return model;
}

}  // namespace

PublishedModel read_published_model(const JsonValue& config,
                                    const std::optional<JsonValue>& preprocessor) {
  if (!config.raw().is_object()) config.refuse("an object with the model's keys");
  if (config.find("architecture")) return of_timm(config);
  const auto type = config.find("model_type");
  const auto name = type ? type->text() : std::string();
  for (const auto* known : {"vit", "deit", "dinov2", "dinov2_with_registers"}) {
    if (name == known) return of_transformers(config, name, preprocessor);
  }
  fail<DataError>(
      "{}: {}; expected timm's `architecture`, or `model_type` vit, deit, dinov2 or "
      "dinov2_with_registers. Weights of other models whose names are known can be given beside a "
      "model: --model NAME --weights hf-hub:...",
      config.where(),
      type ? fmt::format("found model_type '{}'", printable_start(name))
           : "neither `architecture` nor `model_type`");
}

}  // namespace fovea::hub
