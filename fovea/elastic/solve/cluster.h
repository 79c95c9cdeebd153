// Hosts, their devices and what these cost.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fovea/config/fields.h"

namespace fovea::elastic {

// JABAS's price of a device in an hour, where none is given: by its speed, 3.06 at 14.13 TFLOP/s.
double price_by_speed(double tflops);

// A host of gpu_cluster_info.
struct HostConfig {
  std::string type{};
  double tfplos = 0;  // spelt as JABAS has it
  int64_t number = 1;
  double intra_network_bandwidth = 0;
  double inter_network_bandwidth = 0;
  std::optional<double> price_per_hour{};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("type", self.type, "kind of device, as its profile calls it", {.required = true});
    v.field("tfplos", self.tfplos, "speed of a device", {.min = 0, .unit = "TFLOP/s"});
    v.field("number", self.number, "devices of the host",
            {.min = 1, .max = 4096, .required = true});
    v.field("intra_network_bandwidth", self.intra_network_bandwidth, "between devices of the host",
            {.min = 0, .exclusive_min = true, .unit = "bytes/s", .required = true});
    v.field("inter_network_bandwidth", self.inter_network_bandwidth, "to other hosts",
            {.min = 0, .exclusive_min = true, .unit = "bytes/s", .required = true});
    v.field("price_per_hour", self.price_per_hour,
            "of a device; by default by its speed, 3.06 at 14.13 TFLOP/s", {.min = 0});
  }
  double price() const { return price_per_hour.value_or(price_by_speed(tfplos)); }
};

struct Host {
  std::string name;
  HostConfig config;
};

struct Cluster {
  std::vector<Host> hosts;

  int64_t num_devices() const;
};

// The hosts of a file in the order of `names`, all in its own order where there are none. Throws
// ConfigError with file and line, and for a name that is not there.
Cluster load_cluster(const std::string& path, const std::vector<std::string>& names);
Cluster parse_cluster(const std::string& text, const std::string& source,
                      const std::vector<std::string>& names);

}  // namespace fovea::elastic
