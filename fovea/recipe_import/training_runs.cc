// Which commands of a script train, and in which turns of its loops.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "fovea/core/error.h"
#include "fovea/core/printable.h"
#include "fovea/recipe_import/command_line.h"
#include "fovea/recipe_import/shell_branches.h"

namespace fovea::recipe_import {
namespace {

const std::set<std::string> kEvaluators = {"validate.py", "inference.py", "bulk_runner.py"};

bool trains(const ShellCommand& command) {
  return std::any_of(command.words.begin(), command.words.end(), [](const ShellWord& word) {
    return is_trainer(word) || word.text == "--cmd";
  });
}

// The script that runs, and the flag by which one that trains evaluates; "": it does not.
std::string evaluation_of(const ShellCommand& command) {
  for (size_t i = 0; i < command.words.size(); ++i) {
    if (kEvaluators.contains(file_name(command.words[i]))) return file_name(command.words[i]);
    const auto& text = command.words[i].text;
    const bool has_value = text.find('=') != std::string::npos
                               ? !text.ends_with('=')
                               : i + 1 < command.words.size() && !command.words[i + 1].text.empty();
    if ((text.starts_with("--eval_checkpoint") || text.starts_with("--eval-checkpoint")) &&
        has_value) {
      return "--eval_checkpoint";
    }
  }
  return "";
}

std::string text_of(const ShellCommand& command) {
  std::string text;
  for (const auto& word : command.words) text += word.text + "\n";
  return text;
}

// As a message shows it.
std::string line_of(const ShellCommand& command) {
  std::string line;
  for (const auto& word : command.words) line += (line.empty() ? "" : " ") + word.text;
  return printable_start(line, 160);
}

// Lines that begin with a flag go on with the command before them, as in a file of flags.
std::vector<ShellCommand> joined(std::vector<ShellCommand> commands) {
  std::vector<ShellCommand> out;
  for (auto& command : commands) {
    const bool goes_on =
        !out.empty() && is_flag(command.words.front()) && out.back().turn == command.turn;
    if (!goes_on) {
      out.push_back(std::move(command));
      continue;
    }
    auto& words = out.back().words;
    std::move(command.words.begin(), command.words.end(), std::back_inserter(words));
  }
  return out;
}

struct Turn {
  std::string name;
  std::vector<ShellCommand> commands;
};

// A turn that says the same as another one is that one.
std::vector<Turn> different_turns(const std::vector<ShellCommand>& commands) {
  std::vector<Turn> turns;
  for (const auto& command : commands) {
    const auto found = std::find_if(turns.begin(), turns.end(),
                                    [&](const Turn& turn) { return turn.name == command.turn; });
    if (found == turns.end()) {
      turns.push_back({command.turn, {command}});
    } else {
      found->commands.push_back(command);
    }
  }
  std::set<std::string> seen;
  std::erase_if(turns, [&](const Turn& turn) {
    std::string text;
    for (const auto& command : turn.commands) text += text_of(command) + "\n";
    return !seen.insert(text).second;
  });
  if (turns.size() == 1) turns.front().name.clear();
  return turns;
}

}  // namespace

void check_one_branch(const std::vector<ShellCommand>& commands, const std::string& source) {
  for (size_t i = 0; i < commands.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (!exclude_each_other(commands[k], commands[i])) continue;
      fail<ConfigError>(
          "{}: an `if` or `case` trains in one way or in another, and which of them runs only the "
          "shell knows:\n  {}\n  {}\nNo recipe was written; expected a file with the one that runs",
          source, line_of(commands[k]), line_of(commands[i]));
    }
  }
}

std::vector<TrainingRun> training_runs(const std::string& text, const std::string& source,
                                       const CommandSettings& read, std::string& remark) {
  const auto script = run_shell(text, source);
  const auto all = joined(script.commands);
  std::vector<ShellCommand> commands;
  std::string evaluation;
  for (const auto& command : all) {
    if (const auto by = evaluation_of(command); !by.empty()) {
      evaluation = by;
    } else if (trains(command)) {
      commands.push_back(command);
    }
  }
  if (commands.empty() && !evaluation.empty()) {
    fail<ConfigError>(
        "{}: {} evaluates, and a recipe trains; no recipe was written. Import "
        "the line without that, then `fovea eval recipe.yaml init.weights=FILE` evaluates the file",
        source, evaluation);
  }
  if (!evaluation.empty()) {
    remark = fmt::format("left out: {}, which evaluates; `fovea eval RUN_DIR` does", evaluation);
  }
  if (commands.empty()) {  // flags alone
    commands.push_back({});
    for (const auto& command : all) {
      std::copy(command.words.begin(), command.words.end(),
                std::back_inserter(commands.back().words));
    }
  }
  check_one_branch(commands, source);
  const auto beside = std::count_if(commands.begin(), commands.end(),
                                    [](const auto& command) { return command.turn.empty(); });
  if (beside > 0 && beside < static_cast<std::ptrdiff_t>(commands.size())) {
    fail<ConfigError>(
        "{}: commands that train in a loop, and others beside it; which of them goes on from which "
        "cannot be told. Expected one of the two: write the loop into a file of its own",
        source);
  }
  std::vector<TrainingRun> runs;
  for (const auto& turn : different_turns(commands)) {
    runs.push_back({turn.name, {}});
    for (const auto& command : turn.commands) {
      runs.back().phases.push_back(read(command, script));
    }
  }
  return runs;
}

}  // namespace fovea::recipe_import
