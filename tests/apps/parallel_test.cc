// Training in several processes through the program: what a user sees when all is well, and when a
// rank fails, dies or hangs.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "fovea/core/files.h"
#include "fovea/core/philox.h"
#include "tests/apps/idx_images.h"
#include "tests/apps/program.h"
#include "tests/data/support.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ProgramResult;
using testing::run_fovea;

class ParallelProgramTest : public ::testing::Test {
 protected:
  ParallelProgramTest() {
    for (const auto& [name, count] : std::map<std::string, uint32_t>{{"train", 96}, {"test", 30}}) {
      write_images(name, count);
    }
    recipe_ = dir_.write("recipe.yaml",
                         fmt::format("run: {{dir: {0}/run}}\n"
                                     "device: {{type: cpu, threads: 1}}\n"
                                     "model: {{name: vit, img_size: 8, patch_size: 4, in_chans: 1, "
                                     "num_classes: 4, embed_dim: 32, depth: 2, num_heads: 2, "
                                     "drop_path_rate: 0.1}}\n"
                                     "data:\n"
                                     "  train: {{format: idx, images: {0}/train-images, labels: "
                                     "{0}/train-labels, transforms: [normalize]}}\n"
                                     "  val: {{format: idx, images: {0}/test-images, labels: "
                                     "{0}/test-labels, transforms: [normalize]}}\n"
                                     "  global_batch_size: 16\n"
                                     "  threads: 1\n"
                                     "optim: {{name: adamw, lr: 0.003}}\n"
                                     "trainer: {{max_steps: 12}}\n"
                                     "checkpoint: {{every_steps: 4}}\n"
                                     "log: {{every_steps: 1, tensorboard: false}}\n",
                                     dir_.path()));
  }

  void write_images(const std::string& name, uint32_t count) const {
    RandomStream random(philox_key(1, name), 0);
    const testing::IdxImages images(
        count, 8, 4, [&](uint32_t i, uint32_t) { return 40 * (i % 4) + random.below(60); });
    images.write(dir_, name + "-");
  }

  std::string train(const std::string& overrides) const {
    return fmt::format("train {} launch.processes=2 {}", recipe_, overrides);
  }

  // A run that goes on until somebody ends it.
  std::string long_train(const std::string& overrides = "") const {
    return train(
        "trainer.max_steps=1000000 trainer.eval_every_epochs=0 checkpoint.every_steps=20 " +
        overrides);
  }

  std::future<ProgramResult> start(const std::string& arguments,
                                   const std::string& prefix = "") const {
    return std::async(std::launch::async, [=] { return run_fovea(arguments, prefix); });
  }

  std::string run_dir() const { return dir_.path() + "/run"; }

