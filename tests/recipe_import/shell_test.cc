#include "fovea/recipe_import/shell.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "fovea/recipe_import/shell_branches.h"
#include "fovea/recipe_import/shell_text.h"

namespace fovea::recipe_import {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

std::vector<std::string> texts(const ShellWords& words) {
  std::vector<std::string> all;
  for (const auto& word : words) all.push_back(word.text);
  return all;
}

// The words of the script's last command.
std::vector<std::string> last_words(const std::string& script) {
  return texts(run_shell(script, "run.sh").commands.back().words);
}

TEST(ShellTest, WordsAndStatements) {
  EXPECT_THAT(last_words("a 'b c' \"d'e\" f\\ g # h"), ElementsAre("a", "b c", "d'e", "f g"));
  EXPECT_THAT(last_words("a \\\n  --b c"), ElementsAre("a", "--b", "c"));
  EXPECT_THAT(last_words("x; y && a > log.txt 2>&1"), ElementsAre("a"));
  EXPECT_THAT(last_words("a <<EOF\nb\nEOF\n"), ElementsAre("a"));
  EXPECT_EQ(run_shell("a | tee b &\nc || (d)\n", "run.sh").commands.size(), 4U);
  EXPECT_EQ(shell_statements("a 'b").size(), 1U);
  EXPECT_TRUE(shell_statements("# nothing\n\n").empty());
}

TEST(ShellTest, VariablesAreExpanded) {
  EXPECT_THAT(last_words("export LR=1e-3\na --lr $LR ${LR} '$LR'"),
              ElementsAre("a", "--lr", "1e-3", "1e-3", "$LR"));
  EXPECT_THAT(last_words("A=\"--x 1\"; b $A \"$A\""), ElementsAre("b", "--x", "1", "--x 1"));
  EXPECT_THAT(last_words("A=(--x 'y z'); b \"${A[@]}\" ${A[0]}"),
              ElementsAre("b", "--x", "y z", "--x"));
  EXPECT_THAT(last_words("B=2; a ${A:-${B}e-4} ${B:-3}"), ElementsAre("a", "2e-4", "2"));
  EXPECT_THAT(last_words("D=/data; a $D/train"), ElementsAre("a", "/data/train"));
}

TEST(ShellTest, WhatOnlyTheShellKnowsIsNamed) {
  const auto script =
      run_shell("B=$A\na $A $1 \"$@\" $(hostname) `date` $((1+2)) x$B ${C%.*}", "a");
  std::vector<std::string> unknown;
  for (const auto& word : script.commands.back().words) unknown.push_back(word.unknown);
  EXPECT_THAT(unknown, ElementsAre("", "$A", "$1", "$@", "$(hostname)", "`date`", "$((1+2))", "$A",
                                   "${C%.*}"));
}

// Of an `if` one branch runs, and which one only the shell knows.
TEST(ShellTest, BranchesExcludeEachOther) {
  const auto commands = run_shell(
                            "a\nif x; then b; if y; then c; else d; fi\nelif z; then e; fi; f\n"
                            "case $v in g) h;; i) j;; esac",
                            "run.sh")
                            .commands;
  const auto of = [&](const std::string& name) {
    return *std::find_if(commands.begin(), commands.end(),
                         [&](const auto& command) { return command.words[0].text == name; });
  };
  const auto excluded = [&](const char* one, const char* other) {
    return exclude_each_other(of(one), of(other));
  };
  EXPECT_TRUE(excluded("b", "e"));
  EXPECT_TRUE(excluded("c", "d"));
  EXPECT_TRUE(excluded("d", "e"));
  EXPECT_TRUE(excluded("h", "j"));
  for (const auto& [one, other] : std::vector<std::pair<const char*, const char*>>{
           {"a", "b"}, {"b", "c"}, {"b", "d"}, {"f", "e"}, {"f", "h"}}) {
    EXPECT_FALSE(excluded(one, other)) << one << other;
  }
  EXPECT_THAT(last_words("if x; then A=1; else A=2; fi; b $A"), ElementsAre("b", "$A"));
  EXPECT_THAT(last_words("A=1; if x; then A=2; fi; b $A"), ElementsAre("b", "$A"));
  EXPECT_THAT(last_words("if x; then A=1; else A=1; fi; b $A"), ElementsAre("b", "1"));
  EXPECT_THAT(last_words("if [ -z \"$A\" ]; then A=3; fi; b $A"), ElementsAre("b", "3"));
  EXPECT_THAT(last_words("A=0; if x; then A=1; else b $A; fi"), ElementsAre("b", "0"));
  EXPECT_THROW(run_shell(
                   [] {
                     std::string text;
                     for (int i = 0; i < 100; ++i) text += "if a; then\n";
                     return text;
                   }(),
                   "run.sh"),
               ConfigError);
}

TEST(ShellTest, LoopsAreTurns) {
  const auto script = run_shell(
      "for lr in 1e-3 5e-4; do\n  for w in {1..2}\n  do\n    a $lr $w\n  done\ndone\nb $lr",
      "run.sh");
  std::vector<std::string> turns;
  for (const auto& command : script.commands) turns.push_back(command.turn);
  EXPECT_THAT(turns, ElementsAre("lr-1e-3_w-1", "lr-1e-3_w-2", "lr-5e-4_w-1", "lr-5e-4_w-2", ""));
  EXPECT_THAT(texts(script.commands[2].words), ElementsAre("a", "5e-4", "1"));
  EXPECT_EQ(run_shell("for i in $(seq 1 3); do a; done", "a").commands.size(), 3U);
  EXPECT_EQ(run_shell("for i in $LIST; do a $i; done", "a").commands.at(0).words[1].unknown, "$i");
  EXPECT_EQ(run_shell("while read x; do a; done", "a").commands.size(), 1U);
  EXPECT_THROW(run_shell("for i in {1..2000}; do a; done", "a"), ConfigError);
}

TEST(ShellTest, ValuesHaveAnEnd) {
  std::string script = "A=0123456789\n";
  for (int i = 0; i < 30; ++i) script += "A=$A$A\n";
  EXPECT_THROW(run_shell(script, "a"), ConfigError);
  EXPECT_EQ(run_shell("${${${$", "a").commands.size(), 1U);
}

TEST(ShellTest, BatchScripts) {
  const auto script = run_shell(
      "#!/bin/bash\n#SBATCH -N 2\n#SBATCH --ntasks-per-node=8\nsrun a $SLURM_NNODES", "a");
  EXPECT_THAT(script.batch, ElementsAre(Pair("nodes", "2"), Pair("ntasks_per_node", "8")));
  EXPECT_EQ(script.commands.back().words.back().text, "2");
}

}  // namespace
}  // namespace fovea::recipe_import
