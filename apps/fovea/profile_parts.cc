#include "apps/fovea/profile_parts.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "apps/fovea/ranks.h"
#include "apps/fovea/scratch_folder.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/core/log.h"
#include "fovea/elastic/profile/collective_meter.h"
#include "fovea/elastic/profile/memory_trials.h"
#include "fovea/files/record_json.h"
#include "fovea/kernels/device.h"
#include "fovea/parallel/local_launch.h"
#include "fovea/train/session.h"

namespace fovea::app {
namespace {

constexpr const char* kPartVariable = "FOVEA_PROFILE_PART";

// Processes that are started meanwhile are this part.
class PartVariable {
 public:
  explicit PartVariable(const ProfilePart& part) {
    setenv(kPartVariable, json_text(record_json(part)).c_str(), /*overwrite=*/1);
  }
  ~PartVariable() { unsetenv(kPartVariable); }
  PartVariable(const PartVariable&) = delete;
  PartVariable& operator=(const PartVariable&) = delete;
};

template <class Record>
void append_line(const std::string& path, const Record& record) {
  std::ofstream(path, std::ios::app) << json_text(record_json(record)) << "\n";
}

template <class Record>
std::vector<Record> lines_of(const std::string& path) {
  std::vector<Record> records;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto raw = parse_json(line, path);
    read_record_json(JsonValue(raw, path), records.emplace_back());
  }
  return records;
}

std::string log_of(const std::string& out) { return out + ".log"; }

std::string text_of_log(const std::string& out) {
  std::ifstream file(log_of(out));
  return {std::istreambuf_iterator<char>(file), {}};
}

// What it says is told only where it is to be seen.
void log_to(const std::string& path) {
  if (std::freopen(path.c_str(), "a", stderr) == nullptr) mute_log();
}

int wait_for(pid_t process) {
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

bool is_end_for_memory(int status) {
  if (WIFEXITED(status)) return WEXITSTATUS(status) == static_cast<int>(ExitCode::kOutOfMemory);
  const int signal = WTERMSIG(status);
  return signal == SIGKILL || signal == SIGABRT || signal == SIGSEGV || signal == SIGBUS;
}

void measure_as_rank(const ProfilePart& part, train::TrainConfig config) {
  config.parallel = {};  // the ranks are one group, whatever a batch is
  config.data.global_batch_size = std::max<int64_t>(config.data.global_batch_size, 1 << 20);
  run_in_world(config, [&](parallel::World& world) {
    const elastic::CollectiveMeter meter{.place = "intra",
                                         .device = kernels::resolve_device(config.device.type),
                                         .bytes = part.numbers,
                                         .pause = [&] { pause_for(part.pause); }};
    const auto points = elastic::measure_collectives(world.all(), meter);
    if (!world.is_first()) return;
    for (const auto& point : points) append_line(part.out, point);
  });
}

}  // namespace

void pause_for(double seconds) {
  if (seconds > 0) std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

train::TrainConfig on_device(train::TrainConfig config, const std::string& device) {
  kernels::load_cuda_backend();  // before the first tensor
  const auto found = kernels::resolve_device(device);
  if (!found.is_cpu()) kernels::set_default_gpu(found.index());
  config.device.type = found.is_cpu() ? "cpu" : "cuda";
  config.device.dtype = train::dtype_name(train::compute_options(config.device).dtype);
  return config;
}

std::optional<ProfilePart> own_profile_part() {
  const char* text = std::getenv(kPartVariable);
  if (text == nullptr) return {};
  const auto raw = parse_json(text, kPartVariable);
  ProfilePart part;
  read_record_json(JsonValue(raw, kPartVariable), part);
  return part;
}

void run_profile_part(const ProfilePart& part, train::TrainConfig config) {
  if (part.kind == "collectives") {
    // The launcher says which GPU a rank has.
    config.device.type = part.device.substr(0, part.device.find(':'));
    return measure_as_rank(part, std::move(config));
  }
  log_to(log_of(part.out));
  config = on_device(std::move(config), part.device);
  elastic::run_memory_trials(config, part.numbers, part.growth_bytes,
                             [&](const auto& trial) { append_line(part.out, trial); });
}

std::vector<elastic::MemoryTrial> try_batches_apart(const ProfilePart& part) {
  const ScratchFolder scratch("profile");
  auto own = part;
  own.out = scratch.file("trials.jsonl");
  const PartVariable variable(own);
  const int status = wait_for(parallel::start_local_process(parallel::own_command()));
  auto trials = lines_of<elastic::MemoryTrial>(own.out);
  const bool is_over =
      trials.size() == part.numbers.size() || (!trials.empty() && !trials.back().fits);
  if (is_over) return trials;
  if (!is_end_for_memory(status)) {
    fail<Error>("trying a batch of {} ended otherwise than it should: {}",
                part.numbers[trials.size()], text_of_log(own.out));
  }
  trials.push_back({.batch = part.numbers[trials.size()]});
  return trials;
}

std::vector<elastic::CommunicationPoint> collectives_of_processes(const ProfilePart& part,
                                                                  int64_t processes) {
  const ScratchFolder scratch("profile");
  auto own = part;
  own.out = scratch.file("points.jsonl");
  const PartVariable variable(own);
  const auto run =
      parallel::run_local_ranks(parallel::own_command(), {.processes = processes, .grace = 5});
  if (run.exit_code != 0) {
    fail<Error>("measuring collectives among {} processes ended with exit code {}; {}", processes,
                run.exit_code, run.message.empty() ? "what they printed says why" : run.message);
  }
  return lines_of<elastic::CommunicationPoint>(own.out);
}

}  // namespace fovea::app
