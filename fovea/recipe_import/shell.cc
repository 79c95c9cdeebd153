#include "fovea/recipe_import/shell.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <sstream>

#include "fovea/config/node.h"
#include "fovea/core/error.h"
#include "fovea/core/parse_number.h"
#include "fovea/recipe_import/shell_branches.h"
#include "fovea/recipe_import/shell_lists.h"
#include "fovea/recipe_import/shell_text.h"

namespace fovea::recipe_import {
namespace {

using Words = ShellWords;

constexpr int kMaxDefaults = 16;

// As a part of a file's name.
std::string in_a_name(const std::string& text) {
  std::string name;
  for (const char c : text.substr(0, 40)) {
    const bool is_kept = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-';
    name += is_kept ? c : '_';
  }
  return name;
}

// Of an assignment the name and what stands behind the `=`.
struct Assignment {
  std::string name;
  ShellText value;
};

std::optional<Assignment> assignment_of(const ShellText& word) {
  if (word.pieces.empty() || word.pieces[0].expands() || word.pieces[0].quoted) return {};
  const auto& text = word.pieces[0].text;
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0) return {};
  const auto name = text.substr(0, equals);
  if (std::isdigit(static_cast<unsigned char>(name[0])) != 0) return {};
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') return {};
  }
  Assignment found{name, word};
  found.value.pieces[0].text = text.substr(equals + 1);
  return found;
}

class Runner {
 public:
  explicit Runner(const std::string& source) : source_(source), branches_(source) {}

  void set(const std::string& name, Words values) {
    size_t size = 0;
    for (const auto& value : values) size += value.text.size() + 1;
    if (size > kMaxConfigBytes) {  // a script can double a value with each of its lines
      fail<ConfigError>("{}: the value of {} has more than {} bytes", source_, name,
                        kMaxConfigBytes);
    }
    branches_.assigning(name, values_);
    values_[name] = std::move(values);
  }
  void run(const std::vector<ShellStatement>& statements) { run(statements, 0, statements.size()); }
  std::vector<ShellCommand> commands() && { return std::move(commands_); }

 private:
  using Statements = std::vector<ShellStatement>;

  static bool opens_loop(const ShellStatement& statement) {
    const auto& head = plain_text(statement[head_of(statement)]);
    return head == "for" || head == "while" || head == "until" || head == "select";
  }

  // Where the command begins, behind words that only say how or whether it runs.
  static size_t head_of(const ShellStatement& statement) {
    static const std::set<std::string> kBefore = {"do",   "then",  "else",    "elif",    "if",
                                                  "{",    "!",     "time",    "export",  "local",
                                                  "exec", "nohup", "declare", "readonly"};
    size_t at = 0;
    while (at + 1 < statement.size() && kBefore.contains(plain_text(statement[at]))) ++at;
    return at;
  }

  static size_t end_of_loop(const Statements& statements, size_t first, size_t last) {
    int depth = 0;
    for (size_t i = first; i < last; ++i) {
      if (opens_loop(statements[i])) ++depth;
      if (plain_text(statements[i][head_of(statements[i])]) == "done" && --depth == 0) return i;
    }
    return last;
  }

