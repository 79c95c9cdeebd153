#include "apps/fovea/reference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <vector>

#include "fovea/core/config.h"
#include "fovea/train/config.h"

namespace fovea::app {
namespace {

// Text inside a table cell.
std::string cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
    text.insert(at, "\\");
  return text;
}

std::string option_name(const CLI::Option& option) {
  const bool is_positional = option.get_positional();
  auto name = is_positional ? option.get_type_name() : option.get_name(false, true);
  return is_positional ? (option.get_required() ? name : "[" + name + "]") : name;
}

std::string command_section(const CLI::App& command, const std::string& parent) {
  const auto name = parent + " " + command.get_name();
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
  for (const auto* sub : command.get_subcommands({})) text += command_section(*sub, name);
  return text;
}

std::string allowed(const ConfigKey& key) {
  std::string text = key.range;
  if (!key.choices.empty()) text = fmt::format("{}", fmt::join(key.choices, ", "));
  if (!key.unit.empty()) text += (text.empty() ? "" : "; ") + key.unit;
  if (key.required) text += text.empty() ? "required" : "; required";
  return text;
}

std::string key_row(const ConfigKey& key) {
  auto help = key.help;
  if (!key.alternative.empty()) help += fmt::format(" (`{}`)", key.alternative);
  return fmt::format("| `{}` | {} | {} | {} | {} |", key.key, key.type,
                     key.default_value.empty() ? "" : "`" + cell(key.default_value) + "`",
                     cell(allowed(key)), cell(help));
}

std::string recipe_section() {
  std::string text = "## Recipe keys\n";
  std::string section;
  for (const auto& key : config_keys<train::TrainConfig>()) {
    const auto name = key.key.substr(0, key.key.find('.'));
    if (name != section) {
      text += fmt::format(
          "\n### {}\n\n| key | type | default | allowed | meaning |\n| --- | --- | --- | --- | --- "
          "|\n",
          name);
      section = name;
    }
    text += key_row(key) + "\n";
  }
  return text;
}

}  // namespace

std::string reference_page(const CLI::App& app) {
  std::string text =
      "# Reference\n\n"
      "Every command, flag and recipe key. Written by `fovea config reference`; a test holds this "
      "page against the "
      "program.\n\n## Commands\n\n";
  for (const auto* command : app.get_subcommands({})) text += command_section(*command, "fovea");
  return text + recipe_section();
}

}  // namespace fovea::app
