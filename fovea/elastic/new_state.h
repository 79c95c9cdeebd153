// A run's state while it is put together from what members hold and a checkpoint has.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fovea/checkpoint/assembly.h"
#include "fovea/checkpoint/manifest.h"
#include "fovea/checkpoint/state.h"
#include "fovea/elastic/peer_slices.h"
#include "fovea/elastic/relay_plan.h"
#include "fovea/parallel/world.h"

namespace fovea::elastic {

class NewState {
 public:
  // wanted: tensors as they are to become, with any values; described: the same, as describe() has
  // it. Both outlive this.
  NewState(const checkpoint::State& wanted, const checkpoint::Manifest& described);

  checkpoint::Assembly& target(const std::string& part, const std::string& name) {
    return targets_.at({part, name});
  }
  const checkpoint::Manifest& described() const { return described_; }

  // What this process holds itself.
  void place_own(const std::vector<Transfer>& own, const checkpoint::State& held);
  // What a checkpoint has of what is missing -> bytes read. Throws CheckpointError.
  uint64_t read_missing(const std::filesystem::path& folder, const checkpoint::Manifest& manifest,
                        const std::vector<Transfer>& missing);

  // Once all is there.
  checkpoint::State take();

 private:
  const checkpoint::State& wanted_;
  const checkpoint::Manifest& described_;
  std::map<std::pair<std::string, std::string>, checkpoint::Assembly> targets_;
};

// What comes from other members, from each in a thread of its own. Destroyed, it waits for nobody.
class Fetching {
 public:
  explicit Fetching(NewState& state) : state_(state) {}
  ~Fetching();
  Fetching(const Fetching&) = delete;
  Fetching& operator=(const Fetching&) = delete;

  void start(const PeerPlace& peer, const std::vector<Transfer>& transfers);
  // -> bytes that came. Throws RankError: a member is lost, or does not give what it holds.
  uint64_t wait(parallel::World& world);

 private:
  void run(const PeerPlace& peer, const std::vector<PeerSlices::Wanted>& slices);

  NewState& state_;
  std::shared_ptr<parallel::Interrupt> end_ = std::make_shared<parallel::Interrupt>();
  std::mutex mutex_;  // of what follows, but for the threads
  std::condition_variable changed_;
  int64_t num_running_ = 0, num_slices_ = 0;
  uint64_t bytes_ = 0;
  std::exception_ptr fault_;
  std::vector<std::thread> threads_;
};

}  // namespace fovea::elastic
