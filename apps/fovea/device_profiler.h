// What `fovea profile` measures on this machine.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fovea/elastic/profile/batch_search.h"
#include "fovea/elastic/solve/profile.h"
#include "fovea/train/recipe/config.h"

namespace fovea::app {

struct ProfilerOptions {
  std::vector<std::string> devices = {};    // "cpu", "cuda:0"; empty: the recipe's
  std::optional<int64_t> local_batch = {};  // largest that is looked at; none: the recipe's batch
  elastic::SearchKind search = elastic::SearchKind::kStatic;
  double pause = 0;  // s between measurements
  std::function<void(const std::string&)> progress = {};
  std::function<void(const std::string&)> say = {};  // lines that stay
};

// Each kind of device once.
std::vector<elastic::DeviceProfile> profile_devices(const train::TrainConfig& config,
                                                    const ProfilerOptions& options);

// Collectives among processes of this machine: as many as it has GPUs, or as the CPU has shares of
// the recipe's threads.
std::vector<elastic::CommunicationPoint> profile_collectives(
    const train::TrainConfig& config, const ProfilerOptions& options,
    const std::vector<double>& bucket_megabytes);

// "cpu", "cuda:0": those of the options, or the recipe's.
std::vector<std::string> devices_of(const train::TrainConfig& config,
                                    const ProfilerOptions& options);

}  // namespace fovea::app
