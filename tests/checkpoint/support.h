// States and folders to save and load.
#pragma once

#include <ATen/ops/full.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "fovea/checkpoint/state.h"
#include "fovea/core/json.h"
#include "fovea/files/sha256.h"
#include "tests/support/temp_dir.h"

namespace fovea::checkpoint {

using support::TempDir;

// Tensors all filled with `step`, so that a mixture of two steps shows.
inline State state_of(int64_t step, int64_t rows = 3) {
  const auto value = static_cast<double>(step);
  State state;
  state.model = {{"weight", at::full({rows, 5}, value)}, {"bias", at::full({5}, value)}};
  state.optimizer = {{"exp_avg/weight", at::full({rows, 5}, value)},
                     {"exp_avg/bias", at::full({5}, value)}};
  state.ema = {{"weight", at::full({rows, 5}, value)}};
  state.scalars = {{"step", step}, {"best", 0.1 * value}};
  return state;
}

// True when everything is as state_of(step) made it.
inline bool is_state_of(const State& state, int64_t step, int64_t rows = 3) {
  const auto expected = state_of(step, rows);
  const auto same = [](const TensorMap& a, const TensorMap& b) {
    if (a.size() != b.size()) return false;
    for (const auto& [name, tensor] : a) {
      if (!b.contains(name) || !tensor.equal(b.at(name))) return false;
    }
    return true;
  };
  return same(state.model, expected.model) && same(state.optimizer, expected.optimizer) &&
         same(state.ema, expected.ema) && state.scalars == expected.scalars;
}

inline std::string read_bytes(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(text).str();
}

inline void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// A manifest with a checksum that fits, as of a writer that was wrong itself.
inline std::string signed_manifest(const nlohmann::json& contents) {
  const auto text = json_text(contents);
  Sha256 hash;
  hash.update(text.data(), text.size());
  return json_text(nlohmann::json{{"manifest", contents}, {"sha256", hash.finish()}});
}

}  // namespace fovea::checkpoint
