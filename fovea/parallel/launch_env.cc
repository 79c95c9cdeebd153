#include "fovea/parallel/launch_env.h"

#include <fmt/ranges.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "fovea/core/environment.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/parse_number.h"
#include "fovea/core/printable.h"
#include "fovea/parallel/launcher_variables.h"

namespace fovea::parallel {
namespace {

constexpr int64_t kFirstPort = 10000, kNumPorts = 20000;  // below those that systems give out
constexpr size_t kMinSecretBytes = 16, kMaxSecretBytes = 4096;

// Reads variables and keeps what was wrong with them.
class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  std::optional<std::string> text(const std::string& name) const { return environment_(name); }
  bool has(const std::string& name) const { return text(name).has_value(); }

  std::optional<int64_t> number(const std::string& name) {
    const auto value = text(name);
    if (!value) return {};
    const auto number = parse_number<int64_t>(*value);
    if (number && *number >= 0) return number;
    faults_.push_back(fmt::format("{}='{}' is no number", name, printable_start(*value)));
    return {};
  }

  int64_t required(const std::string& name, const std::string& beside) {
    if (!has(name)) faults_.push_back(fmt::format("{} is set, but {} is not", beside, name));
    return number(name).value_or(0);
  }

  void add_fault(std::string fault) { faults_.push_back(std::move(fault)); }
  const std::vector<std::string>& faults() const { return faults_; }

