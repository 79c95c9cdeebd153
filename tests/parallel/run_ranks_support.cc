#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "fovea/parallel/local_launch.h"
#include "tests/parallel/rank_starter.h"
#include "tests/parallel/run_ranks.h"

namespace fovea::parallel::testing {
namespace {

constexpr double kTestTimeout = 300;  // s: one rank computes what it compares with

[[noreturn]] void run_rank(const Launch& launch, const std::function<void(World&)>& body) {
  try {
    World world(launch, {.processes = 1, .timeout = kTestTimeout});
    try {
      body(world);
      world.leave();
    } catch (const std::exception& error) {
      if (world.fail(error.what(), ExitCode::kUsage)) {
        ADD_FAILURE() << "rank " << launch.rank << ": " << error.what();
      }
      std::fflush(nullptr);
      _exit(1);
    }
  } catch (const std::exception& error) {
    ADD_FAILURE() << "rank " << launch.rank << ": " << error.what();
  }
  std::fflush(nullptr);
  _exit(::testing::Test::HasFailure() ? 1 : 0);
}

}  // namespace

void run_ranks(int64_t num_ranks, const std::function<void(World&)>& body) {
  const auto launch = launch_from(process_environment());
  if (launch.world_size > 1) {
    if (launch.world_size == num_ranks) run_rank(launch, body);
    return;
  }
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const auto filter = fmt::format("--gtest_filter={}.{}", test->test_suite_name(), test->name());
  const std::vector<std::string> command = {own_command().front(), filter, "--gtest_brief=1"};
  const auto start = [&](const std::vector<std::string>& environment) {
    return start_from_copy({command, environment});
  };
  const auto run = run_local_ranks(command, {.processes = num_ranks, .grace = 5, .start = start});
  EXPECT_EQ(run.exit_code, 0) << "of " << num_ranks << " ranks; " << run.message;
}

}  // namespace fovea::parallel::testing
