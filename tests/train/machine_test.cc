#include "fovea/train/bench/machine.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "fovea/core/error.h"
#include "fovea/train/run/run_clock.h"
#include "tests/support/temp_dir.h"

namespace fovea::train {
namespace {

TEST(MachineTest, KnowsThisMachine) {
  const auto machine = this_machine();
  EXPECT_GE(machine.num_cores, 1);
  EXPECT_GT(machine.memory_bytes, int64_t{64} << 20);
  EXPECT_FALSE(machine.kernel.empty());
}

TEST(MachineTest, ReadsBackWhatItWrote) {
  MachineFile file;
  file.machine = {"host", "cpu \"x\"", {"avx2", "fma"},   4,     1 << 30,
                  "os",   "6.1",       {"gpu, 80.0 GiB"}, "13.0"};
  file.version = "0.1.0";
  file.torch_version = "2.11.0";
  file.command = "fovea train a.yaml";
  file.device = "cpu";
  file.dtype = "bfloat16";
  file.threads = 2;
  file.started = "2026-11-21T09:00:00Z";
  file.ended = "2026-11-21T09:04:31Z";
  const auto read = machine_from_json(machine_to_json(file), "x");
  EXPECT_EQ(machine_to_json(read), machine_to_json(file));
  EXPECT_EQ(read.machine.simd, file.machine.simd);
  EXPECT_EQ(read.machine.gpus, file.machine.gpus);
  EXPECT_EQ(read.threads, 2);
  EXPECT_EQ(read.ended, file.ended);
}

TEST(MachineTest, TellsTime) {
  EXPECT_EQ(
      seconds_of_timestamp("2026-11-21T09:04:31Z") - seconds_of_timestamp("2026-11-21T09:00:00Z"),
      271);
  EXPECT_TRUE(std::isnan(seconds_of_timestamp("")));
  EXPECT_TRUE(std::isnan(seconds_of_timestamp("yesterday")));
  EXPECT_FALSE(std::isnan(seconds_of_timestamp(timestamp_now())));
}

TEST(MachineTest, RefusesAnotherForm) {
  EXPECT_THROW(machine_from_json(R"({"simd": "avx2"})", "x"), DataError);
  EXPECT_THROW(machine_from_json("{", "x"), DataError);
}

// A run goes on without what the file says, and writes it anew.
TEST(RunClockTest, ADamagedFileIsMadeAnew) {
  alarm(60);  // for who would wait for a writer of the pipe
  const support::TempDir folder;
  const auto path = folder.file("machine.json");
  const auto starts = [&] {
    { const RunClock clock(path, {}); }
    return read_machine_file(path).started;
  };
  for (const auto* text : {"", "[1]", "{\"started\": 7}", "{\"simd\": \"avx2\"}"}) {
    folder.write("machine.json", std::string(text));
    EXPECT_FALSE(std::isnan(seconds_of_timestamp(starts()))) << text;
  }
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_FALSE(std::isnan(seconds_of_timestamp(starts())));
  folder.write("machine.json", std::string("{\"started\": \"2026-11-21T09:00:00Z\"}"));
  EXPECT_EQ(starts(), "2026-11-21T09:00:00Z");
  alarm(0);
}

}  // namespace
}  // namespace fovea::train
