#include "fovea/checkpoint/checkpoint_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>

#include "fovea/checkpoint/durable.h"
#include "fovea/checkpoint/manifest.h"
#include "fovea/checkpoint/slice_reader.h"
#include "fovea/checkpoint/tensor_files.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"

namespace fovea::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStepPrefix = "step_";
constexpr size_t kMaxLineBytes = 4096;  // of files of one line: a folder's name, a message

// The file that holds all of a part's tensors whole; empty: there are several.
std::string only_file_of(const Manifest& manifest, const std::string& part) {
  std::string only;
  for (const auto& [name, tensor] : manifest.tensors.at(part)) {
    if (tensor.slices.size() != 1 || tensor.slices[0].size != tensor.shape) return {};
    if (!only.empty() && only != tensor.slices[0].file) return {};
    only = tensor.slices[0].file;
  }
  return only;
}

// A part put together from what several processes wrote, as a file of its own.
std::string joined_file(const fs::path& folder, const std::string& part, const Manifest& manifest) {
  const auto name = part + ".safetensors";
  const auto temporary = fmt::format("{}.{}.tmp", name, ::getpid());
  Manifest unused;
  fs::remove(folder / temporary);
  write_tensors(folder, temporary, part, read_tensors(folder, part, manifest), unused);
  fs::rename(folder / temporary, folder / name);
  return (folder / name).string();
}

}  // namespace

std::string folder_name(int64_t step, const std::string& label) {
  return fmt::format("{}{:08d}{}{}", kStepPrefix, step, label.empty() ? "" : "_", label);
}

std::optional<int64_t> step_of(const std::string& folder_name) {
  if (!folder_name.starts_with(kStepPrefix)) return {};
  const char* begin = folder_name.data() + kStepPrefix.size();
  const char* end = folder_name.data() + folder_name.size();
  int64_t step = 0;
  const auto [stop, error] = std::from_chars(begin, end, step);
  const bool is_whole = stop == end || *stop == '_';  // behind it, a label
  return error == std::errc() && is_whole && step >= 0 ? std::optional(step) : std::nullopt;
}

std::string first_line_of(const fs::path& path) {
  const auto start = read_start(path.string(), kMaxLineBytes);
  return start.substr(0, start.find_first_of("\r\n"));
}

State read_state(const fs::path& folder, const WantedParts& wanted) {
  const auto manifest = read_manifest(folder);
  State state;
  state.scalars = manifest.scalars;
  state.source = (folder / "manifest.json").string();
  const auto read = [&](const std::string& part) {
    const auto of = wanted.find(part);
    if (of == wanted.end()) return read_tensors(folder, part, manifest);
    const auto saved = manifest.tensors.find(part);
    for (const auto& [name, own] : of->second) {
      if (saved == manifest.tensors.end()) break;
      const auto tensor = saved->second.find(name);
      const bool fits = tensor != saved->second.end() && own.part.shape == tensor->second.shape;
      if (fits) state.parts[part][name] = own.part;
    }
    return read_tensors(folder, part, manifest, of->second);
  };
  state.model = read("model");
  state.optimizer = read("optimizer");
  if (manifest.tensors.contains("ema")) state.ema = read("ema");
  for (const auto& name : manifest.not_averaged) state.ema.erase(name);
  return state;
}

std::string weights_in(const fs::path& folder) {
  try {
    const auto manifest = read_manifest(folder);
    const std::string part = manifest.tensors.contains("ema") ? "ema" : "model";
    const auto only = only_file_of(manifest, part);
    if (only.empty()) return joined_file(folder, part, manifest);
    for (const auto& entry : manifest.files) {
      if (entry.name == only) {
        verify_file(folder, entry);
        return (folder / entry.name).string();
      }
    }
    fail<CheckpointError>("no file {} in it", only);
  } catch (const Error& error) {
    fail<CheckpointError>("damaged checkpoint {}: {}; use another one", folder.string(),
                          error.what());
  }
}

}  // namespace fovea::checkpoint
