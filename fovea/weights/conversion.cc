#include "fovea/weights/conversion.h"

#include <ATen/ops/cat.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "fovea/core/error.h"
#include "fovea/weights/parameter_names.h"

namespace fovea::weights {
namespace {

// A rule with its patterns ready to match.
struct CompiledRule {
  const Rule* rule;
  std::vector<Pattern> foreign;
  Pattern fovea;
};

std::vector<CompiledRule> compile(const Naming& naming) {
  std::vector<CompiledRule> rules;
  for (const auto& rule : naming.rules) {
    CompiledRule compiled{&rule, {}, Pattern(rule.fovea)};
    for (const auto pattern : rule.foreign) compiled.foreign.emplace_back(pattern);
    rules.push_back(std::move(compiled));
  }
  return rules;
}

[[noreturn]] void refuse_shape(const std::string& name, const at::Tensor& tensor,
                               std::string_view expected) {
  fail<CheckpointError>("{} has the shape [{}]; expected {}", name, fmt::join(tensor.sizes(), ", "),
                        expected);
}

// Rows [a, b, K] as [b, a, K], where K follows from their number.
at::Tensor swapped_rows(const std::string& name, const at::Tensor& tensor, int64_t a, int64_t b,
                        int64_t num_heads) {
  if (num_heads == 0) {
    fail<ConfigError>(
        "{}: there queries, keys and values stand head by head, and the number of heads is not in "
        "the weights; name the model that they are of: --model, or a recipe",
        name);
  }
  if (tensor.dim() < 1 || tensor.size(0) % (3 * num_heads) != 0) {
    refuse_shape(name, tensor,
                 fmt::format("queries, keys and values of {} heads, as the model has", num_heads));
  }
  return tensor.unflatten(0, {a, b, -1}).transpose(0, 1).flatten(0, 2);
}

at::Tensor laid_out(const std::string& name, const at::Tensor& tensor, Layout layout,
                    int64_t num_heads) {
  const auto dims = tensor.dim();
  switch (layout) {
    case Layout::kSame:
      return tensor;
    case Layout::kTransposed:
      if (dims != 2) refuse_shape(name, tensor, "[inputs, outputs]");
      return tensor.t();
    case Layout::kConvolution:
      if (dims != 4) refuse_shape(name, tensor, "[patch, patch, channels, outputs]");
      return tensor.permute({3, 2, 0, 1});
    case Layout::kHeadsBehind:
      if (dims != 2 && dims != 3) refuse_shape(name, tensor, "[inputs, heads, head_dim]");
      return dims == 2 ? tensor.flatten() : tensor.flatten(1).t();
    case Layout::kHeadsInFront:
      if (dims != 3) refuse_shape(name, tensor, "[heads, head_dim, outputs]");
      return tensor.flatten(0, 1).t();
    case Layout::kInterleaved:
      return swapped_rows(name, tensor, num_heads, 3, num_heads);
  }
  fail("layout {} is not in the table", static_cast<int>(layout));
}

// The inverse of laid_out where it is one.
at::Tensor laid_back(const std::string& name, const at::Tensor& tensor, Layout layout,
                     int64_t num_heads) {
  if (layout == Layout::kInterleaved) return swapped_rows(name, tensor, 3, num_heads, num_heads);
  FOVEA_CHECK(layout == Layout::kSame || layout == Layout::kTransposed,
              "{}: a layout that is only read", name);
  return layout == Layout::kSame ? tensor : tensor.t();
}

std::string line_of(const std::vector<std::string>& from, const std::string& to) {
  return fmt::format("{} -> {}", fmt::join(from, " + "), to);
}

// The tensors that are joined to one of Fovea's, as they come in.
struct Group {
  const CompiledRule* rule = nullptr;
  Pattern::Captures captures;
  std::vector<std::string> names;
  std::vector<at::Tensor> parts;
};

class ForeignReader {
 public:
  ForeignReader(const Naming& naming, int64_t num_heads)
      : rules_(compile(naming)), num_heads_(num_heads) {}

