#include "fovea/train/bad_samples_file.h"

#include <nlohmann/json.hpp>

#include "fovea/core/atomic_file.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/train/json_fields.h"

namespace fovea::train {

using nlohmann::json;

json bad_samples_to_json(const std::vector<data::BadSample>& samples) {
  auto list = json::array();
  for (const auto& sample : samples) {
    list.push_back({{"index", sample.index},
                    {"name", sample.name},
                    {"reason", sample.reason},
                    {"times", sample.times}});
  }
  return list;
}

std::vector<data::BadSample> bad_samples_from_json(const json& list) {
  if (!list.is_array()) fail<DataError>("bad samples are no list");
  std::vector<data::BadSample> samples;
  for (const auto& one : list) {
    data::BadSample sample;
    read_field(one, "index", sample.index);
    read_field(one, "name", sample.name);
    read_field(one, "reason", sample.reason);
    read_field(one, "times", sample.times);
    samples.push_back(std::move(sample));
  }
  return samples;
}

void write_bad_samples_file(const std::filesystem::path& path, const BadSamplesFile& file) {
  json out = json::object();
  for (const auto& [split, found] : file) {
    if (found.samples.empty()) continue;
    out[split] = {{"policy", found.policy}, {"samples", bad_samples_to_json(found.samples)}};
  }
  std::error_code ignored;
  if (out.empty()) {
    std::filesystem::remove(path, ignored);
    return;
  }
  write_file_atomic(path.string(), json_text(out, 1) + "\n");
}

BadSamplesFile read_bad_samples_file(const std::filesystem::path& path) {
  BadSamplesFile file;
  if (!std::filesystem::exists(path)) return file;
  const auto value = parse_json_object(read_file(path.string(), kMaxJsonBytes), path.string());
  try {
    for (const auto& [split, part] : value.items()) {
      if (!part.is_object()) fail<DataError>("\"{}\" is no object", split);
      auto& found = file[split];
      read_field(part, "policy", found.policy);
      found.samples = bad_samples_from_json(list_field(part, "samples"));
    }
  } catch (const DataError& error) {
    fail<DataError>("{}: {}", path.string(), error.what());
  }
  return file;
}

}  // namespace fovea::train