  // Until `is_so` or half a minute has passed.
  static bool wait_until(const std::function<bool()>& is_so) {
    for (int i = 0; i < 1500; ++i) {
      if (is_so()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }

  bool has_checkpoint() const { return fs::exists(run_dir() + "/checkpoints/latest"); }

  // A rank tells its step a few times in a second; until all have.
  static void let_it_be_told() { std::this_thread::sleep_for(std::chrono::seconds(1)); }

  // The process of a rank of this test's run.
  pid_t process_of(int rank) const {
    const auto variable = fmt::format("RANK={}", rank);
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const auto pid = std::atoi(entry.path().filename().c_str());
      if (pid <= 0) continue;
      const auto whole = [&](const char* name) {
        std::ifstream file(entry.path() / name, std::ios::binary);
        return std::string(std::istreambuf_iterator<char>(file), {});
      };
      if (whole("cmdline").find(recipe_) == std::string::npos) continue;
      if (('\0' + whole("environ")).find('\0' + variable + '\0') != std::string::npos) return pid;
    }
    return 0;
  }

  void send(int rank, int signal) const {
    const auto pid = process_of(rank);
    ASSERT_GT(pid, 0) << "rank " << rank;
    kill(pid, signal);
  }

  // The losses of the training lines, as they are written.
  std::map<int64_t, std::string> losses() const {
    std::map<int64_t, std::string> result;
    std::ifstream lines(run_dir() + "/metrics.jsonl");
    for (std::string line; std::getline(lines, line);) {
      const auto record = nlohmann::json::parse(line);
      if (record.at("split") == "train") result[record.at("step")] = record.at("loss").dump();
    }
    return result;
  }

  void expect_lines_tell_where_the_time_goes() const {
    std::ifstream lines(run_dir() + "/metrics.jsonl");
    int count = 0;
    for (std::string line; std::getline(lines, line);) {
      const auto record = nlohmann::json::parse(line);
      if (record.at("split") != "train") continue;
      count += 1;
      for (const char* share : {"comm_wait", "slowest_rank_wait", "mfu"}) {
        EXPECT_GE(record.at(share), 0) << line;
        EXPECT_LT(record.at(share), 1) << line;
      }
      EXPECT_GE(record.at("comm_wait"), record.at("slowest_rank_wait").get<double>() / 2) << line;
      EXPECT_THAT(record.at("slowest_rank").get<double>(), ::testing::AnyOf(0, 1));
    }
    EXPECT_EQ(count, 12);
  }

  data::testing::TempDir dir_;
  std::string recipe_;
};

TEST_F(ParallelProgramTest, TrainsAndEvaluatesInTwoProcesses) {
  const auto trained = run_fovea(train("log.peak_tflops=0.1 --json"));
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  const auto result = nlohmann::json::parse(trained.output.substr(trained.output.find('{')));
  EXPECT_EQ(result.at("step"), 12);
  for (const char* file : {"train.log", "train.rank1.log", "report.html", "weights.safetensors"}) {
    EXPECT_TRUE(fs::exists(run_dir() + "/" + file)) << file;
  }
  expect_lines_tell_where_the_time_goes();
  EXPECT_THAT(read_file(run_dir() + "/train.log", 1 << 20),
              HasSubstr("% of the time in communication; the others waited for rank "));
  for (const char* processes : {"1", "3"}) {
    const auto out = run_fovea(
        fmt::format("eval {} --device cpu --json launch.processes={}", run_dir(), processes));
    ASSERT_EQ(out.exit_code, 0) << out.output;
    const auto metrics = nlohmann::json::parse(out.output.substr(out.output.find('{')));
    EXPECT_EQ(metrics.at("num_samples"), 30);
    EXPECT_NEAR(metrics.at("top1"), result.at("eval").at("top1"), 1e-9);
    EXPECT_NEAR(metrics.at("loss"), result.at("eval").at("loss"), 1e-5);
  }
  // In one process the finished run is what it is.
  EXPECT_EQ(run_fovea("train " + recipe_).exit_code, 0);
}

TEST_F(ParallelProgramTest, ASignalToOneRankStopsAllWhichThenResumeBitwise) {
  ASSERT_EQ(run_fovea(train("")).exit_code, 0);
  const auto whole = losses();
  ASSERT_EQ(whole.size(), 12u);
  fs::remove_all(run_dir());
  // Stopped by a signal early on, or by the step count where the machine was faster.
  auto stopped = start(train(""));
  ASSERT_TRUE(wait_until([&] { return fs::exists(run_dir() + "/metrics.jsonl"); }));
  if (const auto pid = process_of(1); pid > 0) kill(pid, SIGUSR1);
  const auto first = stopped.get();
  EXPECT_THAT(first.exit_code, ::testing::AnyOf(75, 0, 7)) << first.output;
  const auto second = run_fovea(train(""));
  EXPECT_EQ(second.exit_code, 0) << second.output;
  EXPECT_EQ(losses(), whole);
  EXPECT_FALSE(fs::exists(run_dir() + "/stopped"));
}

TEST_F(ParallelProgramTest, SigtermToTheLauncherSavesAndExits75) {
  auto run = start(long_train(), "exec");
  ASSERT_TRUE(wait_until([&] { return has_checkpoint(); }));
  const auto rank = process_of(0);
  ASSERT_GT(rank, 0);
  pid_t parent = 0;
  std::ifstream status(fmt::format("/proc/{}/status", rank));
  for (std::string word; status >> word;) {
    if (word == "PPid:") status >> parent;
  }
  ASSERT_GT(parent, 1);
  kill(parent, SIGTERM);
  const auto result = run.get();
  EXPECT_EQ(result.exit_code, 75) << result.output;
  EXPECT_THAT(result.output, HasSubstr("the state is saved. Go on with: fovea train"));
  EXPECT_THAT(read_file(run_dir() + "/stopped", 100), ::testing::StartsWith("step "));
}

TEST_F(ParallelProgramTest, ARankThatIsKilledEndsAllAndTheCheckpointStands) {
  auto run = start(long_train());
  ASSERT_TRUE(wait_until([&] { return has_checkpoint(); }));
  let_it_be_told();
  send(1, SIGKILL);
  const auto result = run.get();
  EXPECT_EQ(result.exit_code, 7) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("rank 1 was killed by signal 9"),
                                   HasSubstr("at step "), HasSubstr("goes on from it")));
  const auto at = [](const std::string& text) { return std::stoll(text.substr(5)); };
  const auto kept = at(read_file(run_dir() + "/checkpoints/latest", 100));
  const auto again = run_fovea(long_train("run.seed=9"));
  EXPECT_EQ(again.exit_code, 3) << again.output;  // another seed is another run
  auto resumed = start(long_train());
  ASSERT_TRUE(
      wait_until([&] { return at(read_file(run_dir() + "/checkpoints/latest", 100)) > kept; }));
  send(0, SIGTERM);
  EXPECT_EQ(resumed.get().exit_code, 75);
}

