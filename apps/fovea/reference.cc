#include "apps/fovea/reference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <vector>

#include "apps/fovea/usage.h"
#include "fovea/config/config.h"
#include "fovea/train/recipe/config.h"

namespace fovea::app {
namespace {

// Text inside a table cell.
std::string cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
    text.insert(at, "\\");
  return text;
}

std::string option_name(const CLI::Option& option) {
  const auto name = argument_name(option);
  return option.get_positional() && !option.get_required() ? "[" + name + "]" : name;
}

std::string command_section(const CLI::App& command) {
  const auto name = full_name(command);
  auto text = fmt::format("### {}\n\n{}.\n\n", name, command.get_description());
  std::vector<std::string> rows;
  for (const auto* option : command.get_options()) {
    if (option->check_lname("help")) continue;
    const auto standard = option->get_default_str();
    rows.push_back(fmt::format("| `{}` | {} | {} |", cell(option_name(*option)),
                               cell(option->get_description()),
                               standard.empty() ? "" : "`" + standard + "`"));
  }
  if (!rows.empty()) {
    text += fmt::format("| argument | meaning | default |\n| --- | --- | --- |\n{}\n\n",
                        fmt::join(rows, "\n"));
  }
  const auto examples = examples_of(command);
  if (!examples.empty()) text += fmt::format("```\n{}\n```\n\n", fmt::join(examples, "\n"));
  for (const auto* sub : command.get_subcommands({})) text += command_section(*sub);
  return text;
}

std::string allowed(const ConfigKey& key) {
  std::string text = key.range;
  if (!key.choices.empty()) text = fmt::format("{}", fmt::join(key.choices, ", "));
  if (!key.unit.empty()) text += (text.empty() ? "" : "; ") + key.unit;
  if (key.required) text += text.empty() ? "required" : "; required";
  return text;
}

// Sections that take what another one takes: they are named, and their rows are left out.
struct Alias {
  std::string_view section, like;
};
constexpr Alias kAliases[] = {{"data.val.", "data.train."},
                              {"data.train.sets.*.source.", "data.train."}};

// The row without the alternatives that it belongs to.
std::string row_of(const ConfigKey& key) {
  return fmt::format("| `{}` | {} | {} | {} | {}", key.key, key.type,
                     key.default_value.empty() ? "" : "`" + cell(key.default_value) + "`",
                     cell(allowed(key)), cell(key.help));
}

// A key that several formats or transforms have in the same words is one row, and says of which
// transforms it is one; the formats are told by their own keys.
std::string alternative_of(const std::string& alternative) {
  const size_t last = alternative.rfind(" and ");
  return last == std::string::npos ? alternative : alternative.substr(last + 5);
}

struct Rows {
  std::vector<std::string> order;
  std::map<std::string, std::vector<std::string>> alternatives;  // by row

  void add(const ConfigKey& key) {
    const auto row = row_of(key);
    auto [found, is_new] = alternatives.try_emplace(row);
    if (is_new) order.push_back(row);
    const auto alternative = alternative_of(key.alternative);
    auto& known = found->second;
    if (std::find(known.begin(), known.end(), alternative) == known.end()) {
      known.push_back(alternative);
    }
  }

  std::string text() const {
    std::string all;
    for (const auto& row : order) {
      const auto& names = alternatives.at(row);
      const bool is_always = std::find(names.begin(), names.end(), "") != names.end();
      all += row + (is_always ? "" : fmt::format(" (`{}`)", fmt::join(names, "`, `"))) + " |\n";
    }
    return all;
  }
};

std::string recipe_section() {
  std::string text =
      "## Recipe keys\n\n"
      "Where an end of the allowed range is not given, an integer is within -2147483648 and "
      "2147483647, and a number within -1e30 and 1e30.\n\n";
  for (const auto& alias : kAliases) {
    text += fmt::format("`{}*` takes what `{}*` takes.\n", alias.section, alias.like);
  }
  std::vector<std::string> sections;
  std::map<std::string, Rows> rows;
  for (const auto& key : config_keys<train::TrainConfig>()) {
    const auto is_alias = [&](const Alias& alias) { return key.key.starts_with(alias.section); };
    if (std::any_of(std::begin(kAliases), std::end(kAliases), is_alias)) continue;
    const auto name = key.key.substr(0, key.key.find('.'));
    if (!rows.contains(name)) sections.push_back(name);
    rows[name].add(key);
  }
  for (const auto& name : sections) {
    text += fmt::format(
        "\n### {}\n\n| key | type | default | allowed | meaning |\n| --- | --- | --- | --- | --- "
        "|\n{}",
        name, rows[name].text());
  }
  return text;
}

}  // namespace

std::string reference_page(Command app) {
  std::string text =
      "# Reference\n\n"
      "Every command, flag and recipe key. Written by `fovea config reference`; a test holds this "
      "page against the "
      "program.\n\n## Commands\n\n";
  for (const auto* command : app.parser().get_subcommands({})) {
    text += command_section(*command);
  }
  return text + recipe_section();
}

}  // namespace fovea::app
