// Which rank this process is, as its launcher says in the environment.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace fovea::parallel {

struct Launch {
  std::string launcher;  // "torchrun", "srun" ...; empty: one process by itself
  int64_t rank = 0;
  int64_t world_size = 1;
  int64_t local_rank = 0;  // among the ranks of this machine
  int64_t local_size = 1;
  std::string address;                // where ranks meet
  int64_t port = 0;                   // there
  bool is_store_hosted = false;       // the launcher has the store there; else rank 0 makes it
  bool is_store_of_torchrun = false;  // and that launcher is torchrun
  std::string secret;                 // of the run; empty: none was given
  std::string run_id;                 // the same for all ranks of a start, another for each start
  bool binds_cores = false;           // the launcher gives each rank cores of its own
  std::string collectives;            // of FOVEA_COLLECTIVES: one of those below; empty: any

  bool is_one_machine() const { return local_size == world_size; }
  // Whether the ranks meet in this process.
  bool has_store() const { return rank == 0 && !is_store_hosted; }
};

// The value of an environment variable; nothing where it is not set or empty.
using Environment = std::function<std::optional<std::string>(const std::string&)>;

// By which Fovea's own launcher says that it has the store.
constexpr const char* kStoreVariable = "FOVEA_STORE";
constexpr const char* kSecretVariable = "FOVEA_SECRET";
constexpr const char* kSecretFileVariable = "FOVEA_SECRET_FILE";
// What carries tensors in host memory: shared memory, which it is an error then not to have, or
// Gloo. Not set: shared memory where all ranks of a group can use it, else Gloo.
constexpr const char* kCollectivesVariable = "FOVEA_COLLECTIVES";
constexpr const char* kSharedCollectives = "shared_memory";
constexpr const char* kGlooCollectives = "gloo";

Environment process_environment();

// Reads, the first one that is there:
//   RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT   torchrun and others
//   OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE                      Open MPI's mpirun
//   SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID, SLURM_STEP_NODELIST     srun
// Of the last two MASTER_ADDR and MASTER_PORT go first where they are set. FOVEA_SECRET, or the
// file FOVEA_SECRET_FILE, has what the ranks of a run know and nobody else; FOVEA_COLLECTIVES says
// how they exchange tensors. A group of one is no group. Throws ConfigError with every fault at
// once: a variable that is missing or no number, and two launchers that contradict each other.
Launch launch_from(const Environment& environment);

// FOVEA_COLLECTIVES alone, for processes that no launcher starts. Throws ConfigError.
std::string collectives_from(const Environment& environment);

// Threads of the CPU kernels for one of `local_size` ranks that share this machine's cores.
// process_cores: those that this process may use; machine_cores: all.
int64_t threads_per_rank(const Launch& launch, int64_t process_cores, int64_t machine_cores);
// The same of the process as it is.
int64_t threads_per_rank(const Launch& launch);

// The first host of a Slurm node list: "gpu[003-010,12],cpu1" -> "gpu003".
std::string first_host(const std::string& node_list);
// Tasks of node `node` in Slurm's short form: "4(x2),3" -> 4, 4, 3. 0: it has no such node.
int64_t tasks_of_node(const std::string& tasks_per_node, int64_t node);

}  // namespace fovea::parallel
