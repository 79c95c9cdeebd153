#include "fovea/parallel/world.h"

#include <ATen/Parallel.h>
#include <fmt/ranges.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <map>
#include <mutex>
#include <numeric>

#include "fovea/core/host_name.h"
#include "fovea/core/log.h"
#include "fovea/parallel/collective_check.h"
#include "fovea/parallel/key_store.h"
#include "fovea/parallel/nccl.h"
#include "fovea/parallel/process_group.h"
#include "fovea/parallel/rank_error.h"
#include "fovea/parallel/rank_wait.h"
#include "fovea/parallel/watch.h"

namespace fovea::parallel {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kMostSilence{60000};
constexpr milliseconds kStorePatience{5000};  // at least, for an answer: machines may be busy
constexpr milliseconds kLeavePatience{10000};
constexpr milliseconds kAbandonPatience{100};     // for the others to be told
constexpr milliseconds kReasonOfGeneration{300};  // others say why by a new plan
constexpr size_t kMaxNamed = 20;

milliseconds milliseconds_of(double seconds) {
  return milliseconds(static_cast<int64_t>(std::ceil(seconds * 1000)));
}

std::vector<int64_t> all_ranks(const Launch& launch) {
  std::vector<int64_t> ranks(static_cast<size_t>(launch.world_size));
  std::iota(ranks.begin(), ranks.end(), int64_t{0});
  return ranks;
}

std::string own_name() { return host_name("?"); }

KeyStore open_store(const Launch& launch, milliseconds timeout, const Generation& generation) {
  return KeyStore({.place = {.address = launch.address,
                             .port = launch.port,
                             .is_of_torchrun = launch.is_store_of_torchrun,
                             .secret = launch.secret},
                   .is_server = launch.has_store(),
                   .is_for_others = !launch.is_one_machine(),
                   .timeout = timeout,
                   .interrupt = generation.interrupt,
                   .listeners = generation.listeners});
}

std::vector<std::string> keys_of_all(const char* prefix, int64_t num_ranks) {
  std::vector<std::string> keys;
  for (int64_t rank = 0; rank < num_ranks; ++rank)
    keys.push_back(fmt::format("{}/{}", prefix, rank));
  return keys;
}

std::string prefix_of(const Launch& launch, const Generation& generation) {
  const auto run = "fovea/" + launch.run_id;
  return generation.number == 0 ? run : fmt::format("{}/{}", run, generation.number);
}

WatchPatience patience_of(const Generation& generation, milliseconds timeout) {
  if (generation.silence == 0) return {.stale = std::min(kMostSilence, timeout / 2)};
  return {.stale = milliseconds_of(generation.silence), .reason = kReasonOfGeneration};
}

// Runs what needs the other ranks; a fault of the network there is one of theirs.
template <class Body>
void with_others(const Launch& launch, const char* what, Body body) {
  try {
    body();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const std::string text = error.what();
    throw RankError(fmt::format(
        "rank {}: {} was broken off: another rank, or rank 0 at {}:{} where "
        "they meet, has gone; look at its log ({})",
        launch.rank, what, launch.address, launch.port, text.substr(0, text.find('\n'))));
  }
}

void ignore_broken_pipes() {
  struct sigaction action {};
  const bool is_known = sigaction(SIGPIPE, nullptr, &action) == 0;
  const bool has_handler = (action.sa_flags & SA_SIGINFO) != 0 || action.sa_handler != SIG_DFL;
  if (is_known && !has_handler) std::signal(SIGPIPE, SIG_IGN);
}

// device: that this rank computes on; empty: none that others' tensors reach.
void meet(KeyStore& store, const Launch& launch, const std::string& device, milliseconds timeout) {
  if (store.add(fmt::format("claim/{}", launch.rank), 1) > 1) {
    throw RankError(fmt::format("a second process says that it is rank {} of {}; start each rank "
                                "once, and two runs with another MASTER_PORT each",
                                launch.rank, launch.world_size),
                    ExitCode::kConfig);
  }
  store.set(fmt::format("device/{}", launch.rank), device);
  store.set(fmt::format("here/{}", launch.rank), fmt::format("{} {}", own_name(), getpid()));
  auto missing = store.wait_for(keys_of_all("here", launch.world_size), timeout);
  if (missing.empty()) return;
  const auto count = missing.size();
  missing.resize(std::min(count, kMaxNamed));
  for (auto& key : missing) key = key.substr(key.find('/') + 1);
  throw RankError(fmt::format(
      "rank {} waited {:.0f} s at {}:{} for {} of {} ranks that did not come: rank {}{}; look at "
      "their logs, or raise launch.timeout",
      launch.rank, std::chrono::duration<double>(timeout).count(), launch.address, launch.port,
      count, launch.world_size, fmt::join(missing, ", "), count > kMaxNamed ? ", ..." : ""));
}

// Null, with a line in the log, where not every rank has a device of its own; all ranks come to the
// same. All have met.
std::shared_ptr<const DeviceBackend> if_apart(std::shared_ptr<const DeviceBackend> backend,
                                              const KeyStore& store, const Launch& launch) {
  if (!backend) return nullptr;
  std::vector<std::string> devices;
  for (const auto& key : keys_of_all("device", launch.world_size)) {
    devices.push_back(store.find(key).value_or(""));
  }
  const auto why_not = why_no_device_groups(devices);
  if (!why_not.empty()) {
    if (launch.rank == 0) {
      log_warning(
          fmt::format("{}: tensors travel between ranks through host memory, not by NCCL, which is "
                      "far slower",
                      why_not));
    }
    return nullptr;
  }
  if (launch.rank == 0) log_info("tensors travel between GPUs by NCCL");
  return backend;
}

}  // namespace

