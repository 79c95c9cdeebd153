// The commands as a tree, without a process: what is told of wrong words, and the examples of help.
#include "apps/fovea/usage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "apps/fovea/command.h"
#include "fovea/core/error.h"
#include "tests/support/temp_dir.h"

namespace fovea::app {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class UsageTest : public testing::Test {
 protected:
  UsageTest() {
    program_.require_subcommand(1);
    add_commands(Command(program_));
  }

  // Of every command and group.
  void for_each(CLI::App& app, const std::function<void(CLI::App&)>& visit) {
    for (auto* sub : app.get_subcommands({})) {
      visit(*sub);
      for_each(*sub, visit);
    }
  }

  std::string error(const std::vector<std::string>& words) const {
    try {
      check_words(program_, words);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::kUsage);
      return error.what();
    }
    return "";
  }

  std::string refusal(std::vector<std::string> words) {
    try {
      program_.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    } catch (const CLI::Success&) {
    } catch (const CLI::ParseError& error) {
      return usage_message(program_, error, words);
    }
    return "";
  }

  CLI::App program_{"", "fovea"};
};

// As a shell splits it, but for what needs no more than simple quotes.
std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> words;
  bool quoted = false, in_word = false;
  for (const char c : line) {
    if (c == '\'') {
      quoted = !quoted;
    } else if (c == ' ' && !quoted) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (c != '\'') words.back() += c;
  }
  return words;
}

TEST_F(UsageTest, EveryCommandHasExamplesThatParse) {
  const support::TempDir folder;  // of the file that an example asks for
  folder.write("nilearn-0.14.1-py3-none-any.whl", std::string("x"));
  const auto here = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  program_.parse_complete_callback([] { throw CLI::Success(); });  // all is parsed, nothing runs
  int count = 0;
  for_each(program_, [&](CLI::App& command) {
    const auto name = full_name(command);
    const auto examples = examples_of(command);
    EXPECT_FALSE(examples.empty()) << name;
    EXPECT_LE(examples.size(), 3u) << name;
    EXPECT_THAT(command.help(), HasSubstr("Examples:\n  fovea ")) << name;
    for (const auto& example : examples) {
      EXPECT_THAT(example,
                  testing::StartsWith(
                      name + (command.get_subcommands({}).empty() && example != name ? " " : "")));
      auto words = split(example.substr(0, example.find_first_of(">|") - 1));
      words.erase(words.begin());  // fovea
      EXPECT_EQ(error(words), "") << example;
      EXPECT_EQ(refusal(words), "") << example;
      ++count;
    }
  });
  EXPECT_GT(count, 50);
  std::filesystem::current_path(here);
}

TEST_F(UsageTest, AMisspeltCommandNamesTheNearest) {
  EXPECT_THAT(error({"trian", "x"}),
              AllOf(HasSubstr("unknown command 'trian'"), HasSubstr("did you mean 'train'?"),
                    HasSubstr("`fovea --help`"), Not(HasSubstr("\n"))));
  EXPECT_THAT(error({"data", "inspcet", "x"}), HasSubstr("of fovea data; did you mean 'inspect'?"));
  EXPECT_THAT(error({"inspect", "x"}), HasSubstr("did you mean 'fovea data inspect'?"));
  EXPECT_THAT(error({"frobnicate"}), AllOf(HasSubstr("unknown"), Not(HasSubstr("did you mean"))));
}

// Of each option, with two letters swapped.
TEST_F(UsageTest, AMisspeltOptionNamesTheNearest) {
  int count = 0;
  for_each(program_, [&](CLI::App& command) {
    std::vector<std::string> words = split(full_name(command));
    words.erase(words.begin());
    for (const auto* option : command.get_options()) {
      for (auto name : option->get_lnames()) {
        const auto good = "--" + name;
        auto with = words;
        with.push_back(good);
        EXPECT_EQ(error(with), "");
        std::swap(name[name.size() - 1], name[name.size() - 2]);
        if (name.size() < 4 || "--" + name == good || command.get_option_no_throw("--" + name))
          continue;
        with.back() = "--" + name + "=1";
        EXPECT_THAT(error(with), AllOf(HasSubstr("unknown option '--" + name + "' of "),
                                       HasSubstr("did you mean '" + good + "'?")));
        ++count;
      }
    }
  });
  EXPECT_GT(count, 100);
  EXPECT_THAT(error({"train", "x.yaml", "--optim.lr=3e-4"}),
              HasSubstr("a change to the config has no dashes: optim.lr=..."));
  EXPECT_EQ(error({"train", "--help", "--wrong"}), "") << "help is asked for";
  EXPECT_EQ(error({"predict", "run", "--", "--odd-name.png"}), "");
  EXPECT_EQ(error({"data", "balance", "x.yaml", "--gpus", "-1"}), "") << "a number";
  EXPECT_THAT(error({"train", "-q"}), HasSubstr("unknown option '-q' of fovea train"));
}

TEST_F(UsageTest, WhatTheParserRefusesIsOneLine) {
  const auto is_line = [](const std::string& text) {
    return text.starts_with("error: ") && text.find('\n') == text.size() - 1;
  };
  const auto missing = refusal({"train"});
  EXPECT_TRUE(is_line(missing)) << missing;
  EXPECT_THAT(missing, AllOf(HasSubstr("RECIPE|RUN_DIR is missing"),
                             HasSubstr("as in: fovea train recipes/"), HasSubstr("train --help")));
  const auto choice = refusal({"predict", "run", "x.jpg", "--device", "cdua"});
  EXPECT_TRUE(is_line(choice)) << choice;
  EXPECT_THAT(choice, HasSubstr("--device: found 'cdua', expected one of auto, cpu, cuda; did you "
                                "mean cuda?"));
  for (const auto& wrong : std::vector<std::vector<std::string>>{
           {"predict", "run", "--top", "many"}, {"predict", "run", "--top"}, {"doctor", "extra"}}) {
    const auto text = refusal(wrong);
    EXPECT_TRUE(is_line(text)) << text;
  }
  EXPECT_THAT(refusal({"data"}), HasSubstr("Subcommands:")) << "help, where nothing is asked for";
}

}  // namespace
}  // namespace fovea::app
