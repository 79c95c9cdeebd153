// A process that goes from one generation of a run's members to the next.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tests/parallel/inner_world.h"

namespace fovea::parallel::testing {

struct JoinOptions {
  std::string carrier = {};  // of tensors; empty: any
  double silence = 30;       // s
  std::shared_ptr<Interrupt> interrupt = {};
};

class Member {
 public:
  // outer: of all that will ever be members. They need each other no more then.
  Member(World& outer, int64_t num_generations) : outer_(outer) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    std::string own;
    for (int64_t i = 0; i < num_generations; ++i) {
      listeners_.push_back(listen_at("127.0.0.1", 0, false, deadline));
      own += std::to_string(listeners_.back().front().port()) + " ";
    }
    for (const auto& text : all_gather_text(outer.all(), own, "ports")) {
      std::istringstream words(text);
      auto& ports = ports_.emplace_back();
      for (int64_t port = 0; words >> port;) ports.push_back(port);
    }
  }

  // number: from 1 on. ranks: of the outer world, the first one with the store.
  std::unique_ptr<World> join(const std::vector<int64_t>& ranks, int64_t number,
                              const JoinOptions& options = {}) const {
    const auto index = static_cast<size_t>(number - 1);
    auto launch = launch_of(outer_, ranks, "elastic");
    launch.is_store_hosted = launch.is_store_of_torchrun = false;
    launch.address = "127.0.0.1";
    launch.port = ports_.at(static_cast<size_t>(ranks.front())).at(index);
    launch.collectives = options.carrier;
    return std::make_unique<World>(launch, LaunchConfig{.processes = 1, .timeout = 60}, nullptr,
                                   Generation{.number = number,
                                              .silence = options.silence,
                                              .interrupt = options.interrupt,
                                              .listeners = &listeners_.at(index)});
  }

 private:
  const World& outer_;
  std::vector<std::vector<Socket>> listeners_;  // by generation
  std::vector<std::vector<int64_t>> ports_;     // by rank, by generation
};

}  // namespace fovea::parallel::testing