struct World::Links {
  // generation: with an interrupt.
  Links(const Launch& launch, milliseconds patience, std::shared_ptr<const DeviceBackend> device,
        const Generation& generation)
      : timeout(patience),
        interrupt(generation.interrupt),
        root(open_store(launch, patience, generation)),
        store(root.under(prefix_of(launch, generation))),
        device_backend(std::move(device)) {
    with_others(launch, "the start", [&] {
      meet(store, launch, device_backend ? device_backend->device : "", patience);
      device_backend = if_apart(std::move(device_backend), store, launch);
      const auto silence = patience_of(generation, patience);
      watch = std::make_unique<Watch>(store.clone(std::max(silence.stale, kStorePatience)),
                                      launch.rank, launch.world_size, silence, interrupt);
      address = launch.is_one_machine()
                    ? "127.0.0.1"
                    : address_towards(launch.address, launch.port,
                                      std::chrono::steady_clock::now() + patience);
    });
  }

  void give_up_groups() {
    const std::lock_guard lock(mutex);
    for (const auto& [ranks, group] : groups) group->give_up(interrupt->why());
  }

  milliseconds timeout;
  std::shared_ptr<Interrupt> interrupt;
  KeyStore root, store;
  std::shared_ptr<const DeviceBackend> device_backend;
  bool is_checking = false;
  std::unique_ptr<Watch> watch;
  std::string address;
  std::mutex mutex;  // of what makes and gives up groups
  std::map<std::vector<int64_t>, std::shared_ptr<Communicator>> groups;
  Interrupt::Hook on_abandon = interrupt->on_fire([this] { give_up_groups(); });
};

World::World() : all_(make_one_rank()) {}

World::World(const Launch& launch, GroupFactory groups)
    : launch_(launch), group_factory_(std::move(groups)) {
  all_ = make_group(all_ranks(launch));
}

World::World(const Launch& launch, const LaunchConfig& config,
             std::shared_ptr<const DeviceBackend> device_backend, const Generation& generation)
    : launch_(launch) {
  if (launch.world_size == 1) {
    all_ = make_one_rank();
    return;
  }
  ignore_broken_pipes();
  at::set_num_threads(static_cast<int>(threads_per_rank(launch)));
  auto own = generation;
  if (!own.interrupt) own.interrupt = std::make_shared<Interrupt>();
  links_ = std::make_unique<Links>(launch, milliseconds_of(config.timeout),
                                   std::move(device_backend), own);
  all_ = make_group(all_ranks(launch));
  all_->set_name("world");
}