  Conversion read(const nn::NamedTensors& tensors) {
    for (const auto& [name, tensor] : tensors) {
      if (!place(name, tensor)) conversion_.report.unexpected.push_back(name);
    }
    for (const auto& target : order_) finish(target, groups_.at(target));
    return std::move(conversion_);
  }

 private:
  bool place(const std::string& name, const at::Tensor& tensor) {
    for (const auto& rule : rules_) {
      for (size_t part = 0; part < rule.foreign.size(); ++part) {
        const auto captures = rule.foreign[part].match(name);
        if (!captures) continue;
        if (rule.rule->fovea.empty()) {
          conversion_.report.left_out.push_back(name);
          return true;
        }
        const auto target = rule.fovea.expand(*captures);
        FOVEA_CHECK(target.has_value(), "the rule for {} names what it does not capture",
                    rule.rule->fovea);
        auto& group = groups_[*target];
        if (group.parts.empty()) {
          group = {&rule, *captures, std::vector<std::string>(rule.foreign.size()),
                   std::vector<at::Tensor>(rule.foreign.size())};
          order_.push_back(*target);
        }
        if (group.rule != &rule || group.parts[part].defined()) {
          fail<CheckpointError>("{} and {} would both become {}", name, fmt::join(group.names, " "),
                                *target);
        }
        group.names[part] = name;
        group.parts[part] = laid_out(name, tensor, rule.rule->layout, num_heads_);
        return true;
      }
    }
    return false;
  }

  void finish(const std::string& target, const Group& group) {
    auto& report = conversion_.report;
    bool is_whole = true;
    for (size_t part = 0; part < group.parts.size(); ++part) {
      if (group.parts[part].defined()) continue;
      is_whole = false;
      report.missing.push_back(group.rule->foreign[part].expand(group.captures).value_or(target));
    }
    if (!is_whole) return;
    const bool is_same = group.parts.size() == 1 && group.names.front() == target;
    if (is_same) {
      report.same.push_back(target);
    } else {
      report.converted.push_back(line_of(group.names, target));
    }
    conversion_.tensors.emplace_back(target, join(group));
  }

  static at::Tensor join(const Group& group) {
    const auto& first = group.parts.front();
    if (group.parts.size() == 1) return first;
    for (size_t i = 0; i < group.parts.size(); ++i) {
      const auto& part = group.parts[i];
      if (part.dim() < 1 || part.sizes().slice(1) != first.sizes().slice(1) ||
          part.scalar_type() != first.scalar_type())
        refuse_shape(group.names[i], part, fmt::format("one like {}'s", group.names.front()));
    }
    return at::cat(group.parts, 0);
  }

