#include "fovea/recipe_import/shell_branches.h"

#include <algorithm>

#include "fovea/core/error.h"

namespace fovea::recipe_import {
namespace {

constexpr size_t kMaxBranches = 64;

bool is_same(const ShellWords& a, const ShellWords& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.text == y.text && x.unknown == y.unknown;
  });
}

}  // namespace

void ShellBranches::word(const std::string& text, Values& values) {
  if (text == "if" || text == "case") {
    if (frames_.size() == kMaxBranches)
      fail<ConfigError>("{}: `if`s nested deeper than {}", source_, kMaxBranches);
    frames_.push_back({.is_case = text == "case"});
    now_.push_back({++count_, 0});
  } else if (frames_.empty()) {
    return;
  } else if ((text == "else" || text == "elif") && !frames_.back().is_case) {
    frames_.back().has_else = frames_.back().has_else || text == "else";
    close_branch(values);
    ++now_.back().branch;
  } else if (text == (frames_.back().is_case ? "esac" : "fi")) {
    close(values);
  }
}

void ShellBranches::statement() {
  if (!frames_.empty() && frames_.back().is_case) ++now_.back().branch;
}

void ShellBranches::assigning(const std::string& name, const Values& values) {
  const auto found = values.find(name);
  for (auto& frame : frames_) {
    frame.names.insert(name);
    frame.before.try_emplace(name, found == values.end() ? ShellWords() : found->second);
  }
}

// Notes what the branch assigned, and takes it back.
void ShellBranches::close_branch(Values& values) {
  auto& frame = frames_.back();
  for (const auto& name : frame.names) {
    auto& said = frame.said[name];
    const auto found = values.find(name);  // a loop without a list takes its variable away
    const auto value = found == values.end() ? ShellWords{{"$" + name, "$" + name}} : found->second;
    if (said.count++ == 0) {
      said.value = value;
    } else {
      said.is_one = said.is_one && is_same(said.value, value);
    }
    const auto& before = frame.before.at(name);
    if (before.empty()) {
      values.erase(name);
    } else {
      values[name] = before;
    }
  }
  frame.names.clear();
  ++frame.num_branches;
}

void ShellBranches::close(Values& values) {
  close_branch(values);
  const auto frame = std::move(frames_.back());
  frames_.pop_back();
  now_.pop_back();
  for (const auto& [name, said] : frame.said) {
    // What only one branch says and nothing else does is a default: if [ -z "$LR" ]; then LR=1; fi
    const bool in_all = frame.has_else && said.count == frame.num_branches;
    const auto& before = frame.before.at(name);
    const bool is_one =
        said.is_one && !frame.is_case && (in_all || before.empty() || is_same(said.value, before));
    values[name] = is_one ? said.value : ShellWords{{"$" + name, "$" + name}};
  }
}

bool exclude_each_other(const ShellCommand& a, const ShellCommand& b) {
  for (const auto& one : a.branches) {
    for (const auto& other : b.branches) {
      if (one.of == other.of && one.branch != other.branch) return true;
    }
  }
  return false;
}

}  // namespace fovea::recipe_import
