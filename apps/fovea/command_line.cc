#include "apps/fovea/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fovea/core/files.h"
#include "fovea/core/nearest.h"

namespace fovea::app {
namespace {

// CLI11 has such checks, but tells the range up to the largest double in all its digits.
CLI::Validator number_that(const char* is, const char* name, bool (*holds)(double)) {
  return CLI::Validator(
      [is, holds](std::string& text) {
        double number = 0;
        if (CLI::detail::lexical_cast(text, number) && holds(number)) return std::string();
        return fmt::format("found '{}', expected a number {}", text, is);
      },
      name);
}

}  // namespace

CommandOption& CommandOption::required() {
  option_->required();
  return *this;
}

CommandOption& CommandOption::type_name(const std::string& name) {
  option_->type_name(name);
  return *this;
}

CommandOption& CommandOption::delimiter(char between_values) {
  option_->delimiter(between_values);
  return *this;
}

CommandOption& CommandOption::one_word() {
  option_->allow_extra_args(false);
  return *this;
}

CommandOption& CommandOption::show_default() {
  option_->capture_default_str();
  return *this;
}

CommandOption& CommandOption::one_of(const std::vector<std::string>& words) {
  option_->check(CLI::Validator(
      [words](std::string& word) {
        if (std::find(words.begin(), words.end(), word) != words.end()) return std::string();
        return fmt::format("found '{}', expected one of {}{}", word, fmt::join(words, ", "),
                           or_did_you_mean(word, words));
      },
      fmt::format("{{{}}}", fmt::join(words, ","))));
  return *this;
}

CommandOption& CommandOption::in_range(int64_t low, int64_t high) {
  option_->check(CLI::Range(low, high));
  return *this;
}

CommandOption& CommandOption::share() {
  option_->check(CLI::Range(0.0, 1.0));
  return *this;
}

CommandOption& CommandOption::positive() {
  option_->check(number_that("above 0", "POSITIVE", [](double number) { return number > 0; }));
  return *this;
}

CommandOption& CommandOption::non_negative() {
  option_->check(
      number_that("of 0 or more", "NONNEGATIVE", [](double number) { return number >= 0; }));
  return *this;
}

CommandOption& CommandOption::existing_file() {
  option_->check(CLI::Validator(
      [](std::string& path) {
        if (is_there(path) && !is_folder(path)) return std::string();
        return fmt::format("{}: {}{}", path,
                           is_there(path) ? "a folder, not a file" : "no such file",
                           or_nearest_path(path));
      },
      "FILE"));
  return *this;
}

CommandOption& CommandOption::needs(CommandOption other) {
  option_->needs(other.option_);
  return *this;
}

CommandOption& CommandOption::excludes(CommandOption other) {
  option_->excludes(other.option_);
  return *this;
}

Command Command::add_command(const std::string& name, const std::string& help) {
  return Command(*parser_->add_subcommand(name, help));
}

template <class T>
CommandOption Command::add_option(const std::string& name, T& target, const std::string& help) {
  return CommandOption(*parser_->add_option(name, target, help));
}

template CommandOption Command::add_option(const std::string&, std::string&, const std::string&);
template CommandOption Command::add_option(const std::string&, int64_t&, const std::string&);
template CommandOption Command::add_option(const std::string&, uint64_t&, const std::string&);
template CommandOption Command::add_option(const std::string&, double&, const std::string&);
template CommandOption Command::add_option(const std::string&, std::optional<std::string>&,
                                           const std::string&);
template CommandOption Command::add_option(const std::string&, std::optional<int64_t>&,
                                           const std::string&);
template CommandOption Command::add_option(const std::string&, std::optional<double>&,
                                           const std::string&);
template CommandOption Command::add_option(const std::string&, std::vector<std::string>&,
                                           const std::string&);
template CommandOption Command::add_option(const std::string&, std::vector<int64_t>&,
                                           const std::string&);

CommandOption Command::add_flag(const std::string& name, bool& target, const std::string& help) {
  return CommandOption(*parser_->add_flag(name, target, help));
}

CommandOption Command::add_flag(const std::string& name, std::string& target,
                                const std::string& help) {
  return CommandOption(*parser_->add_flag(name, target, help));
}

Command& Command::examples(const std::vector<std::string>& lines) {
  std::string text = "Examples:";
  for (const auto& line : lines) text += "\n  " + line;
  parser_->footer(text);
  return *this;
}

void Command::require_command() { parser_->require_subcommand(1); }

// The parser calls it behind that of a command of its own, which is then what was asked for.
void Command::callback(std::function<void()> run) {
  parser_->callback([parser = parser_, run = std::move(run)] {
    if (parser->get_subcommands().empty()) run();
  });
}

}  // namespace fovea::app
