#include "fovea/train/run/bad_samples_file.h"

#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/files/atomic_file.h"

namespace fovea::train {

using nlohmann::json;

namespace {

constexpr uint64_t kMaxBadSamplesBytes = uint64_t{256} << 20;  // a million, with their reasons
constexpr int kBadSamplesDepth = 8;

}  // namespace

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

std::vector<data::BadSample> bad_samples_from_json(const JsonValue& list) {
  std::vector<data::BadSample> samples;
  for (const auto& one : list.items()) {
    data::BadSample sample;
    one.read("index", sample.index);
    one.read("name", sample.name);
    one.read("reason", sample.reason);
    one.read("times", sample.times);
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
  if (!is_there(path)) return file;
  const auto source = path.string();
  const auto value = parse_json(read_file(source, kMaxBadSamplesBytes), source, kBadSamplesDepth);
  for (const auto& [split, part] : JsonValue(value, source).members()) {
    auto& found = file[split];
    part.read("policy", found.policy);
    if (const auto samples = part.find("samples")) found.samples = bad_samples_from_json(*samples);
  }
  return file;
}

}  // namespace fovea::train
