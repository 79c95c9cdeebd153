// Saving while the process is killed, or the disk is full.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "fovea/checkpoint/store.h"
#include "fovea/core/error.h"
#include "tests/checkpoint/support.h"

namespace fovea::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr int64_t kRows = 2000;

// Saves step after step for ever; tells `acknowledge` which ones are done.
[[noreturn]] void save_for_ever(const std::string& folder, int64_t step, int acknowledge) {
  Store store(folder, {.keep = 2});
  for (;; ++step) {
    store.save(step, state_of(step, kRows), step % 3 == 0);
    store.wait();
    if (write(acknowledge, &step, sizeof(step)) != sizeof(step)) _exit(1);
  }
}

// Starts a child that saves, kills it after a while, and returns the last step that it called done.
int64_t save_and_kill(const std::string& folder, int64_t first, std::chrono::microseconds delay) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) throw std::runtime_error("no pipe");
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    save_for_ever(folder, first, ends[1]);
  }
  close(ends[1]);
  std::this_thread::sleep_for(delay);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  int64_t done = first - 1, step = 0;
  while (read(ends[0], &step, sizeof(step)) == sizeof(step)) done = step;
  close(ends[0]);
  return done;
}

// How long one save takes here.
std::chrono::microseconds save_time() {
  const TempDir folder;
  Store store(folder.path());
  const auto start = std::chrono::steady_clock::now();
  for (int64_t step = 1; step <= 3; ++step) store.save(step, state_of(step, kRows), false);
  store.wait();
  const auto passed = std::chrono::steady_clock::now() - start;
  return std::chrono::duration_cast<std::chrono::microseconds>(passed) / 3;
}

TEST(CrashTest, KilledAtAnyMomentItFindsAWholeCheckpoint) {
  constexpr int64_t kKills = 36, kLeastDone = 5;
  const TempDir folder;
  const auto path = folder.path();
  const auto longest = save_time() * 5 / 2;
  int64_t done = 0, unsaid = 0, kill = 0;
  // Where other programs have slowed saving down since it was timed, later and later kills follow.
  for (; kill < kKills || (done < kLeastDone && kill < 4 * kKills); ++kill) {
    const int64_t called_done = save_and_kill(path, done + 1, longest * kill / kKills);
    Store store(path, {.keep = 2, .warn = [&](const std::string& warning) {
                         ADD_FAILURE() << "half a checkpoint was left: " << warning;
                       }});
    const auto found = store.load_latest();
    if (called_done == 0 && !found) continue;
    ASSERT_TRUE(found.has_value()) << "after kill " << kill;
    done = found->scalars.at("step").get<int64_t>();
    ASSERT_GE(done, called_done) << "a finished checkpoint was lost";
    ASSERT_TRUE(is_state_of(*found, done, kRows));
    if (done > called_done) ++unsaid;
  }
  std::cout << "  " << kill << " kills, " << done << " checkpoints, " << unsaid
            << " of them whole before they were called done\n";
  EXPECT_GE(done, kLeastDone);
}

// Files may not grow beyond `bytes`, as on a full disk, while this lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &old_);
    rlimit limited = old_;
    limited.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limited);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &old_);
    signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit old_{};
  sighandler_t handler_;
};

TEST(CrashTest, AFullDiskIsReportedAndLeavesTheOldCheckpoints) {
  const TempDir folder;
  Store store(folder.path(), {.keep = 3});
  store.save(1, state_of(1, kRows), true);
  store.wait();
  for (const rlim_t limit : {0, 5, 1000, 20000, 40000}) {
    const FileSizeLimit full(limit);
    store.save(2, state_of(2, kRows), true);
    try {
      store.wait();
      FAIL() << "a save that failed was taken for done, limit " << limit;
    } catch (const CheckpointError& error) {
      EXPECT_THAT(error.what(), HasSubstr("File too large"));
      EXPECT_THAT(error.what(), HasSubstr("safetensors"));
    }
    store.check();  // said once
    EXPECT_TRUE(is_state_of(*store.load_latest(), 1, kRows));
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 3) << "limit " << limit;
  }
  store.save(2, state_of(2, kRows), false);
  EXPECT_TRUE(is_state_of(*store.load_latest(), 2, kRows));
}

TEST(CrashTest, AFailureReachesTheNextSaveTheNextCheckAndTheEnd) {
  const TempDir folder;
  std::vector<std::string> warnings;
  {
    const FileSizeLimit full(100);
    Store store(folder.path(), {.warn = [&](const auto& text) { warnings.push_back(text); }});
    store.save(1, state_of(1), false);
    EXPECT_THROW(store.save(2, state_of(2), false), CheckpointError);
    store.save(3, state_of(3), false);
    EXPECT_THROW(
        {
          for (int i = 0; i < 500; ++i) {
            store.check();
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
          }
        },
        CheckpointError);
    store.save(4, state_of(4), false);
  }
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], HasSubstr("step_00000004"));
}

TEST(CrashTest, AFolderThatCannotBeWrittenIsACheckpointError) {
  const TempDir folder;
  write_bytes(folder.file("file"), "");
  Store store(folder.file("file"), {.async = false});
  EXPECT_THROW(store.save(1, state_of(1), false), CheckpointError);
}

}  // namespace
}  // namespace fovea::checkpoint
