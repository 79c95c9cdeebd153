#include "fovea/checkpoint/tensor_files.h"

#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <vector>

#include "fovea/checkpoint/durable.h"
#include "fovea/core/error.h"
#include "fovea/core/safetensors.h"
#include "fovea/nn/tensor_file.h"

namespace fovea::checkpoint {
namespace {

namespace fs = std::filesystem;

// Largest elements first, so that each tensor starts at a multiple of its element's size.
std::vector<std::string> file_order(const TensorMap& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  std::stable_sort(names.begin(), names.end(), [&](const auto& a, const auto& b) {
    return tensors.at(a).element_size() > tensors.at(b).element_size();
  });
  return names;
}

std::vector<SafetensorsEntry> entries_of(const TensorMap& tensors) {
  std::vector<SafetensorsEntry> entries;
  for (const auto& name : file_order(tensors)) {
    entries.push_back(nn::to_entry(name, tensors.at(name)));
  }
  return entries;
}

// The whole file as bytes: [size] uint8, checked against the manifest.
at::Tensor read_verified(const fs::path& folder, const FileEntry& entry) {
  const fs::path path = folder / entry.name;
  std::error_code error;
  const auto bytes = fs::file_size(path, error);
  if (error) fail<CheckpointError>("{}: {}", entry.name, error.message());
  if (bytes != entry.bytes) {
    fail<CheckpointError>("{}: found {} bytes, expected {}", entry.name, bytes, entry.bytes);
  }
  auto buffer = at::empty({static_cast<int64_t>(bytes)}, at::kByte);
  auto* data = buffer.mutable_data_ptr<uint8_t>();
  std::ifstream file(path, std::ios::binary);
  Sha256 hash;
  constexpr uint64_t kPiece = uint64_t{8} << 20;  // still in the cache when it is hashed
  for (uint64_t begin = 0; begin < bytes; begin += kPiece) {
    const uint64_t size = std::min(kPiece, bytes - begin);
    if (!file.read(reinterpret_cast<char*>(data + begin), static_cast<std::streamsize>(size))) {
      fail<CheckpointError>("{}: cannot be read", entry.name);
    }
    hash.update(data + begin, size);
  }
  if (hash.finish() != entry.sha256) {
    fail<CheckpointError>("{}: its checksum does not fit", entry.name);
  }
  return buffer;
}

TensorMap read_one_file(const fs::path& folder, const FileEntry& file,
                        const std::map<std::string, TensorEntry>& expected) {
  const auto buffer = read_verified(folder, file);
  const auto* bytes = reinterpret_cast<const char*>(buffer.const_data_ptr<uint8_t>());
  uint64_t header_bytes = 0;
  if (file.bytes >= 8) std::memcpy(&header_bytes, bytes, 8);
  if (file.bytes < 8 || header_bytes > file.bytes - 8) {
    fail<CheckpointError>("{}: not a safetensors file", file.name);
  }
  const auto header =
      parse_safetensors_header({bytes + 8, header_bytes}, file.bytes - 8 - header_bytes, file.name);
  TensorMap tensors;
  for (size_t i = 0; i < header.entries.size(); ++i) {
    const auto& found = header.entries[i];
    const auto wanted = expected.find(found.name);
    if (wanted == expected.end() || wanted->second.dtype != found.dtype ||
        wanted->second.shape != found.shape) {
      fail<CheckpointError>("{}: '{}' is not as the manifest has it", file.name, found.name);
    }
    const auto dtype = nn::dtype_of_safetensors(found.dtype);
    const auto begin = static_cast<int64_t>(8 + header_bytes + header.offsets[i]);
    const auto count = c10::multiply_integers(found.shape);
    tensors[found.name] =
        buffer.narrow(0, begin, count * c10::elementSize(dtype)).view(dtype).view(found.shape);
  }
  return tensors;
}

}  // namespace

void write_tensors(const fs::path& folder, const std::string& file_name, const std::string& part,
                   const TensorMap& tensors, Manifest& manifest) {
  const auto entries = entries_of(tensors);
  DurableFile file(folder / file_name);
  const auto preamble = safetensors_preamble(entries, {});
  file.write(preamble.data(), preamble.size());
  for (const auto& entry : entries) {
    file.write(entry.bytes.data(), entry.bytes.size());
    const std::vector<int64_t> origin(entry.shape.size(), 0);
    manifest.tensors[part][entry.name] = {
        entry.dtype, entry.shape, {{file_name, origin, entry.shape}}};
  }
  const auto sha256 = file.finish();
  manifest.files.push_back({file_name, file.bytes(), sha256});
}

void verify_file(const fs::path& folder, const FileEntry& entry) { read_verified(folder, entry); }

TensorMap read_tensors(const fs::path& folder, const std::string& part, const Manifest& manifest) {
  const auto found = manifest.tensors.find(part);
  if (found == manifest.tensors.end()) return {};
  std::map<std::string, std::map<std::string, TensorEntry>> by_file;
  for (const auto& [name, tensor] : found->second) {
    if (tensor.slices.size() != 1 || tensor.slices[0].size != tensor.shape) {
      fail<CheckpointError>("'{}': saved in {} slices; expected one, the whole tensor", name,
                            tensor.slices.size());
    }
    by_file[tensor.slices[0].file].emplace(name, tensor);
  }
  TensorMap tensors;
  try {
    for (const auto& entry : manifest.files) {
      if (const auto wanted = by_file.find(entry.name); wanted != by_file.end()) {
        tensors.merge(read_one_file(folder, entry, wanted->second));
      }
    }
  } catch (const DataError& error) {
    throw CheckpointError(error.what());
  }
  if (tensors.size() != found->second.size()) {
    fail<CheckpointError>("part '{}': found {} tensors, expected {}", part, tensors.size(),
                          found->second.size());
  }
  return tensors;
}

}  // namespace fovea::checkpoint
