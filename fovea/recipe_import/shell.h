// Commands out of a shell's script, with what it says of its variables put in.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace fovea::recipe_import {

struct ShellWord {
  std::string text;
  // What in it the shell would replace by something that the script does not say: "$LR".
  std::string unknown = {};
};

using ShellWords = std::vector<ShellWord>;

// A branch of an `if` or `case`, of which only one runs.
struct ShellBranch {
  int of = 0, branch = 0;
};

struct ShellCommand {
  ShellWords words;
  std::string turn = {};  // of the loops around it, "lr-1e-3_wd-0.05"; empty: none of several
  std::vector<ShellBranch> branches = {};  // around it, the outermost first
};

struct ShellScript {
  std::vector<ShellCommand> commands;        // in the order in which they run
  std::map<std::string, std::string> batch;  // of lines #SBATCH: "nodes", "ntasks_per_node"
};

// Variables, arrays, defaults (${LR:-1e-3}), `seq`, braces and loops over lists are expanded;
// commands within others, arguments of the script and arithmetic are not, and are named in the
// words; so is a variable that an `if` gives one value or another. Commands of all branches are
// there, each with those around it. Throws ConfigError for loops of more than 1,000 turns.
ShellScript run_shell(const std::string& text, const std::string& source);

}  // namespace fovea::recipe_import
