#include "fovea/core/program_files.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/support/temp_dir.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;

TEST(ProgramFilesTest, TheNearestFolderComesFirst) {
  const support::TempDir temp;
  const fs::path root = temp.path();
  const auto program = root / "build" / "release" / "apps";
  fs::create_directories(program);
  fs::create_directories(root / "share");
  std::ofstream(root / "x.py") << "far";
  std::ofstream(root / "share" / "x.py") << "far";
  EXPECT_EQ(find_upwards(program, {"share/x.py", "x.py"}, 4), root / "share" / "x.py");
  EXPECT_EQ(find_upwards(program, {"x.py", "share/x.py"}, 4), root / "x.py");
  std::ofstream(root / "build" / "x.py") << "near";
  EXPECT_EQ(find_upwards(program, {"share/x.py", "x.py"}, 4), root / "build" / "x.py");
  EXPECT_EQ(find_upwards(program, {"share/x.py"}, 3), std::nullopt);
  EXPECT_EQ(find_upwards(program, {"share"}, 4), root / "share");  // folders as well
  EXPECT_EQ(find_upwards(program, {"no such file of ours"}, 1000), std::nullopt);
  EXPECT_EQ(find_upwards("", {"x.py"}, 4), std::nullopt);
}

TEST(ProgramFilesTest, LooksWhereTheProgramIs) {
  const auto name = program_path().filename().string();
  EXPECT_EQ(find_near_program({name}), program_path());
}

TEST(ProgramFilesTest, PythonIsChosenByTheEnvironment) {
  const char* before = std::getenv("FOVEA_PYTHON");
  const std::string kept = before ? before : "";
  setenv("FOVEA_PYTHON", "/opt/python", 1);
  EXPECT_EQ(python_program(), "/opt/python");
  setenv("FOVEA_PYTHON", "", 1);
  EXPECT_EQ(python_program(), "python3");
  unsetenv("FOVEA_PYTHON");
  EXPECT_EQ(python_program(), "python3");
  if (before) setenv("FOVEA_PYTHON", kept.c_str(), 1);
}

}  // namespace
}  // namespace fovea
