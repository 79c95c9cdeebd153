// Profiles as JABAS's profilers leave them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fovea/elastic/solve/profile.h"

namespace fovea::elastic {

struct JabasFolders {
  std::string memory;         // LBS/HOST/max_memory_profile_info.json
  std::string computation;    // LBS/HOST/*_comp_profile.json
  std::string communication;  // files of lines "ideal ms,measured ms", named intra... and inter...
  std::string buckets;        // one JSON file
};

// Of these hosts, which are devices of their own each: there a profile belongs to a name. Throws
// DataError for what is missing or damaged, with the file and the key or line.
ProfileSet read_jabas_profiles(const JabasFolders& folders, const std::vector<std::string>& hosts);

// Texts of single files.
struct JabasComputation {
  std::string model;
  std::string gpu_type;
  ComputationPoint point;
};
JabasComputation parse_jabas_computation(std::string_view text, const std::string& source);
struct JabasMemory {
  std::string gpu_type;
  int64_t total_bytes = 0;
  MemoryPoint point;
};
JabasMemory parse_jabas_memory(std::string_view text, const std::string& source);
std::vector<double> parse_jabas_buckets(std::string_view text, const std::string& source);
Line parse_jabas_communication(std::string_view text, const std::string& source);

}  // namespace fovea::elastic