World::~World() = default;

World& World::single() {
  static World only;
  return only;
}

std::shared_ptr<Communicator> World::make_group(const std::vector<int64_t>& ranks) {
  const auto own = std::find(ranks.begin(), ranks.end(), rank());
  FOVEA_CHECK(own != ranks.end() && std::is_sorted(ranks.begin(), ranks.end()),
              "rank {} makes a group of [{}]; expected rising ranks, its own among them", rank(),
              fmt::join(ranks, ", "));
  if (!links_ && !group_factory_) return all_;
  if (ranks.size() == 1) return make_one_rank();
  if (group_factory_) {
    auto& made = made_groups_[ranks];
    if (!made) made = group_factory_(ranks);
    return made;
  }
  const auto known = links_->groups.find(ranks);
  if (known != links_->groups.end()) return known->second;
  std::shared_ptr<Communicator> group;
  const GroupOptions options{.rank = own - ranks.begin(),
                             .size = static_cast<int64_t>(ranks.size()),
                             .address = links_->address,
                             .timeout = links_->timeout,
                             .collectives = launch_.collectives,
                             .is_world = static_cast<int64_t>(ranks.size()) == size(),
                             .interrupt = links_->interrupt};
  const auto store = links_->store.under(fmt::format("group/{}", fmt::join(ranks, "-")));
  with_others(launch_, "the start of a group", [&] {
    Backends backends{.host = make_host_backend(store, options), .device = {}};
    if (links_->device_backend) backends.device = links_->device_backend->make(store, options);
    group = make_communicator(std::move(backends), options, *links_->watch);
    if (links_->is_checking) check(ranks, *group);
  });
  const std::lock_guard lock(links_->mutex);
  links_->groups.emplace(ranks, group);
  return group;
}

void World::check_collectives() {
  if (!links_ || links_->is_checking) return;
  links_->is_checking = true;
  for (const auto& [ranks, group] : links_->groups) check(ranks, *group);
}

void World::check(const std::vector<int64_t>& ranks, Communicator& group) {
  auto store =
      links_->store.clone(links_->timeout)->under(fmt::format("check/{}", fmt::join(ranks, "-")));
  const auto check = std::make_shared<CollectiveCheck>(std::move(store), ranks, rank(),
                                                       links_->timeout, *links_->watch);
  group.set_check([check](const std::string& collective) { check->agree(collective); });
}

void World::check() const {
  if (links_) links_->watch->check_fault();
}

void World::at_step(int64_t step) {
  if (links_) links_->watch->at_step(step);
}

void World::at_operation(const std::string& operation) {
  if (links_) links_->watch->at_operation(operation);
}

void World::on_alone(std::function<void(const std::string& why)> end) {
  if (links_) links_->watch->on_alone(std::move(end));
}

bool World::is_waiting() const { return links_ && links_->watch->is_looking(); }

double World::take_wait_seconds() { return links_ ? links_->watch->take_wait_seconds() : 0; }

void World::abandon(const std::string& why) {
  if (!links_ || is_abandoned()) return;
  links_->watch->post(why, ExitCode::kHang,
                      kAbandonPatience);  // to those with no broken connection
  links_->interrupt->fire(why);
}

bool World::is_abandoned() const { return links_ && links_->interrupt->has_fired(); }

void World::wait_until(const std::string& operation,
                       const std::function<bool(milliseconds)>& is_over) {
  if (links_) return RankWait(operation, links_->timeout, *links_->watch).until(is_over);
  while (!is_over(milliseconds(1000))) {
  }
}

std::string World::address() const { return links_ ? links_->address : ""; }

bool World::fail(const std::string& message, ExitCode code) {
  return !links_ || links_->watch->post(message, code);
}

void World::leave() {
  if (!links_) return;
  all_->barrier("the end of the run");
  links_->watch->on_alone({});
  links_->store.set(fmt::format("left/{}", rank()), "");
  // Also where the store is in a World before this one.
  if (is_first()) links_->store.wait_for(keys_of_all("left", size()), kLeavePatience);
}

}  // namespace fovea::parallel
