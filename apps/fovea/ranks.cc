#include "apps/fovea/ranks.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include "apps/fovea/command.h"
#include "apps/fovea/failure.h"
#include "apps/fovea/output.h"
#include "fovea/core/error.h"
#include "fovea/core/log.h"
#include "fovea/core/printable.h"
#include "fovea/kernels/device.h"
#include "fovea/parallel/launch_env.h"
#include "fovea/parallel/local_launch.h"
#include "fovea/parallel/mesh_shape.h"
#include "fovea/parallel/nccl.h"
#include "fovea/parallel/rank_error.h"

namespace fovea::app {
namespace {

void check_processes(const parallel::LaunchConfig& config, const parallel::Launch& launch) {
  if (launch.world_size == 1 || config.processes == 1 || config.processes == launch.world_size) {
    return;
  }
  fail<ConfigError>(
      "launch.processes: found {}, but {} has started {} processes; leave it 1 with a launcher",
      config.processes, launch.launcher, launch.world_size);
}

[[noreturn]] void start_ranks(const parallel::LaunchConfig& config) {
  const auto run = parallel::run_local_ranks(
      parallel::own_command(),
      {.processes = config.processes, .grace = std::min(15.0, config.timeout)});
  if (!run.message.empty()) tell("error: {}\n", run.message);
  throw ExitRequest{run.exit_code};
}

// The end of a rank when it, or another one, has failed. At once: threads that still wait for other
// ranks would hold an orderly end up.
[[noreturn]] void end_rank(parallel::World& world, const std::exception& error) {
  const auto failure = failure_of(error);
  const bool is_cause = world.fail(failure.message, failure.code);
  const bool is_told_by_another = dynamic_cast<const parallel::RankError*>(&error) != nullptr;
  if (is_cause || (world.is_first() && is_told_by_another)) {
    const auto who = is_told_by_another ? "" : fmt::format("rank {}: ", world.rank());
    tell("error: {}{}\n", who, failure.message);
  }
  std::fflush(nullptr);
  _exit(static_cast<int>(failure.code));
}

// The end of a rank that has lost the others while its main thread is elsewhere, and may hold the
// locks of what is printed to: nothing is waited for but a terminal, for a second.
[[noreturn]] void end_alone(int64_t rank, const std::string& why) {
  const auto text = fmt::format(
      "error: rank {}: {}; this rank ends, for nobody could tell it to. The last good checkpoint "
      "stands: the same command goes on from it\n",
      rank, printable_lines(why));
  pollfd terminal{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  if (poll(&terminal, 1, 1000) > 0) {
    [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
  }
  _exit(static_cast<int>(ExitCode::kHang));
}

void warn_of_strangers(const parallel::Launch& launch) {
  if (launch.is_one_machine() || !launch.secret.empty() || launch.is_store_of_torchrun) return;
  log_warning(
      "the ranks of several machines meet without a secret, so whoever reaches this machine can "
      "join in or break the run off; set FOVEA_SECRET or FOVEA_SECRET_FILE (docs/clusters.md)");
}

void run_as_rank(parallel::World& world, const std::function<void(parallel::World&)>& body) {
  world.is_first() ? set_log_verbose(true) : mute_log();
  std::optional<ExitRequest> request;
  try {
    try {
      body(world);
    } catch (const ExitRequest& told_to_stop) {  // the state is saved
      request = told_to_stop;
    }
    world.leave();
  } catch (const std::exception& error) {
    end_rank(world, error);
  }
  if (request) throw ExitRequest{*request};
}

}  // namespace

std::shared_ptr<const parallel::DeviceBackend> choose_device(const std::string& type,
                                                             const parallel::Launch& launch) {
  if (type == "cpu") return nullptr;
  const int num_devices = kernels::load_cuda_backend().num_devices;
  if (num_devices > 0) {
    kernels::set_default_gpu(static_cast<int>(launch.local_rank % num_devices));
  }
  const auto device = kernels::resolve_device(type);
  return device.is_cpu() ? nullptr : parallel::nccl_backend(device.index());
}

void run_in_world(const train::TrainConfig& config,
                  const std::function<void(parallel::World&)>& body) {
  const auto launch = parallel::launch_from(parallel::process_environment());
  check_processes(config.launch, launch);
  const bool is_launched = launch.world_size > 1;
  const int64_t num_ranks = is_launched ? launch.world_size : config.launch.processes;
  parallel::mesh_shape(config.parallel, num_ranks, config.data.global_batch_size);
  if (num_ranks > 1 && !is_launched) start_ranks(config.launch);
  const auto nccl = choose_device(config.device.type, launch);
  parallel::World world(launch, config.launch, nccl);
  if (!is_launched) return body(world);
  world.on_alone([rank = world.rank()](const std::string& why) { end_alone(rank, why); });
  if (world.is_first()) warn_of_strangers(launch);
  if (config.parallel.check_collectives) world.check_collectives();
  run_as_rank(world, body);
}

}  // namespace fovea::app
