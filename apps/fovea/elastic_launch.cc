#include "apps/fovea/elastic_launch.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/output.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/core/log.h"
#include "fovea/core/stop_signals.h"
#include "fovea/elastic/control/etcd_client.h"
#include "fovea/parallel/local_launch.h"
#include "fovea/train/evaluate/evaluation_file.h"

namespace fovea::app {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLookAgain{50};
constexpr std::chrono::seconds kLastPatience{15};  // for workers to end once the run has

// Workers on this machine. They end with this object, and with this process, however that ends.
class LocalWorkers {
 public:
  LocalWorkers(const elastic::RunPlace& place, int64_t count) {
    const auto program = parallel::own_command().front();
    for (int64_t i = 0; i < count; ++i) {
      processes_.push_back(
          parallel::start_local_process({program, "elastic", "worker", "--etcd", place.etcd,
                                         "--run", place.run, "--name", fmt::format("w{}", i)}));
    }
  }
  ~LocalWorkers() {
    for (const auto process : processes_) {
      kill(process, SIGKILL);
      waitpid(process, nullptr, 0);
    }
  }
  LocalWorkers(const LocalWorkers&) = delete;
  LocalWorkers& operator=(const LocalWorkers&) = delete;

  // -> whether all have ended.
  bool have_ended() {
    std::erase_if(processes_, [this](pid_t process) {
      int status = 0;
      if (waitpid(process, &status, WNOHANG) != process) return false;
      const int code = WIFEXITED(status) ? WEXITSTATUS(status) : static_cast<int>(ExitCode::kHang);
      if (code != 0) exit_code_ = code;
      return true;
    });
    return processes_.empty();
  }
  void wait() {
    for (const auto end = Clock::now() + kLastPatience; !have_ended() && Clock::now() < end;) {
      std::this_thread::sleep_for(kLookAgain);
    }
  }
  int exit_code() const { return exit_code_; }

 private:
  std::vector<pid_t> processes_;
  int exit_code_ = 0;  // of one that failed
};

}  // namespace

std::string host_until_end(elastic::RunHost& host, const std::function<bool()>& is_over) {
  bool has_asked = false;
  int64_t num_told = 0;
  return host.run([&] {
    int64_t told = 0;
    for (const int signal : kStopSignals) told += StopSignals::count(signal);
    if (told > 0 && !has_asked) {
      has_asked = true;
      num_told = told;
      log_info("told to stop: the run is asked to save its state and end");
      host.stop();
    }
    return is_over() || (has_asked && told > num_told);
  });
}

void end_elastic_run(const train::TrainConfig& config, const std::string& end, bool as_json) {
  const auto& dir = config.run.dir;
  const auto file = std::filesystem::path(dir) / "evaluation.json";
  train::EvaluationFile evaluation;
  if (end == "done" && is_there(file)) evaluation = train::read_evaluation_file(file);
  if (as_json) {
    nlohmann::json result = {{"run_dir", dir}, {"stopped", end != "done"}};
    if (evaluation.step >= 0) result["step"] = evaluation.step;
    result["eval"] = evaluation.metrics;
    say_as_is("{}\n", json_text(result));
  } else if (end == "done") {
    std::string text;
    for (const auto& [name, value] : evaluation.metrics)
      text += fmt::format("  {} {:.4g}", name, value);
    say("done:{}\n  run folder  {}\n  report      {}/report.html\n  weights     "
        "{}/weights.safetensors\n",
        text, dir, dir, dir);
  } else {
    say("stopped; the state is saved. Go on with: fovea elastic scheduler {}\n", dir);
  }
  if (end != "done") throw ExitRequest{static_cast<int>(ExitCode::kStopped)};
}

void train_elastically(const train::TrainConfig& config, bool as_json) {
  elastic::RunHost host(config, {}, "");
  if (!as_json) {
    say("run {}: more workers may join with\n  fovea elastic worker --run {}\n", host.place().run,
        config.run.dir);
  }
  LocalWorkers workers(host.place(), config.launch.processes);
  const auto end = host_until_end(host, [&] { return workers.have_ended(); });
  workers.wait();
  if (end.empty() && workers.exit_code() != 0) throw ExitRequest{workers.exit_code()};
  end_elastic_run(config, end, as_json);
}

}  // namespace fovea::app
