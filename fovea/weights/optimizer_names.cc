#include "fovea/weights/optimizer_names.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <initializer_list>
#include <optional>
#include <set>

#include "fovea/core/error.h"

namespace fovea::weights {
namespace {

using Names = std::map<std::string, std::string>;

// A group as a way of dividing makes it.
struct Division {
  std::vector<const ForeignParameter*> parameters;
  std::optional<bool> decays;  // nothing: no matter
  int64_t layer = -1;          // -1: of all
};
struct Way {
  std::string title;
  std::vector<Division> groups;
};

enum class Order { kNoDecayFirst, kDecayFirst };

class Ways {
 public:
  explicit Ways(const ParameterRules& rules) : rules_(rules) {}

  using Decays = std::function<bool(const ForeignParameter&)>;

  std::vector<Way> of(const std::vector<ForeignParameter>& parameters) const {
    std::vector<Way> ways;
    for (const bool is_all : {true, false}) {
      std::vector<const ForeignParameter*> list;
      for (const auto& parameter : parameters) {
        if (is_all || rules_.is_trained(parameter.fovea)) list.push_back(&parameter);
      }
      const std::string of = is_all ? "all parameters" : "those trained here";
      ways.push_back({"one group of " + of, {{list, {}, -1}}});
      for (const bool spares_embeddings : {true, false}) {
        const auto decays = decays_but_for(spares_embeddings);
        const auto* embeddings = spares_embeddings ? "" : ", which holds the embeddings";
        ways.push_back({fmt::format("{} without weight decay, then with{}", of, embeddings),
                        by_decay(list, decays, Order::kNoDecayFirst)});
        ways.push_back({fmt::format("{} with weight decay{}, then without", of, embeddings),
                        by_decay(list, decays, Order::kDecayFirst)});
        ways.push_back(
            {fmt::format("{} by layer and decay{}", of, embeddings), by_layer(list, decays)});
      }
      ways.push_back({of + " but the embeddings of positions and variables, then these",
                      by_decay(list, decays_in_ucf, Order::kDecayFirst)});
    }
    return ways;
  }

 private:
  Decays decays_but_for(bool embeddings) const {
    return [this, embeddings](const ForeignParameter& parameter) {
      if (parameter.sizes.size() <= 1 || parameter.name.ends_with(".bias")) return false;
      return !embeddings || !rules_.has_no_weight_decay(parameter.fovea);
    };
  }
  static bool decays_in_ucf(const ForeignParameter& parameter) {
    return parameter.name.find("pos_embed") == std::string::npos &&
           parameter.name.find("var_embed") == std::string::npos;
  }

  std::vector<Division> by_decay(const std::vector<const ForeignParameter*>& list,
                                 const Decays& decays, Order order) const {
    std::vector<Division> groups;
    for (const bool with : {order == Order::kDecayFirst, order != Order::kDecayFirst}) {
      Division group{{}, with, -1};
      for (const auto* parameter : list) {
        if (decays(*parameter) == with) group.parameters.push_back(parameter);
      }
      if (!group.parameters.empty()) groups.push_back(std::move(group));
    }
    return groups;
  }

  std::vector<Division> by_layer(const std::vector<const ForeignParameter*>& list,
                                 const Decays& decays) const {
    std::vector<Division> groups;
    for (const auto* parameter : list) {
      const bool with = decays(*parameter);
      const auto layer = parameter->fovea.empty() ? -1 : rules_.layer_id(parameter->fovea);
      auto group = std::find_if(groups.begin(), groups.end(), [&](const Division& other) {
        return other.layer == layer && other.decays == with;
      });
      if (group == groups.end()) group = groups.insert(group, {{}, with, layer});
      group->parameters.push_back(parameter);
    }
    return groups;
  }

  const ParameterRules& rules_;
};

std::string sizes_text(const std::vector<size_t>& sizes) {
  return fmt::format("{}", fmt::join(sizes, " + "));
}

class Matcher {
 public:
  Matcher(const OptimizerState& state, const std::string& source) : state_(state), source_(source) {
    for (const auto& group : state.groups) {
      sizes_.push_back(group.params.size());
      has_decay_ = has_decay_ || group.number("weight_decay").value_or(0) != 0;
    }
  }

  // The names where the way is right; else why not goes to `reasons`.
  std::optional<Names> names_of(const Way& way, std::vector<std::string>& reasons) const {
    std::vector<size_t> sizes;
    for (const auto& group : way.groups) sizes.push_back(group.parameters.size());
    std::string reason;
    if (sizes != sizes_) {
      reason = "would be groups of " + sizes_text(sizes);
    } else {
      reason = fault(way);
    }
    if (!reason.empty()) {
      reasons.push_back(fmt::format("{}: {}", way.title, reason));
      return {};
    }
    Names names;
    for (size_t g = 0; g < way.groups.size(); ++g) {
      for (size_t i = 0; i < way.groups[g].parameters.size(); ++i)
        names[state_.groups[g].params[i]] = way.groups[g].parameters[i]->name;
    }
    return names;
  }

