// Clusters and profiles that are made up, for tests of the solver and what stands on it.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fovea/elastic/solve/cluster.h"
#include "fovea/elastic/solve/profile.h"

namespace fovea::elastic::testing {

struct SolveCase {
  Cluster cluster;
  ProfileSet profiles;
  int64_t global_batch = 1;
};

// A device that takes `ms` for a sample, less for each in larger batches, at 1 x to 2 x batches.
inline DeviceProfile device_profile(const std::string& kind, double ms, int64_t batch,
                                    int64_t concurrent) {
  DeviceProfile device{.fingerprint = kind, .model = "vit", .dtype = "float32"};
  for (const int64_t n : {int64_t{1}, concurrent}) {
    if (n == 1 && concurrent == 1 && !device.computation.empty()) break;
    for (const int64_t b : {batch, 2 * batch}) {
      const auto samples = static_cast<double>(b * n);
      device.computation.push_back({.local_batch = b,
                                    .concurrent = n,
                                    .data_ms = 0.1 * samples,
                                    .forward_ms = 2 + (n > 1 ? 0.8 : 1) * ms * samples,
                                    .backward_ms = 4 + (n > 1 ? 1.7 : 2) * ms * samples,
                                    .update_ms = 3,
                                    .copy_ms = n > 1 ? 1.5 : 0,
                                    .sync_ms = 0.25});
    }
  }
  device.memory = {{.local_batch = batch, .max_concurrent = concurrent},
                   {.local_batch = 2 * batch, .max_concurrent = concurrent}};
  return device;
}

inline Host host_of(const std::string& name, const std::string& kind, int64_t number,
                    double price) {
  return {name,
          {.type = kind,
           .tfplos = 10,
           .number = number,
           .intra_network_bandwidth = 1.5e10,
           .inter_network_bandwidth = 1e10,
           .price_per_hour = price}};
}

inline void add_network(ProfileSet& profiles, double megabytes, double ms_inter) {
  profiles.bucket_megabytes = {megabytes, megabytes, megabytes / 4};
  for (const double mb : {1.0, 10.0, 50.0}) {
    for (const std::string place : {"intra", "inter"}) {
      const double factor = place == "intra" ? 0.3 : 1;
      profiles.communication.push_back({.collective = "all_reduce",
                                        .place = place,
                                        .ranks = 4,
                                        .bytes = mb * 1048576,
                                        .ms = factor * (0.2 + ms_inter * mb)});
    }
  }
}

// Up to `most_devices` devices of up to three kinds on up to four hosts.
inline SolveCase random_case(uint64_t seed, int64_t most_devices) {
  std::mt19937_64 random(seed);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  SolveCase made;
  const auto kinds = pick(1, 3);
  for (int64_t k = 0; k < kinds; ++k) {
    made.profiles.devices.push_back(device_profile("kind" + std::to_string(k),
                                                   0.25 * static_cast<double>(pick(1, 16)),
                                                   pick(1, 4), pick(1, 3)));
  }
  int64_t left = pick(1, most_devices);
  for (int64_t h = 0; left > 0 && h < 4; ++h) {
    const auto number = h == 3 ? left : pick(1, left);
    const auto kind = pick(0, kinds - 1);
    made.cluster.hosts.push_back(host_of("node" + std::to_string(h), "kind" + std::to_string(kind),
                                         number, 0.5 * static_cast<double>(1 + kind)));
    left -= number;
  }
  made.profiles.model = "vit";
  add_network(made.profiles, static_cast<double>(pick(1, 30)),
              0.05 * static_cast<double>(pick(0, 20)));
  made.global_batch = pick(1, 11);
  return made;
}

}  // namespace fovea::elastic::testing
