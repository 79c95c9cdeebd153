#include "fovea/checkpoint/manifest.h"

#include <algorithm>
#include <set>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/files/sha256.h"

namespace fovea::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kFormat = 1;
constexpr uint64_t kMaxManifestBytes = uint64_t{1} << 28;  // a million slices, as they are written
constexpr int kMaxDepth = 32;                              // of nesting; checksums recurse

std::string checksum(const json& contents) { return sha256_of(json_text(contents)); }

json to_json(const TensorEntry& entry) {
  json slices = json::array();
  for (const auto& slice : entry.slices) {
    slices.push_back({{"file", slice.file}, {"offset", slice.offset}, {"size", slice.size}});
    if (!slice.sum.empty()) slices.back()["sum"] = slice.sum;
  }
  return {{"dtype", entry.dtype}, {"shape", entry.shape}, {"slices", slices}};
}

// Sizes and offsets of tensors; their product must fit.
std::vector<int64_t> sizes_of(const JsonValue& value) {
  auto sizes = value.integers();
  int64_t elements = 1;
  for (const auto size : sizes) {
    if (size < 0 || __builtin_mul_overflow(elements, std::max<int64_t>(size, 1), &elements)) {
      value.refuse("sizes from 0, of as many elements as there can be");
    }
  }
  return sizes;
}

std::string text_or_empty(const JsonValue& object, std::string_view key) {
  std::string text;
  object.read(key, text);
  return text;
}

TensorEntry tensor_from_json(const JsonValue& value) {
  TensorEntry entry{value.at("dtype").text(), sizes_of(value.at("shape")), {}};
  for (const auto& slice : value.at("slices").items()) {
    entry.slices.push_back({slice.at("file").text(), sizes_of(slice.at("offset")),
                            sizes_of(slice.at("size")), text_or_empty(slice, "sum")});
  }
  return entry;
}

// A name within the folder: a manifest of others leads nowhere else.
std::string file_name_of(const JsonValue& value) {
  auto name = value.text();
  if (name.empty() || name[0] == '.' || name.find_first_of(std::string_view("/\0", 2)) != name.npos)
    value.refuse("the name of a file in its folder");
  return name;
}

Manifest from_json(const JsonValue& contents) {
  if (const auto format = contents.at("format"); format.integer() != kFormat) {
    fail<CheckpointError>("format {}, expected {}; use the version of fovea that wrote it",
                          format.integer(), kFormat);
  }
  Manifest manifest;
  manifest.step = contents.at("step").integer();
  const auto scalars = contents.at("scalars");
  if (!scalars.raw().is_object()) scalars.refuse("an object");
  manifest.scalars = scalars.raw();
  manifest.not_averaged = contents.at("not_averaged").texts();
  for (const auto& file : contents.at("files").items()) {
    manifest.files.push_back({file_name_of(file.at("name")), file.at("bytes").count(),
                              file.at("sha256").text(), text_or_empty(file, "preamble")});
  }
  for (const auto& [part, tensors] : contents.at("tensors").members()) {
    for (const auto& [name, entry] : tensors.members()) {
      manifest.tensors[part][name] = tensor_from_json(entry);
    }
  }
  return manifest;
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
  try {
    return manifest_from(read_file((folder / name).string(), kMaxManifestBytes), name);
  } catch (const DataError& error) {
    throw CheckpointError(error.what());
  }
}

Manifest manifest_from(const std::string& text, const std::string& source) {
  try {
    const auto whole = parse_json(text, source, kMaxDepth);
    const JsonValue value(whole, source);
    const auto contents = value.at("manifest");
    if (whole.size() != 2 || checksum(contents.raw()) != value.at("sha256").text()) {
      fail<CheckpointError>("{}: its checksum does not fit", source);
    }
    return from_json(contents);
  } catch (const DataError& error) {
    throw CheckpointError(error.what());
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
  const std::set<std::string> known(names.begin(), names.end());
  for (const auto& name : other.not_averaged) {
    if (!known.contains(name)) names.push_back(name);
  }
}

}  // namespace fovea::checkpoint
