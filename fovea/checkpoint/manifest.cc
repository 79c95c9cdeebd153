#include "fovea/checkpoint/manifest.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/core/sha256.h"

namespace fovea::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kFormat = 1;
constexpr uint64_t kMaxManifestBytes = uint64_t{1} << 28;
constexpr int kMaxDepth = 32;  // of nesting; checksums recurse

std::string checksum(const json& contents) {
  const std::string text = json_text(contents);
  Sha256 hash;
  hash.update(text.data(), text.size());
  return hash.finish();
}

json to_json(const TensorEntry& entry) {
  json slices = json::array();
  for (const auto& slice : entry.slices) {
    slices.push_back({{"file", slice.file}, {"offset", slice.offset}, {"size", slice.size}});
    if (!slice.sum.empty()) slices.back()["sum"] = slice.sum;
  }
  return {{"dtype", entry.dtype}, {"shape", entry.shape}, {"slices", slices}};
}

TensorEntry tensor_from_json(const json& value) {
  TensorEntry entry{value.at("dtype"), value.at("shape"), {}};
  for (const auto& slice : value.at("slices")) {
    entry.slices.push_back(
        {slice.at("file"), slice.at("offset"), slice.at("size"), slice.value("sum", "")});
  }
  return entry;
}

Manifest from_json(const json& contents) {
  if (contents.at("format") != kFormat) {
    fail<CheckpointError>("format {}, expected {}; use the version of fovea that wrote it",
                          json_text(contents.at("format")), kFormat);
  }
  Manifest manifest;
  manifest.step = contents.at("step");
  manifest.scalars = contents.at("scalars");
  manifest.not_averaged = contents.at("not_averaged").get<std::vector<std::string>>();
  for (const auto& file : contents.at("files")) {
    manifest.files.push_back(
        {file.at("name"), file.at("bytes"), file.at("sha256"), file.value("preamble", "")});
  }
  for (const auto& [part, tensors] : contents.at("tensors").items()) {
    for (const auto& [name, entry] : tensors.items()) {
      manifest.tensors[part][name] = tensor_from_json(entry);
    }
  }
  return manifest;
}

std::string read_text(const fs::path& path) {
  std::error_code error;
  const auto name = path.filename().string();
  const auto bytes = fs::file_size(path, error);
  if (error) fail<CheckpointError>("{}: {}", name, error.message());
  if (bytes > kMaxManifestBytes) {
    fail<CheckpointError>("{}: {} bytes, expected at most {}", name, bytes, kMaxManifestBytes);
  }
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(text).str();
}

}  // namespace

std::string Manifest::to_text() const {
  json file_list = json::array(), parts = json::object();
  for (const auto& file : files) {
    file_list.push_back({{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}});
    if (!file.preamble.empty()) file_list.back()["preamble"] = file.preamble;
  }
  for (const auto& [part, entries] : tensors) {
    parts[part] = json::object();
    for (const auto& [name, entry] : entries) parts[part][name] = to_json(entry);
  }
  const json contents = {{"format", kFormat},  {"step", step},     {"scalars", scalars},
                         {"files", file_list}, {"tensors", parts}, {"not_averaged", not_averaged}};
  return json_text(json{{"manifest", contents}, {"sha256", checksum(contents)}}, 1) + "\n";
}

Manifest read_manifest(const fs::path& folder, const std::string& name) {
  const auto text = read_text(folder / name);
  try {
    const auto whole = json::parse(text, [&](int depth, json::parse_event_t, json&) {
      if (depth > kMaxDepth) fail<CheckpointError>("{}: nested too deep", name);
      return true;
    });
    const auto& contents = whole.at("manifest");
    if (whole.size() != 2 || checksum(contents) != whole.at("sha256")) {
      fail<CheckpointError>("{}: its checksum does not fit", name);
    }
    return from_json(contents);
  } catch (const json::exception& error) {
    fail<CheckpointError>("{}: not a manifest: {}", name, error.what());
  }
}

void join(Manifest& manifest, const Manifest& other) {
  manifest.files.insert(manifest.files.end(), other.files.begin(), other.files.end());
  for (const auto& [part, tensors] : other.tensors) {
    for (const auto& [name, theirs] : tensors) {
      auto& ours =
          manifest.tensors[part].try_emplace(name, theirs.dtype, theirs.shape).first->second;
      if (ours.dtype != theirs.dtype || ours.shape != theirs.shape) {
        fail<CheckpointError>("{} '{}': two processes wrote it with other shapes or dtypes", part,
                              name);
      }
      ours.slices.insert(ours.slices.end(), theirs.slices.begin(), theirs.slices.end());
    }
  }
  auto& names = manifest.not_averaged;
  for (const auto& name : other.not_averaged) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
}

}  // namespace fovea::checkpoint
