#include "fovea/core/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "tests/support/temp_dir.h"

namespace fovea {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(LogTest, NoLineSteersTheTerminal) {
  const support::TempDir folder;
  const std::string path = folder.file("run.log");
  ::testing::internal::CaptureStderr();
  {
    const LogFile log_file(path);
    log_warning("a class named \x1b]0;x\x07\ntwo lines");
    log_to_file("\x1b[2J");
  }
  const std::string terminal = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(terminal, HasSubstr("a class named \\x1b]0;x\\x07\ntwo lines"));
  EXPECT_THAT(read_file(path, 1 << 20), HasSubstr("\\x1b[2J"));
}

TEST(LogTest, LinesGoToStandardErrorAndToTheFile) {
  const support::TempDir folder;
  const std::string path = folder.file("run.log");
  ::testing::internal::CaptureStderr();
  log_info("before {}");
  {
    const LogFile log_file(path);
    log_info("first {0} %s");
    log_to_file("detail");
    set_log_verbose(false);
    log_info("quiet");
    log_warning("second");
    set_log_verbose(true);
  }
  log_info("after");
  const std::string terminal = ::testing::internal::GetCapturedStderr();
  const std::string file = read_file(path, 1 << 20);
  EXPECT_THAT(terminal, HasSubstr("info: before {}\n"));
  EXPECT_THAT(terminal, HasSubstr("info: first {0} %s\n"));
  EXPECT_THAT(terminal, Not(HasSubstr("quiet")));
  EXPECT_THAT(terminal, Not(HasSubstr("detail")));
  EXPECT_THAT(terminal, HasSubstr("warning: second\n"));
  EXPECT_THAT(terminal, HasSubstr("info: after\n"));
  EXPECT_THAT(file, ::testing::ContainsRegex("^[0-9-]+ [0-9:]+ info: first"));
  EXPECT_THAT(file, HasSubstr("debug: detail\n"));
  EXPECT_THAT(file, HasSubstr("info: quiet\n"));
  EXPECT_THAT(file, HasSubstr("warning: second\n"));
  EXPECT_THAT(file, Not(HasSubstr("before")));
  EXPECT_THAT(file, Not(HasSubstr("after")));
  const LogFile again(path);  // goes on where it was
  log_warning("third");
  EXPECT_THAT(read_file(path, 1 << 20), ::testing::AllOf(HasSubstr("first"), HasSubstr("third")));
}

TEST(LogTest, AFileThatCannotBeOpenedIsNamed) {
  const support::TempDir folder;
  const std::string path = folder.path();
  EXPECT_THAT([&] { const LogFile log_file(path); },
              ::testing::ThrowsMessage<Error>(HasSubstr(path)));
}

}  // namespace
}  // namespace fovea