  void run(const Statements& statements, size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      tell_branches(statements[i]);
      if (opens_loop(statements[i])) {
        const auto end = end_of_loop(statements, i, last);
        run_loop(statements, i, end);
        i = end;
      } else {
        run_one(statements[i]);
      }
    }
  }

  void tell_branches(const ShellStatement& statement) {
    const auto head = head_of(statement);
    for (size_t i = 0; i <= head; ++i) branches_.word(plain_text(statement[i]), values_);
    branches_.statement();
  }

  // From `for NAME in ...` up to its `done`.
  void run_loop(const Statements& statements, size_t at, size_t end) {
    const auto& head = statements[at];
    const auto first = head_of(head);
    const bool has_list = plain_text(head[first]) == "for" && head.size() > first + 3 &&
                          plain_text(head[first + 2]) == "in";
    Words values;
    if (has_list) {
      for (size_t i = first + 3; i < head.size(); ++i) expand(head[i], values);
    }
    const bool is_known = has_list && std::none_of(values.begin(), values.end(), [](const auto& v) {
                            return !v.unknown.empty();
                          });
    if (!is_known) {  // the turns cannot be told, so that its variable cannot either
      count_turn();
      if (head.size() > first + 1) values_.erase(plain_text(head[first + 1]));
      return run(statements, at + 1, end);
    }
    const auto name = plain_text(head[first + 1]);
    const auto outer = turn_;
    for (const auto& value : values) {
      set(name, {value});
      if (values.size() > 1) {
        turn_ =
            fmt::format("{}{}{}-{}", outer, outer.empty() ? "" : "_", name, in_a_name(value.text));
      }
      count_turn();
      run(statements, at + 1, end);
    }
    turn_ = outer;
  }

  void count_turn() {
    if (++turns_ <= kMaxShellTurns) return;
    fail<ConfigError>("{}: its loops have more than {} turns; give a file with one command",
                      source_, kMaxShellTurns);
  }

  void run_one(const ShellStatement& statement) {
    static const std::set<std::string> kWords = {"do", "done", "then", "else",
                                                 "fi", "esac", "{",    "}"};
    auto at = head_of(statement);
    if (kWords.contains(plain_text(statement[at]))) return;
    std::vector<Assignment> assignments;
    while (at < statement.size()) {
      auto found = assignment_of(statement[at]);
      if (!found) break;
      assignments.push_back(std::move(*found));
      ++at;
    }
    if (at == statement.size()) {
      for (const auto& assignment : assignments) assign(assignment);
      return;
    }
    ShellCommand command;
    command.turn = turn_;
    command.branches = branches_.now();
    for (; at < statement.size(); ++at) expand(statement[at], command.words);
    if (!command.words.empty()) commands_.push_back(std::move(command));
  }

  void assign(const Assignment& assignment) {
    Words values;
    if (assignment.value.is_array) {
      for (const auto& word : assignment.value.array) expand(word, values);
    } else {
      ShellWord value;
      for (const auto& piece : assignment.value.pieces) {
        if (!piece.expands()) {
          value.text += piece.text;
          continue;
        }
        const auto found = look_up(piece);
        for (size_t i = 0; i < found.size(); ++i) {
          value.text += (i > 0 ? " " : "") + found[i].text;
          if (value.unknown.empty()) value.unknown = found[i].unknown;
        }
      }
      values = {value};
    }
    set(assignment.name, std::move(values));
  }

  // The words that a word becomes.
  void expand(const ShellText& word, Words& out) {
    if (auto braces = words_of_braces(plain_text(word))) {
      out.insert(out.end(), braces->begin(), braces->end());
      return;
    }
    ShellWord now;
    bool is_open = false;
    const auto close = [&] {
      if (is_open) out.push_back(std::move(now));
      now = {};
      is_open = false;
    };
    for (const auto& piece : word.pieces) {
      if (!piece.expands()) {
        now.text += piece.text;
        is_open = is_open || piece.quoted || !piece.text.empty();
        continue;
      }
      const auto values = look_up(piece);
      for (size_t i = 0; i < values.size(); ++i) {
        if (i > 0) close();
        if (piece.quoted || !values[i].unknown.empty()) {
          now.text += values[i].text;
          if (now.unknown.empty()) now.unknown = values[i].unknown;
          is_open = true;
          continue;
        }
        for (const char c : values[i].text) {  // a word for each between spaces
          if (std::isspace(static_cast<unsigned char>(c)) != 0) {
            close();
          } else {
            now.text += c;
            is_open = true;
          }
        }
      }
    }
    close();
  }

  static Words unknown(const ShellPiece& piece) { return {{piece.shown, piece.shown}}; }

  Words look_up(const ShellPiece& piece) {
    const auto& text = piece.text;
    if (text.starts_with('(')) {
      const auto words = words_of_seq(text.substr(1, text.size() - 2));
      return words ? *words : unknown(piece);
    }
    size_t end = 0;
    while (end < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_')) {
      ++end;
    }
    const auto found = values_.find(text.substr(0, end));
    const auto rest = text.substr(end);
    const bool is_set = found != values_.end();
    if (rest.empty() || rest == "[@]" || rest == "[*]")
      return is_set ? found->second : unknown(piece);
    if (rest.starts_with('[') && rest.ends_with(']')) {
      const auto index = parse_number<int64_t>(rest.substr(1, rest.size() - 2));
      const bool is_there =
          is_set && index && *index >= 0 && *index < static_cast<int64_t>(found->second.size());
      return is_there ? Words{found->second[static_cast<size_t>(*index)]} : unknown(piece);
    }
    const auto skip = rest.starts_with(":-") || rest.starts_with(":=") ? 2U
                      : rest.starts_with('-') || rest.starts_with('=') ? 1U
                                                                       : 0U;
    if (end == 0 || skip == 0) return unknown(piece);
    return is_set ? found->second : default_of(rest.substr(skip));
  }

  // What `${NAME:-text}` gives where NAME has no value.
  Words default_of(const std::string& text) {
    Words words;
    if (++depth_ > kMaxDefaults) fail<ConfigError>("{}: ${{...}} nested too deep", source_);
    for (const auto& statement : shell_statements(text)) {
      for (const auto& word : statement) expand(word, words);
    }
    --depth_;
    ShellWord joined;
    for (const auto& word : words) {
      joined.text += (joined.text.empty() ? "" : " ") + word.text;
      if (joined.unknown.empty()) joined.unknown = word.unknown;
    }
    return {joined};
  }

  std::string source_, turn_;
  std::map<std::string, Words> values_;
  ShellBranches branches_;
  std::vector<ShellCommand> commands_;
  size_t turns_ = 0;
  int depth_ = 0;
};

// Lines #SBATCH --name=value, by the long names.
std::map<std::string, std::string> batch_lines(const std::string& text) {
  const std::map<std::string, std::string> kShort = {{"-N", "--nodes"}, {"-n", "--ntasks"}};
  std::map<std::string, std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("#SBATCH")) continue;
    for (auto& c : line) c = c == '=' ? ' ' : c;
    std::istringstream words(line.substr(7));
    std::string name, value;
    words >> name >> value;
    if (kShort.contains(name)) name = kShort.at(name);
    if (!name.starts_with("--")) continue;
    std::replace(name.begin(), name.end(), '-', '_');
    found[name.substr(2)] = value;
  }
  return found;
}

}  // namespace

ShellScript run_shell(const std::string& text, const std::string& source) {
  ShellScript script;
  script.batch = batch_lines(text);
  Runner runner(source);
  const std::map<std::string, std::string> variables = {
      {"nodes", "SLURM_NNODES"},
      {"ntasks", "SLURM_NTASKS"},
      {"ntasks_per_node", "SLURM_NTASKS_PER_NODE"},
      {"gpus_per_node", "SLURM_GPUS_ON_NODE"}};
  for (const auto& [key, name] : variables) {
    const auto found = script.batch.find(key);
    if (found == script.batch.end()) continue;
    runner.set(name, {{found->second}});
    if (key == "nodes") runner.set("SLURM_JOB_NUM_NODES", {{found->second}});
  }
  runner.run(shell_statements(text));
  script.commands = std::move(runner).commands();
  return script;
}

}  // namespace fovea::recipe_import
