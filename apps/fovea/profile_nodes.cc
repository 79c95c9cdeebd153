#include "apps/fovea/profile_nodes.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "apps/fovea/profile_parts.h"
#include "apps/fovea/ranks.h"
#include "fovea/core/host_name.h"
#include "fovea/core/json.h"
#include "fovea/elastic/profile/collective_meter.h"
#include "fovea/files/record_json.h"
#include "fovea/kernels/device.h"

namespace fovea::app {
namespace {

using elastic::CommunicationPoint;

constexpr double kPatience = 3600;  // s that others wait for the slowest device

std::string lines_of_devices(const std::vector<elastic::DeviceProfile>& devices) {
  std::string text;
  for (const auto& device : devices) text += json_text(record_json(device)) + "\n";
  return text;
}

// Of one kind the first one.
std::vector<elastic::DeviceProfile> devices_from(const std::vector<std::string>& texts) {
  std::vector<elastic::DeviceProfile> devices;
  std::set<std::string> seen;
  for (const auto& text : texts) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      auto device = elastic::parse_device_profile(line, "another rank's profile");
      if (seen.insert(device.fingerprint).second) devices.push_back(std::move(device));
    }
  }
  return devices;
}

// Collectives among the first 2, 4 ... of these ranks, of which this one may be one.
std::vector<CommunicationPoint> points_among(parallel::World& world,
                                             const std::vector<int64_t>& ranks,
                                             const elastic::CollectiveMeter& meter) {
  std::vector<CommunicationPoint> points;
  for (const auto count : elastic::rank_counts(std::ssize(ranks))) {
    const std::vector<int64_t> some(ranks.begin(), ranks.begin() + count);
    if (std::find(some.begin(), some.end(), world.rank()) == some.end()) continue;
    const auto found = elastic::measure_collectives(*world.make_group(some), meter);
    points.insert(points.end(), found.begin(), found.end());
  }
  return points;
}

struct Places {
  std::vector<int64_t> node, leaders;  // ranks of the first node; the first ones of all
};

Places places_of(parallel::World& world) {
  const auto own = fmt::format("{} {}", world.launch().local_rank, host_name("?"));
  const auto all = parallel::all_gather_text(world.all(), own, "where ranks are");
  const auto host_of = [](const std::string& text) { return text.substr(text.find(' ') + 1); };
  Places places;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].starts_with("0 ")) places.leaders.push_back(static_cast<int64_t>(rank));
    const bool is_of_first = host_of(all[rank]) == host_of(all[0]);
    if (is_of_first && std::ssize(places.node) < world.launch().local_size) {
      places.node.push_back(static_cast<int64_t>(rank));
    }
  }
  return places;
}

std::string points_text(const std::vector<CommunicationPoint>& points) {
  return json_text(record_json(elastic::CommunicationProfile{.points = points}));
}

}  // namespace

void profile_on_nodes(train::TrainConfig config, const ProfilerOptions& options,
                      const parallel::Launch& launch, elastic::ProfileSet& set) {
  // A rank is a device, also of the CPU.
  auto& threads = config.device.threads;
  if (threads == 0) threads = parallel::threads_per_rank(launch);
  std::vector<elastic::DeviceProfile> devices;
  if (launch.local_rank == 0) devices = profile_devices(config, options);
  config = on_device(config, devices_of(config, options).front());
  config.parallel = {};
  config.data.global_batch_size = std::max(config.data.global_batch_size, launch.world_size);
  config.launch.timeout = std::max(config.launch.timeout, kPatience);
  run_in_world(config, [&](parallel::World& world) {
    set.devices = devices_from(
        parallel::all_gather_text(world.all(), lines_of_devices(devices), "profiles of devices"));
    const auto places = places_of(world);
    elastic::CollectiveMeter meter{.place = "intra",
                                   .device = kernels::resolve_device(config.device.type),
                                   .bytes = elastic::sizes_to_measure(set.bucket_megabytes),
                                   .pause = [&] { pause_for(options.pause); }};
    options.progress("collectives within a node");
    auto points = points_among(world, places.node, meter);
    world.all().barrier("collectives within a node");
    options.progress("collectives between nodes");
    meter.place = "inter";
    const auto between = points_among(world, places.leaders, meter);
    points.insert(points.end(), between.begin(), between.end());
    // Rank 0 is in all groups.
    const auto texts =
        parallel::all_gather_text(world.all(), points_text(points), "times of collectives");
    set.communication =
        elastic::parse_communication_profile(texts.front(), "the first rank's times").points;
  });
}

}  // namespace fovea::app
