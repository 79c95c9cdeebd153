// manifest.json of a checkpoint: which files there are, their checksums, and where each tensor
// lies. A tensor is described by its global shape and the slices of it that lie in files, so that
// a reader may put together any part of it, on any mesh; one process writes one slice, the whole.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::checkpoint {

struct FileEntry {
  std::string name;  // within the checkpoint's folder
  uint64_t bytes = 0;
  std::string sha256;
  std::string preamble = {};  // byte_sum of what stands before the first tensor; may be missing
};

struct Slice {
  std::string file;
  std::vector<int64_t> offset;  // of its first element in the whole tensor, by dim
  std::vector<int64_t> size;    // by dim
  std::string sum = {};         // byte_sum; missing in older checkpoints
};

// What one of several processes wrote, until all manifests are joined.
inline std::string manifest_name_of(int64_t writer) {
  return "manifest-" + std::to_string(writer) + ".json";
}

struct TensorEntry {
  std::string dtype;           // as safetensors names them: "F32" ...
  std::vector<int64_t> shape;  // of the whole tensor
  std::vector<Slice> slices;
};

// The parts of a State that hold tensors.
inline constexpr std::array<std::string_view, 3> kParts = {"model", "optimizer", "ema"};

struct Manifest {
  int64_t step = 0;
  nlohmann::json scalars = nlohmann::json::object();
  std::vector<FileEntry> files;
  std::map<std::string, std::map<std::string, TensorEntry>> tensors;  // by part, by name
  // Names in the part "ema" that are no averages but the model's own: parameters not trained.
  std::vector<std::string> not_averaged;

  // The text of manifest.json; holds its own checksum.
  std::string to_text() const;
};

// Throws CheckpointError where the file is missing, cut off, changed or of a format not known.
Manifest read_manifest(const std::filesystem::path& folder,
                       const std::string& name = "manifest.json");

// The same of its text, from `source`.
Manifest manifest_from(const std::string& text, const std::string& source);

// Adds the files and slices of another process. Throws CheckpointError where both name one tensor
// with other shapes.
void join(Manifest& manifest, const Manifest& other);

}  // namespace fovea::checkpoint