 private:
  const Environment& environment_;
  std::vector<std::string> faults_;
};

// A port that all ranks of a start find alike, and two starts seldom.
int64_t port_of(const std::string& id) {
  uint64_t hash = 14695981039346656037ull;  // FNV-1a
  for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return kFirstPort + static_cast<int64_t>(hash % kNumPorts);
}

void read_address(Reader& reader, Launch& launch, const std::string& default_address) {
  launch.address = reader.text("MASTER_ADDR").value_or(default_address);
  launch.port = reader.number("MASTER_PORT").value_or(port_of(launch.launcher + launch.run_id));
}

Launch read_torch(Reader& reader) {
  Launch launch;
  launch.launcher = reader.has("TORCHELASTIC_RUN_ID") ? "torchrun" : "RANK and WORLD_SIZE";
  const char* present = reader.has("RANK") ? "RANK" : "WORLD_SIZE";
  launch.rank = reader.required("RANK", present);
  launch.world_size = reader.required("WORLD_SIZE", present);
  launch.local_rank = reader.number("LOCAL_RANK").value_or(launch.rank);
  launch.local_size = reader.number("LOCAL_WORLD_SIZE").value_or(launch.world_size);
  launch.run_id = fmt::format("{}/{}", reader.text("TORCHELASTIC_RUN_ID").value_or("none"),
                              reader.text("TORCHELASTIC_RESTART_COUNT").value_or("0"));
  launch.is_store_hosted = reader.text("TORCHELASTIC_USE_AGENT_STORE").value_or("False") == "True";
  launch.is_store_of_torchrun = launch.is_store_hosted && !reader.has(kStoreVariable);
  if (launch.world_size > 1) {
    for (const char* name : {"MASTER_ADDR", "MASTER_PORT"}) {
      if (!reader.has(name)) reader.add_fault(fmt::format("RANK is set, but {} is not", name));
    }
  }
  read_address(reader, launch, "127.0.0.1");
  return launch;
}

Launch read_open_mpi(Reader& reader) {
  const std::string prefix = "OMPI_COMM_WORLD_";
  Launch launch;
  launch.launcher = "mpirun";
  launch.rank = reader.required(prefix + "RANK", prefix + "SIZE");
  launch.world_size = reader.required(prefix + "SIZE", prefix + "RANK");
  launch.local_rank = reader.number(prefix + "LOCAL_RANK").value_or(launch.rank);
  launch.local_size = reader.number(prefix + "LOCAL_SIZE").value_or(launch.world_size);
  launch.run_id = reader.text("PMIX_NAMESPACE")
                      .value_or(reader.text("OMPI_MCA_ess_base_jobid").value_or("none"));
  launch.binds_cores = true;
  if (!launch.is_one_machine() && !reader.has("MASTER_ADDR")) {
    reader.add_fault(
        "mpirun says not where rank 0 runs; give it with: mpirun -x MASTER_ADDR=<host of rank 0>");
  }
  read_address(reader, launch, "127.0.0.1");
  return launch;
}

Launch read_slurm(Reader& reader) {
  Launch launch;
  launch.launcher = "srun";
  launch.rank = reader.required("SLURM_PROCID", "SLURM_STEP_ID");
  const char* size = reader.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  launch.world_size = reader.required(size, "SLURM_STEP_ID");
  launch.local_rank = reader.number("SLURM_LOCALID").value_or(launch.rank);
  const auto tasks = reader.text("SLURM_STEP_TASKS_PER_NODE")
                         .value_or(reader.text("SLURM_TASKS_PER_NODE").value_or(""));
  launch.local_size = tasks_of_node(tasks, reader.number("SLURM_NODEID").value_or(0));
  if (launch.local_size == 0) launch.local_size = launch.world_size;
  launch.run_id = fmt::format("{}.{}.{}", reader.text("SLURM_JOB_ID").value_or("0"),
                              reader.text("SLURM_STEP_ID").value_or("0"),
                              reader.text("SLURM_RESTART_COUNT").value_or("0"));
  launch.binds_cores = true;
  const auto nodes = reader.text("SLURM_STEP_NODELIST")
                         .value_or(reader.text("SLURM_NODELIST").value_or("127.0.0.1"));
  read_address(reader, launch, launch.is_one_machine() ? "127.0.0.1" : first_host(nodes));
  return launch;
}

// RANK and WORLD_SIZE that somebody exported, beside a launcher that says otherwise. torchrun below
// srun is as it should be.
void compare_with(const Launch& inner, const Launch& outer, Reader& reader) {
  if (outer.world_size <= 1 || inner.launcher == "torchrun") return;
  if (inner.rank == outer.rank && inner.world_size == outer.world_size) return;
  reader.add_fault(fmt::format(
      "RANK={} and WORLD_SIZE={} contradict {}, which started this process as rank {} of {}; unset "
      "one of the two",
      inner.rank, inner.world_size, outer.launcher, outer.rank, outer.world_size));
}

void check_ranges(const Launch& launch, Reader& reader) {
  if (launch.rank >= launch.world_size) {
    reader.add_fault(fmt::format("rank {} of {}; expected 0 to {}", launch.rank, launch.world_size,
                                 launch.world_size - 1));
  }
  if (launch.local_rank >= launch.local_size) {
    reader.add_fault(fmt::format("local rank {} of {} on this machine; expected 0 to {}",
                                 launch.local_rank, launch.local_size, launch.local_size - 1));
  }
  if (launch.port < 1 || launch.port > 65535) {
    reader.add_fault(fmt::format("MASTER_PORT={}; expected 1 to 65535", launch.port));
  }
}

// What a file has but for white space at its end, where nobody but its owner can read it.
std::string secret_in(const std::string& path, Reader& reader) {
  struct stat state {};
  if (stat(path.c_str(), &state) != 0) {
    reader.add_fault(fmt::format("{}={}: {}", kSecretFileVariable, path, std::strerror(errno)));
    return "";
  }
  if (!S_ISREG(state.st_mode)) {
    reader.add_fault(fmt::format("{}={}: expected a file", kSecretFileVariable, path));
    return "";
  }
  if ((state.st_mode & (S_IRGRP | S_IROTH | S_IWGRP | S_IWOTH)) != 0) {
    reader.add_fault(
        fmt::format("{}={}: others may read or write the file; expected one of yours "
                    "alone: chmod 600",
                    kSecretFileVariable, path));
    return "";
  }
  auto text = read_file(path, kMaxSecretBytes);
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  return text;
}

void read_secret(Reader& reader, Launch& launch) {
  const auto given = reader.text(kSecretVariable), file = reader.text(kSecretFileVariable);
  if (!given && !file) return;
  if (given && file) {
    reader.add_fault(fmt::format("{} and {} are both set; expected one of them", kSecretVariable,
                                 kSecretFileVariable));
    return;
  }
  const auto num_faults = reader.faults().size();
  launch.secret = given ? *given : secret_in(*file, reader);
  if (launch.secret.size() < kMinSecretBytes && reader.faults().size() == num_faults) {
    reader.add_fault(fmt::format(
        "{} has {} characters; expected at least {}, drawn at random: "
        "openssl rand -hex 32",
        given ? kSecretVariable : kSecretFileVariable, launch.secret.size(), kMinSecretBytes));
  }
}

void read_collectives(Reader& reader, Launch& launch) {
  launch.collectives = reader.text(kCollectivesVariable).value_or("");
  const bool is_known = launch.collectives.empty() || launch.collectives == kSharedCollectives ||
                        launch.collectives == kGlooCollectives;
  if (is_known) return;
  reader.add_fault(fmt::format("{}='{}'; expected {} or {}, or leave it out", kCollectivesVariable,
                               printable_start(launch.collectives), kSharedCollectives,
                               kGlooCollectives));
}

Launch read_all(Reader& reader) {
  const auto there = launchers_there([&](const char* name) { return reader.has(name); });
  if (!there.any()) return {};
  if (!there.torch) return there.mpi ? read_open_mpi(reader) : read_slurm(reader);
  const auto launch = read_torch(reader);
  if (there.mpi || there.slurm) {
    Reader ignored(reader);  // an outer launcher's own faults are none of ours
    compare_with(launch, there.mpi ? read_open_mpi(ignored) : read_slurm(ignored), reader);
  }
  return launch;
}

}  // namespace

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    auto value = environment_variable(name.c_str());
    return value.empty() ? std::nullopt : std::optional(std::move(value));
  };
}