  std::vector<CompiledRule> rules_;
  int64_t num_heads_;
  std::map<std::string, Group> groups_;
  std::vector<std::string> order_;
  Conversion conversion_;
};

// One of Fovea's tensors to the one or several that a rule makes of it; false: another rule.
bool write_by(const CompiledRule& rule, const std::string& name, const at::Tensor& tensor,
              int64_t num_heads, Conversion& conversion) {
  if (rule.rule->fovea.empty()) return false;
  const auto captures = rule.fovea.match(name);
  if (!captures) return false;
  std::vector<std::string> targets;
  for (const auto& pattern : rule.foreign) {
    const auto target = pattern.expand(*captures);
    if (!target) return false;  // the foreign name holds what Fovea's does not
    targets.push_back(*target);
  }
  const auto count = static_cast<int64_t>(targets.size());
  if (count > 1 && (tensor.dim() < 1 || tensor.size(0) % count != 0))
    refuse_shape(name, tensor, fmt::format("{} equal parts", count));
  const auto parts = count > 1 ? tensor.chunk(count, 0) : std::vector<at::Tensor>{tensor};
  for (size_t i = 0; i < targets.size(); ++i) {
    conversion.tensors.emplace_back(targets[i],
                                    laid_back(name, parts[i], rule.rule->layout, num_heads));
    conversion.origins.push_back(name);
  }
  auto& report = conversion.report;
  if (count == 1 && targets.front() == name) {
    report.same.push_back(name);
  } else {
    report.converted.push_back(fmt::format("{} -> {}", name, fmt::join(targets, " + ")));
  }
  return true;
}

std::string section_text(const char* title, const std::vector<std::string>& names) {
  constexpr size_t kShownNames = 6;
  if (names.empty()) return "";
  const auto end = names.begin() + static_cast<int64_t>(std::min(kShownNames, names.size()));
  auto text =
      fmt::format("\n  {:<11} {:>4}  {}", title, names.size(), fmt::join(names.begin(), end, ", "));
  return names.size() > kShownNames ? text + ", ..." : text;
}

}  // namespace

std::string ConversionReport::text() const {
  std::string text = fmt::format("{} tensors", same.size() + converted.size()) +
                     section_text("same", same) + section_text("converted", converted) +
                     section_text("left out", left_out) + section_text("missing", missing) +
                     section_text("unexpected", unexpected);
  for (const auto& note : notes) text += fmt::format("\n  note: {}", note);
  return text;
}

const Naming* find_naming(const nn::NamedTensors& tensors) {
  for (const auto& naming : namings()) {
    for (const auto sign : naming.signs) {
      const Pattern pattern(sign);
      for (const auto& item : tensors) {
        if (pattern.match(item.first)) return &naming;
      }
    }
  }
  return nullptr;
}

std::vector<std::string> fovea_names(const Naming& naming, const std::vector<std::string>& names) {
  const auto rules = compile(naming);
  std::vector<std::string> found;
  for (const auto& name : names) {
    std::optional<Pattern::Captures> captures;
    const CompiledRule* rule = nullptr;
    for (size_t i = 0; i < rules.size() && !captures; ++i) {
      rule = &rules[i];
      for (size_t part = 0; part < rule->foreign.size() && !captures; ++part)
        captures = rule->foreign[part].match(name);
    }
    const bool has_name = captures && !rule->rule->fovea.empty();
    auto target = has_name ? rule->fovea.expand(*captures).value_or("") : "";
    if (naming.name_after_reading != nullptr) target = naming.name_after_reading(std::move(target));
    found.push_back(std::move(target));
  }
  return found;
}

namespace {

// A table passes some names on as they stand; what is no name of a model's parameter is unexpected
// all the same.
void report_unknown_names(Conversion& conversion) {
  auto& report = conversion.report;
  for (const auto& item : conversion.tensors) {
    if (is_parameter_name(item.first)) continue;
    report.unexpected.push_back(item.first);
    std::erase(report.same, item.first);
  }
}

}  // namespace

Conversion to_fovea(const Naming& naming, nn::NamedTensors tensors, int64_t num_heads) {
  Notes notes;
  if (naming.before_reading) tensors = naming.before_reading(std::move(tensors), notes);
  auto conversion = ForeignReader(naming, num_heads).read(tensors);
  if (naming.after_reading)
    conversion.tensors = naming.after_reading(std::move(conversion.tensors), notes);
  report_unknown_names(conversion);
  conversion.report.notes = std::move(notes);
  return conversion;
}

Conversion from_fovea(const Naming& naming, nn::NamedTensors tensors, int64_t num_heads) {
  if (!naming.is_written) {
    fail<ConfigError>("{} is read, not written; write the names of another system", naming.title);
  }
  Notes notes;
  if (naming.before_writing) tensors = naming.before_writing(std::move(tensors), notes);
  Conversion conversion;
  const auto rules = compile(naming);
  for (const auto& item : tensors) {
    const bool is_known = std::any_of(rules.begin(), rules.end(), [&](const CompiledRule& rule) {
      return write_by(rule, item.first, item.second, num_heads, conversion);
    });
    if (!is_known) conversion.report.unexpected.push_back(item.first);
  }
  conversion.report.notes = std::move(notes);
  return conversion;
}

}  // namespace fovea::weights
