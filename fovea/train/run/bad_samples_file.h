// bad_samples.json of a run folder: the samples that could not be read, why, and what was done.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "fovea/core/json.h"
#include "fovea/data/bad_samples.h"

namespace fovea::train {

struct BadSamplesOfSplit {
  std::string policy;  // "skip", "substitute"
  std::vector<data::BadSample> samples;
};

using BadSamplesFile = std::map<std::string, BadSamplesOfSplit>;  // "train", "val"

nlohmann::json bad_samples_to_json(const std::vector<data::BadSample>& samples);
// Throws DataError where the form is wrong.
std::vector<data::BadSample> bad_samples_from_json(const JsonValue& list);

// Atomic: the old file or the whole new one. Takes the file away where there is nothing to say.
void write_bad_samples_file(const std::filesystem::path& path, const BadSamplesFile& file);
// Empty where there is no such file. Throws DataError naming it where it is damaged.
BadSamplesFile read_bad_samples_file(const std::filesystem::path& path);

}  // namespace fovea::train
