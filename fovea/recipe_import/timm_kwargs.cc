// timm's --model-kwargs and --opt-kwargs: pairs of KEY=VALUE that go to the model and the
// optimizer.
#include <fmt/format.h>

#include <map>
#include <set>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/recipe_import/timm.h"

namespace fovea::recipe_import {
namespace {

const char* const kKwargs[] = {"model_kwargs", "opt_kwargs"};

// One KEY=VALUE of a command line, VALUE as Python writes it.
std::pair<std::string, ConfigNode> pair_of(const ConfigNode& node) {
  const auto equals = node.scalar.find('=');
  if (node.kind != ConfigNode::Kind::kScalar || equals == 0 || equals == std::string::npos) {
    fail<ConfigError>("{}: found {}; expected KEY=VALUE", node.origin.text(), describe_node(node));
  }
  auto text = node.scalar.substr(equals + 1);
  if (text.starts_with('(') && text.ends_with(')'))
    text = "[" + text.substr(1, text.size() - 2) + "]";
  return {node.scalar.substr(0, equals), parse_override_value(text, "command line")};
}

std::vector<std::pair<std::string, ConfigNode>> pairs_of(const ConfigNode& node) {
  std::vector<std::pair<std::string, ConfigNode>> pairs;
  if (node.kind == ConfigNode::Kind::kMap) {
    for (size_t i = 0; i < node.keys.size(); ++i)
      pairs.emplace_back(node.keys[i], node.children[i]);
  } else if (node.kind == ConfigNode::Kind::kList) {
    for (const auto& child : node.children) pairs.push_back(pair_of(child));
  } else if (node.kind == ConfigNode::Kind::kScalar && node.scalar.find('=') != std::string::npos) {
    pairs.push_back(pair_of(node));
  }
  return pairs;
}

// Of the optimizer that the run has; of another one it would be an unknown key.
ImportRule optimizer_key(const std::string& target, const std::set<std::string>& optimizers,
                         const std::string& otherwise) {
  return {"", "", [=](Importer& in, const std::string&, const ConfigNode& value) {
            const auto opt = optimizer_of_timm(in_lower_case(in.text("opt", otherwise)));
            if (!optimizers.contains(opt)) {
              return in.refused(
                  fmt::format("{} has no such setting here", opt.empty() ? "adamw" : opt));
            }
            in.set(target, value);
            in.mapped(target);
          }};
}

}  // namespace

Settings with_kwargs(Settings settings) {
  ConfigNode spread;
  spread.kind = ConfigNode::Kind::kMap;
  auto& values = settings.values;
  for (size_t i = 0; i < values.keys.size(); ++i) {
    const auto& key = values.keys[i];
    const bool is_kwargs = key == kKwargs[0] || key == kKwargs[1];
    const auto pairs = is_kwargs ? pairs_of(values.children[i])
                                 : std::vector<std::pair<std::string, ConfigNode>>{};
    for (const auto& [name, value] : pairs) spread.add(key + "." + name, value);
    if (pairs.empty()) spread.add(key, values.children[i]);
  }
  values = std::move(spread);
  return settings;
}

ImportRules kwargs_rules(const TimmDefaults& defaults) {
  ImportRules rules;
  for (const std::string key : {"img_size",
                                "patch_size",
                                "in_chans",
                                "num_classes",
                                "global_pool",
                                "embed_dim",
                                "depth",
                                "num_heads",
                                "mlp_ratio",
                                "qkv_bias",
                                "proj_bias",
                                "qk_norm",
                                "scale_attn_norm",
                                "scale_mlp_norm",
                                "init_values",
                                "class_token",
                                "no_embed_class",
                                "reg_tokens",
                                "pre_norm",
                                "final_norm",
                                "fc_norm",
                                "pool_include_prefix",
                                "dynamic_img_size",
                                "dynamic_img_pad",
                                "drop_rate",
                                "pos_drop_rate",
                                "patch_drop_rate",
                                "proj_drop_rate",
                                "attn_drop_rate",
                                "drop_path_rate",
                                "weight_init",
                                "fix_init"}) {
    rules["model_kwargs." + key] = to("model." + key);
  }
  rules["model_kwargs.pos_embed"] = {"", "",
                                     [](Importer& in, const std::string& key, const ConfigNode&) {
                                       const auto kind = in.text(key, "learn");
                                       if (kind != "learn" && kind != "none" && !kind.empty())
                                         return in.refused("learn or none");
                                       in.set("model.pos_embed", kind.empty() ? "none" : kind);
                                       in.mapped("model.pos_embed");
                                     }};
  rules["model_kwargs.attn_layer"] = {"", "",
                                      [](Importer& in, const std::string& key, const ConfigNode&) {
                                        const auto kind = in.text(key, "attn");
                                        if (kind != "attn" && kind != "diff" && !kind.empty())
                                          return in.refused("attn or diff");
                                        in.set("model.attn_layer", kind.empty() ? "attn" : kind);
                                        in.mapped("model.attn_layer");
                                      }};
  const std::map<std::string, std::set<std::string>> keys = {{"betas", {"adamw", "lamb", "muon"}},
                                                             {"eps", {"adamw", "lamb", "muon"}},
                                                             {"momentum", {"sgd", "muon"}},
                                                             {"nesterov", {"sgd", "muon"}},
                                                             {"dampening", {"sgd"}},
                                                             {"ns_steps", {"muon"}},
                                                             {"bias_correction", {"lamb"}},
                                                             {"grad_averaging", {"lamb"}},
                                                             {"max_grad_norm", {"lamb"}},
                                                             {"trust_clip", {"lamb"}},
                                                             {"always_adapt", {"lamb"}},
                                                             {"decoupled_decay", {"lamb"}}};
  for (const auto& entry : keys) {
    rules["opt_kwargs." + entry.first] =
        optimizer_key("optim." + entry.first, entry.second, defaults.optimizer);
  }
  return rules;
}

}  // namespace fovea::recipe_import