TEST_F(ParallelProgramTest, ARankThatHangsIsNamedInTime) {
  auto run = start(long_train("launch.timeout=5"));
  ASSERT_TRUE(wait_until([&] { return has_checkpoint(); }));
  let_it_be_told();
  const auto hung = process_of(1);
  ASSERT_GT(hung, 0);
  kill(hung, SIGSTOP);
  const auto result = run.get();
  EXPECT_EQ(result.exit_code, 7) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("rank 0, step "), HasSubstr("rank 1 (at step "),
                                   HasSubstr("was not heard of for")));
  EXPECT_NE(kill(hung, 0), 0) << "the stopped rank was left behind";
}

TEST_F(ParallelProgramTest, ARankThatThrowsTellsTheOthersWhy) {
  const auto labels = dir_.file("train-labels");
  auto bytes = read_file(labels, 1 << 20);
  bytes[8 + 37] = 9;  // no such class
  dir_.write("train-labels", bytes);
  const auto result = run_fovea(train("data.train.num_classes=4"));
  EXPECT_EQ(result.exit_code, 4) << result.output;
  EXPECT_THAT(result.output, HasSubstr("label"));
}

TEST_F(ParallelProgramTest, ALossThatIsNotFiniteEndsAllRanksAtTheSameStep) {
  const auto result = run_fovea(train("optim.lr=1e30"));
  EXPECT_EQ(result.exit_code, 6) << result.output;
  EXPECT_THAT(result.output, HasSubstr("are not both finite"));
  EXPECT_THAT(read_file(run_dir() + "/train.rank1.log", 1 << 20), HasSubstr("are not both finite"));
}

TEST_F(ParallelProgramTest, AMeshThatDoesNotFitIsRefusedBeforeAnythingStarts) {
  const auto result =
      run_fovea(train("parallel.dp_replicate=3 data.global_batch_size=2 launch.timeout=5"));
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.output, AllOf(HasSubstr("is 3 processes, but there are 2"),
                                   HasSubstr("data.global_batch_size: found 2")));
  const auto sharded = run_fovea(train("parallel.dp_shard=2 parallel.tp=2"));
  EXPECT_EQ(sharded.exit_code, 3);
  EXPECT_THAT(sharded.output,
              HasSubstr("dp_shard 2 x cp 1 x tp 2 is 4 processes, but there are 2"));
  EXPECT_FALSE(fs::exists(run_dir()));
}