std::string collectives_from(const Environment& environment) {
  Reader reader(environment);
  Launch launch;
  read_collectives(reader, launch);
  if (!reader.faults().empty()) fail<ConfigError>("{}", reader.faults().front());
  return launch.collectives;
}

Launch launch_from(const Environment& environment) {
  Reader reader(environment);
  auto launch = read_all(reader);
  if (launch.launcher.empty()) return launch;
  check_ranges(launch, reader);
  if (launch.world_size > 1) {
    read_secret(reader, launch);
    read_collectives(reader, launch);
  }
  if (!reader.faults().empty()) {
    fail<ConfigError>("the environment says that {} started this process, but: {}", launch.launcher,
                      fmt::join(reader.faults(), "; "));
  }
  return launch.world_size > 1 ? launch : Launch{};
}

int64_t threads_per_rank(const Launch& launch, int64_t process_cores, int64_t machine_cores) {
  const int64_t share = (launch.binds_cores ? machine_cores : process_cores) / launch.local_size;
  return std::max<int64_t>(1, std::min(process_cores, share));
}

int64_t threads_per_rank(const Launch& launch) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  const int64_t machine = std::max<int64_t>(1, sysconf(_SC_NPROCESSORS_ONLN));
  const bool is_known = sched_getaffinity(0, sizeof cores, &cores) == 0;
  return threads_per_rank(launch, is_known ? CPU_COUNT(&cores) : machine, machine);
}

std::string first_host(const std::string& node_list) {
  const auto bracket = node_list.find('['), comma = node_list.find(',');
  if (bracket == std::string::npos || comma < bracket) return node_list.substr(0, comma);
  const auto end = node_list.find_first_of(",-]", bracket);
  const auto close = node_list.find(']', bracket);
  if (end == std::string::npos || close == std::string::npos) return node_list.substr(0, bracket);
  const auto rest = node_list.substr(close + 1);
  return node_list.substr(0, bracket) + node_list.substr(bracket + 1, end - bracket - 1) +
         rest.substr(0, rest.find(','));
}

int64_t tasks_of_node(const std::string& tasks_per_node, int64_t node) {
  size_t at = 0;
  while (at < tasks_per_node.size()) {
    const auto end = std::min(tasks_per_node.find(',', at), tasks_per_node.size());
    const auto part = tasks_per_node.substr(at, end - at);
    const auto times = part.find("(x");
    const int64_t nodes = times == std::string::npos ? 1 : std::atoll(part.c_str() + times + 2);
    if (node < nodes) return std::atoll(part.c_str());
    node -= nodes;
    at = end + 1;
  }
  return 0;
}

}  // namespace fovea::parallel
