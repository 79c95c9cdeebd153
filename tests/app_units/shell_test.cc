// Completion scripts and manual pages: every command, option and choice is in them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <string>

#include "apps/fovea/command.h"
#include "apps/fovea/completion.h"
#include "apps/fovea/man_page.h"
#include "apps/fovea/usage.h"

namespace fovea::app {
namespace {

using testing::HasSubstr;

class ShellTest : public testing::Test {
 protected:
  ShellTest() { add_commands(Command(program_)); }

  CLI::App program_{"", "fovea"};
};

TEST_F(ShellTest, ScriptsHaveEveryCommandAndOption) {
  const auto bash = bash_completion(Command(program_)), zsh = zsh_completion(Command(program_)),
             fish = fish_completion(Command(program_));
  int count = 0;
  for (const auto* command : all_commands(program_)) {
    const auto path = full_name(*command);
    for (const auto& script : {bash, zsh, fish}) EXPECT_THAT(script, HasSubstr("'" + path + "'"));
    for (const auto* option : command->get_options()) {
      for (const auto& name : option->get_lnames()) {
        EXPECT_THAT(bash, HasSubstr("--" + name));
        EXPECT_THAT(zsh, HasSubstr("--" + name));
        EXPECT_THAT(fish, HasSubstr("-l " + name));
        ++count;
      }
    }
  }
  EXPECT_GT(count, 150);
  for (const auto& script : {bash, zsh, fish}) {
    EXPECT_THAT(script, HasSubstr("vit_small_patch16_224"));
    EXPECT_THAT(script, HasSubstr("trainer.max_epochs"));
    EXPECT_THAT(script, HasSubstr("auto cpu cuda"));
  }
}

TEST_F(ShellTest, ChoicesAreThoseOfTheOption) {
  const auto* predict = program_.get_subcommand("predict");
  EXPECT_THAT(option_choices(*predict->get_option("--device")),
              testing::ElementsAre("auto", "cpu", "cuda"));
  EXPECT_TRUE(option_choices(*predict->get_option("--out")).empty());
}

TEST_F(ShellTest, EachCommandHasAPage) {
  const auto pages = man_pages(program_);
  EXPECT_EQ(pages.size(), all_commands(program_).size());
  EXPECT_EQ(pages.front().name, "fovea");
  for (const auto& page : pages) {
    EXPECT_THAT(page.text, testing::StartsWith(".TH ")) << page.name;
    for (const char* section : {".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS", ".SH EXIT STATUS"})
      EXPECT_THAT(page.text, HasSubstr(section)) << page.name;
  }
}

}  // namespace
}  // namespace fovea::app
