#include "apps/fovea/man_page.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "apps/fovea/usage.h"

namespace fovea::app {
namespace {

// Text of a page: no line of it is a request, and hyphens stay hyphens.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
      out += c;
    }
  }
  return out;
}

std::string page_name(const CLI::App& command) {
  auto name = full_name(command);
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

// "--device {auto,cpu,cuda}", "RECIPE|RUN_DIR".
std::string term_of(const CLI::Option& option) {
  if (option.get_positional()) return option.get_type_name();
  const auto name = option.get_name(false, true);
  return option.get_items_expected_max() == 0 ? name : name + " " + option.get_type_name();
}

std::string synopsis(const CLI::App& command) {
  auto text = full_name(command);
  const bool has_commands = !command.get_subcommands({}).empty();
  if (has_commands && !takes_arguments(command)) return text + " COMMAND ...";
  for (const auto* option : command.get_options()) {
    if (!option->get_positional()) continue;
    const auto name = option->get_type_name();
    text += option->get_required() ? " " + name : " [" + name + "]";
  }
  return text + " [OPTIONS]" + (has_commands ? " [COMMAND ...]" : "");
}

std::string option_entries(const CLI::App& command) {
  std::string text;
  for (const auto* option : command.get_options()) {
    const auto standard = option->get_default_str();
    text += fmt::format(".TP\n\\fB{}\\fR\n{}{}\n", roff(term_of(*option)),
                        roff(option->get_description()),
                        standard.empty() ? "" : roff(" (default: " + standard + ")"));
  }
  return text;
}

constexpr const char* kExitCodes =
    ".SH EXIT STATUS\n"
    "0: done; 2: usage; 3: config; 4: data, weights or a checkpoint; 5: out of memory; 6: "
    "diverged; "
    "7: a process hung; 75: stopped, and the same command goes on.\n";

std::string page_of(const CLI::App& command) {
  auto text = fmt::format(".TH \"{}\" 1 \"\" \"fovea {}\" \"Fovea\"\n.SH NAME\n{} \\- {}\n",
                          roff(page_name(command)), FOVEA_VERSION, roff(page_name(command)),
                          roff(command.get_description()));
  text += fmt::format(".SH SYNOPSIS\n.B {}\n", roff(synopsis(command)));
  const auto commands = command.get_subcommands({});
  if (!commands.empty()) text += ".SH COMMANDS\n";
  for (const auto* sub : commands) {
    text += fmt::format(".TP\n\\fB{}\\fR(1)\n{}\n", roff(page_name(*sub)),
                        roff(sub->get_description()));
  }
  text += ".SH OPTIONS\n" + option_entries(command);
  const auto examples = examples_of(command);
  if (!examples.empty()) text += ".SH EXAMPLES\n.nf\n";
  for (const auto& example : examples) text += roff(example) + "\n";
  if (!examples.empty()) text += ".fi\n";
  text += kExitCodes;
  const auto* parent = command.get_parent();
  if (parent != nullptr)
    text += fmt::format(".SH SEE ALSO\n\\fB{}\\fR(1)\n", roff(page_name(*parent)));
  return text;
}

}  // namespace

std::vector<ManPage> man_pages(const CLI::App& program) {
  std::vector<ManPage> pages;
  for (const auto* command : all_commands(program)) {
    pages.push_back({.name = page_name(*command), .text = page_of(*command)});
  }
  return pages;
}

}  // namespace fovea::app
