// Which branches of a script's `if` and `case` a command stands in, and what their variables may be
// behind them: which one runs, only the shell knows.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fovea/recipe_import/shell.h"

namespace fovea::recipe_import {

class ShellBranches {
 public:
  using Values = std::map<std::string, ShellWords>;

  explicit ShellBranches(std::string source) : source_(std::move(source)) {}

  // A word in front of a command: `if`, `else`, `fi`, `case` ...; all others are passed over.
  // Behind `else` the variables are what they were before; behind `fi` one that may have several
  // values is unknown. Throws ConfigError where they are nested deeper than 64.
  void word(const std::string& text, Values& values);
  // A command or an assignment; within a `case` each is a branch of its own.
  void statement();
  // A variable gets another value than that in `values`.
  void assigning(const std::string& name, const Values& values);

  const std::vector<ShellBranch>& now() const { return now_; }

 private:
  // What the branches so far say of a variable.
  struct Said {
    ShellWords value;
    bool is_one = true;  // all say that
    size_t count = 0;    // of the branches that say anything
  };
  struct Frame {
    bool is_case = false, has_else = false;
    Values before = {};  // of those that were assigned: no words where it had no value
    std::set<std::string> names = {};  // assigned in this branch
    std::map<std::string, Said> said = {};
    size_t num_branches = 0;
  };
  void close_branch(Values& values);
  void close(Values& values);

  std::string source_;
  std::vector<ShellBranch> now_;
  std::vector<Frame> frames_;
  int count_ = 0;
};

// Whether one of two commands may run, but not both.
bool exclude_each_other(const ShellCommand& a, const ShellCommand& b);

}  // namespace fovea::recipe_import