  [[noreturn]] void refuse(std::vector<std::string> reasons) const {
    std::sort(reasons.begin(), reasons.end());
    reasons.erase(std::unique(reasons.begin(), reasons.end()), reasons.end());
    fail<CheckpointError>(
        "{}: its optimizer numbers {} parameters in groups of {}, and which they are cannot be "
        "decided from the weights:\n  {}\nExpected init.weights of the same run, and "
        "trainer.freeze as there",
        source_, state_.keys().size(), sizes_text(sizes_), fmt::join(reasons, "\n  "));
  }

 private:
  std::string fault(const Way& way) const {
    for (size_t g = 0; g < way.groups.size(); ++g) {
      const auto& group = state_.groups[g];
      const auto& division = way.groups[g];
      const auto weight_decay = group.number("weight_decay");
      if (has_decay_ && division.decays && weight_decay && *division.decays != (*weight_decay != 0))
        return fmt::format("group {} has weight_decay {}", g, *weight_decay);
      for (size_t h = 0; h < g; ++h) {
        const auto fault = layer_fault(way, h, g);
        if (!fault.empty()) return fault;
      }
      for (size_t i = 0; i < group.params.size(); ++i) {
        const auto sizes = state_.sizes_of(group.params[i]);
        const auto& parameter = *division.parameters[i];
        if (sizes && *sizes != parameter.sizes) {
          return fmt::format("{} [{}] would have moments [{}]", parameter.name,
                             fmt::join(parameter.sizes, ", "), fmt::join(*sizes, ", "));
        }
      }
    }
    return "";
  }

  // A lower layer has a lower learning rate, the same layer the same.
  std::string layer_fault(const Way& way, size_t a, size_t b) const {
    const auto scale_a = state_.groups[a].number("lr_scale");
    const auto scale_b = state_.groups[b].number("lr_scale");
    if (!scale_a || !scale_b) return "";
    const auto layer_a = way.groups[a].layer, layer_b = way.groups[b].layer;
    const bool fits = layer_a == layer_b  ? *scale_a == *scale_b
                      : layer_a < layer_b ? *scale_a <= *scale_b
                                          : *scale_a >= *scale_b;
    if (fits) return "";
    return fmt::format("groups {} and {}, of layers {} and {}, have lr_scale {} and {}", a, b,
                       layer_a, layer_b, *scale_a, *scale_b);
  }

  const OptimizerState& state_;
  const std::string& source_;
  std::vector<size_t> sizes_;
  bool has_decay_ = false;
};

}  // namespace

ParameterRules rules_of_names(const std::vector<std::string>& names) {
  const auto inner = [](std::string_view name) {
    constexpr std::string_view kEncoder = "encoder.";
    return name.starts_with(kEncoder) ? name.substr(kEncoder.size()) : name;
  };
  const auto block = [inner](std::string_view name) {
    constexpr std::string_view kBlocks = "blocks.";
    const auto own = inner(name);
    int64_t number = -1;
    if (own.starts_with(kBlocks))
      std::from_chars(own.data() + kBlocks.size(), own.data() + own.size(), number);
    return number;
  };
  int64_t depth = 0;
  for (const auto& name : names) depth = std::max(depth, block(name) + 1);
  const auto starts_with_any = [inner](const std::string& name,
                                       std::initializer_list<std::string_view> stems) {
    return std::any_of(stems.begin(), stems.end(),
                       [&](std::string_view stem) { return inner(name).starts_with(stem); });
  };
  return {.is_trained = [](const std::string&) { return true; },
          .has_no_weight_decay =
              [starts_with_any](const std::string& name) {
                return starts_with_any(name, {"pos_embed", "cls_token", "dist_token", "reg_token",
                                              "mask_token", "decoder_pos_embed", "class_embed"});
              },
          .layer_id = [=](const std::string& name) -> int64_t {
            if (starts_with_any(name, {"cls_token", "reg_token", "dist_token", "pos_embed",
                                       "adaptive_pos_embed", "patch_embed", "norm_pre"}))
              return 0;
            if (block(name) >= 0) return block(name) + 1;
            return starts_with_any(name, {"norm"}) ? depth : depth + 1;
          }};
}

bool are_names_told(const OptimizerState& state) {
  return std::all_of(state.groups.begin(), state.groups.end(),
                     [](const auto& group) { return group.names.size() == group.params.size(); });
}

std::map<std::string, std::string> parameter_names(const OptimizerState& state,
                                                   const std::vector<ForeignParameter>& parameters,
                                                   const ParameterRules& rules,
                                                   const std::string& source) {
  Names told;
  if (are_names_told(state)) {
    for (const auto& group : state.groups) {
      for (size_t i = 0; i < group.params.size(); ++i) told[group.params[i]] = group.names[i];
    }
    return told;
  }
  const Matcher matcher(state, source);
  std::vector<std::string> reasons, right;
  std::set<Names> found;
  for (const auto& way : Ways(rules).of(parameters)) {
    const auto names = matcher.names_of(way, reasons);
    if (!names) continue;
    found.insert(*names);
    right.push_back(way.title + ": would fit");
  }
  if (found.size() != 1) matcher.refuse(found.empty() ? reasons : right);
  return *found.begin();
}

}  // namespace fovea::weights
