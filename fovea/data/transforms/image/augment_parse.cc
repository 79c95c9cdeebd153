#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>

#include "fovea/core/error.h"
#include "fovea/data/transforms/image/augment_policies.h"
#include "fovea/data/transforms/image/auto_augment.h"

namespace fovea::data {
namespace {

std::vector<std::string> pieces_of(std::string_view text) {
  std::vector<std::string> pieces(1);
  for (const char c : text) {
    if (c == '-') {
      pieces.emplace_back();
    } else {
      pieces.back() += c;
    }
  }
  return pieces;
}

struct Setting {
  std::string key;
  double value = 0;
};

Setting setting_of(const std::string& piece, std::string_view text) {
  const size_t digits = piece.find_first_of("0123456789");
  Setting setting{piece.substr(0, digits)};
  if (piece == "mstdinf") return {"mstd", std::numeric_limits<double>::infinity()};
  if (digits != std::string::npos) {
    const char* last = piece.data() + piece.size();
    const auto parsed = std::from_chars(piece.data() + digits, last, setting.value);
    if (parsed.ec == std::errc() && parsed.ptr == last) return setting;
  }
  fail<ConfigError>("{}: {} is not a letter or word with a number, such as m9 or mstd0.5", text,
                    piece);
}

[[noreturn]] void fail_unknown(const std::string& key, std::string_view text,
                               std::string_view known) {
  fail<ConfigError>("{}: {} is not known; expected {}", text, key, known);
}

int64_t whole_number(const Setting& setting, int64_t least, std::string_view text) {
  if (setting.value != std::floor(setting.value) || setting.value < static_cast<double>(least) ||
      setting.value > 1000) {
    fail<ConfigError>("{}: {}{}; expected a whole number from {} on", text, setting.key,
                      setting.value, least);
  }
  return static_cast<int64_t>(setting.value);
}

void add_choices(AugmentPolicy& policy, const std::vector<WeightedOp>& choices, double prob,
                 double magnitude) {
  double sum = 0;
  for (const auto& choice : choices) sum += choice.weight;
  auto& ops = policy.sub_policies.emplace_back();
  for (const auto& choice : choices) {
    ops.push_back({augment_op_kind(choice.name), prob, magnitude});
    if (sum > 0) policy.weights.push_back(choice.weight / sum);
  }
}

AugmentPolicy parse_rand(const std::vector<std::string>& pieces, std::string_view text) {
  AugmentPolicy policy{.kind = PolicyKind::kRand};
  double magnitude = kMagnitudeScale;
  double prob = 0.5;
  bool is_increasing = false;
  std::string transforms;
  for (size_t i = 1; i < pieces.size(); ++i) {
    if (pieces[i].starts_with('t')) {
      transforms = pieces[i].substr(1);
      continue;
    }
    const Setting setting = setting_of(pieces[i], text);
    if (setting.key == "m") {
      magnitude = static_cast<double>(whole_number(setting, 0, text));
    } else if (setting.key == "n") {
      policy.num_layers = whole_number(setting, 0, text);
    } else if (setting.key == "p") {
      prob = setting.value;
    } else if (setting.key == "mstd") {
      policy.magnitude_std =
          setting.value > 100 ? std::numeric_limits<double>::infinity() : setting.value;
    } else if (setting.key == "mmax") {
      policy.magnitude_max = static_cast<double>(whole_number(setting, 1, text));
    } else if (setting.key == "inc") {
      is_increasing = setting.value != 0;
    } else {
      fail_unknown(pieces[i], text, "m, n, p, mstd, mmax, inc or t");
    }
  }
  add_choices(policy, rand_augment_choices(transforms, is_increasing), prob, magnitude);
  const auto num_choices = static_cast<int64_t>(policy.sub_policies[0].size());
  if (!policy.weights.empty() && policy.num_layers > num_choices) {
    fail<ConfigError>("{}: {} operations from {} that are drawn once each; use a smaller n", text,
                      policy.num_layers, num_choices);
  }
  return policy;
}

AugmentPolicy parse_auto(const std::vector<std::string>& pieces, std::string_view text) {
  AugmentPolicy policy{.kind = PolicyKind::kSubPolicies};
  policy.sub_policies = auto_augment_policy(pieces[0]);
  if (policy.sub_policies.empty()) {
    fail<ConfigError>(
        "{}: no such policy; expected original, originalr, v0, v0r, 3a, rand-... or augmix-...",
        text);
  }
  for (size_t i = 1; i < pieces.size(); ++i) {
    const Setting setting = setting_of(pieces[i], text);
    if (setting.key != "mstd") fail_unknown(pieces[i], text, "mstd");
    policy.magnitude_std = setting.value;
  }
  return policy;
}

AugmentPolicy parse_aug_mix(const std::vector<std::string>& pieces, std::string_view text) {
  AugmentPolicy policy{.kind = PolicyKind::kAugMix,
                       .magnitude_std = std::numeric_limits<double>::infinity()};
  double magnitude = 3;
  for (size_t i = 1; i < pieces.size(); ++i) {
    const Setting setting = setting_of(pieces[i], text);
    if (setting.key == "m") {
      magnitude = static_cast<double>(whole_number(setting, 0, text));
    } else if (setting.key == "w") {
      policy.width = whole_number(setting, 1, text);
    } else if (setting.key == "d") {
      policy.depth = whole_number(setting, 1, text);
    } else if (setting.key == "a") {
      policy.alpha = setting.value;
    } else if (setting.key == "b") {
      policy.is_blended = setting.value != 0;
    } else if (setting.key == "mstd") {
      policy.magnitude_std = setting.value;
    } else {
      fail_unknown(pieces[i], text, "m, w, d, a, b or mstd");
    }
  }
  if (!(policy.alpha > 0)) fail<ConfigError>("{}: a{}; expected above 0", text, policy.alpha);
  auto& ops = policy.sub_policies.emplace_back();
  for (const auto name : aug_mix_choices()) ops.push_back({augment_op_kind(name), 1.0, magnitude});
  return policy;
}

}  // namespace

AugmentPolicy parse_augment_policy(std::string_view text) {
  const auto pieces = pieces_of(text);
  if (pieces[0] == "rand") return parse_rand(pieces, text);
  if (pieces[0] == "augmix") return parse_aug_mix(pieces, text);
  return parse_auto(pieces, text);
}

}  // namespace fovea::data