// Ranks as another launcher starts them, at a port that this test has found free.
class LaunchedRanksTest : public ParallelProgramTest {
 protected:
  LaunchedRanksTest() {
    holder_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(holder_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(getsockname(holder_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }
  ~LaunchedRanksTest() override { free_port(); }

  void free_port() {
    if (holder_ >= 0) close(holder_);
    holder_ = -1;
  }

  std::string variables(int rank, int size) const {
    return fmt::format("RANK={} WORLD_SIZE={} LOCAL_RANK={} MASTER_ADDR=127.0.0.1 MASTER_PORT={}",
                       rank, size, rank, port_);
  }

  int holder_ = -1;
  int port_ = 0;
};

TEST_F(LaunchedRanksTest, MeetAndTrain) {
  free_port();
  auto other = start("train " + recipe_, variables(1, 2));
  const auto first = run_fovea("train " + recipe_, variables(0, 2));
  EXPECT_EQ(first.exit_code, 0) << first.output;
  EXPECT_EQ(other.get().exit_code, 0);
  EXPECT_TRUE(fs::exists(run_dir() + "/train.rank1.log"));
}

TEST_F(LaunchedRanksTest, OtherConfigsAreNamedByKey) {
  free_port();
  auto other = start("train " + recipe_ + " optim.lr=0.1", variables(1, 2));
  const auto first = run_fovea("train " + recipe_, variables(0, 2));
  EXPECT_EQ(first.exit_code, 3) << first.output;
  const auto second = other.get();
  EXPECT_EQ(second.exit_code, 3);
  EXPECT_THAT(first.output + second.output,
              AllOf(HasSubstr("ranks were started with different configs. Rank 1:"),
                    HasSubstr("optim.lr: 0.003 of rank 0, 0.1 here")));
}

TEST_F(LaunchedRanksTest, AMissingRankIsNamedInTime) {
  free_port();
  auto other = start("train " + recipe_ + " launch.timeout=2", variables(2, 3));
  const auto first = run_fovea("train " + recipe_ + " launch.timeout=2", variables(0, 3));
  EXPECT_EQ(first.exit_code, 7) << first.output;
  EXPECT_THAT(first.output, HasSubstr("for 1 of 3 ranks that did not come: rank 1;"));
  EXPECT_EQ(other.get().exit_code, 7);
}

TEST_F(LaunchedRanksTest, NobodyAtTheMeetingPlace) {
  free_port();
  const auto alone = run_fovea("train " + recipe_ + " launch.timeout=1", variables(1, 2));
  EXPECT_EQ(alone.exit_code, 7) << alone.output;
  EXPECT_THAT(alone.output, AllOf(HasSubstr(fmt::format("127.0.0.1:{}", port_)),
                                  HasSubstr("nobody answers"), HasSubstr("is rank 0 running")));
}

TEST_F(LaunchedRanksTest, AListenerThatSaysNothing) {
  ASSERT_EQ(listen(holder_, 1), 0);
  const auto alone = run_fovea("train " + recipe_ + " launch.timeout=1", variables(1, 2));
  EXPECT_EQ(alone.exit_code, 7) << alone.output;
  EXPECT_THAT(alone.output, HasSubstr("somebody listens there, but does not answer within 1 s"));
}

TEST_F(LaunchedRanksTest, APortInUseIsNamed) {
  ASSERT_EQ(listen(holder_, 1), 0);
  const auto result = run_fovea("train " + recipe_ + " launch.timeout=2", variables(0, 2));
  EXPECT_EQ(result.exit_code, 3) << result.output;
  EXPECT_THAT(result.output, HasSubstr(fmt::format("port {} of this machine is in use", port_)));
}

TEST_F(LaunchedRanksTest, AnEnvironmentThatContradictsIsRefused) {
  const auto result = run_fovea(train(""), variables(0, 3));
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.output, HasSubstr("launch.processes: found 2, but RANK and WORLD_SIZE"));
}

}  // namespace
}  // namespace fovea
