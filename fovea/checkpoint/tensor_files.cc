#include "fovea/checkpoint/tensor_files.h"

#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <vector>

#include "fovea/checkpoint/durable.h"
#include "fovea/checkpoint/slices.h"
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

// A slice that a file holds under slice_key.
struct WantedSlice {
  const TensorEntry* tensor = nullptr;
  const Slice* slice = nullptr;
  std::string name;  // of the tensor
};

TensorMap read_one_file(const fs::path& folder, const FileEntry& file,
                        const std::map<std::string, WantedSlice>& expected) {
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
    if (wanted == expected.end() || wanted->second.tensor->dtype != found.dtype ||
        wanted->second.slice->size != found.shape) {
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

int64_t elements_of(const std::vector<int64_t>& shape) { return c10::multiply_integers(shape); }

void check_inside(const std::string& name, const TensorEntry& tensor, const Slice& slice) {
  bool fits =
      slice.offset.size() == tensor.shape.size() && slice.size.size() == slice.offset.size();
  for (size_t d = 0; fits && d < tensor.shape.size(); ++d) {
    fits = slice.offset[d] >= 0 && slice.size[d] >= 0 &&
           slice.offset[d] + slice.size[d] <= tensor.shape[d];
  }
  if (!fits) fail<CheckpointError>("'{}': a slice that is not inside of the tensor", name);
}

// The whole of `tensor` where `slice` is all of it, else a place for its slices.
void place_slice(at::Tensor& whole, const TensorEntry& tensor, const Slice& slice,
                 const at::Tensor& values) {
  if (slice.size == tensor.shape) {
    whole = values;
    return;
  }
  if (!whole.defined()) whole = at::empty(tensor.shape, values.options());
  auto target = whole;
  for (size_t d = 0; d < slice.size.size(); ++d) {
    target = target.narrow(static_cast<int64_t>(d), slice.offset[d], slice.size[d]);
  }
  target.copy_(values);
}

// By key in the file, views of `tensors`; and where they lie, in the manifest.
TensorMap slices_of(const std::string& file_name, const TensorMap& tensors,
                    const std::map<std::string, nn::TensorPart>& parts,
                    std::map<std::string, TensorEntry>& entries) {
  TensorMap slices;
  for (const auto& [name, tensor] : tensors) {
    const auto found = parts.find(name);
    const auto shape = found == parts.end() ? tensor.sizes().vec() : found->second.shape;
    auto boxes = found == parts.end()
                     ? std::vector<Box>{{std::vector<int64_t>(shape.size(), 0), shape}}
                     : boxes_of_part(found->second, tensor.numel());
    if (boxes.empty()) continue;  // another process has all of it
    auto& entry = entries[name];
    entry.dtype = nn::to_entry(name, tensor).dtype;
    entry.shape = shape;
    int64_t begin = 0;
    const auto flat = tensor.reshape({-1});
    for (auto& box : boxes) {
      const auto count = elements_of(box.size);
      slices[slice_key(name, shape, box)] = flat.narrow(0, begin, count).view(box.size);
      begin += count;
      entry.slices.push_back({file_name, std::move(box.offset), std::move(box.size)});
    }
  }
  return slices;
}

}  // namespace

void write_tensors(const fs::path& folder, const std::string& file_name, const std::string& part,
                   const TensorMap& tensors, Manifest& manifest,
                   const std::map<std::string, nn::TensorPart>& parts) {
  const auto slices = slices_of(file_name, tensors, parts, manifest.tensors[part]);
  const auto entries = entries_of(slices);
  DurableFile file(folder / file_name);
  const auto preamble = safetensors_preamble(entries, {});
  file.write(preamble.data(), preamble.size());
  for (const auto& entry : entries) {
    file.write(entry.bytes.data(), entry.bytes.size());
  }
  const auto sha256 = file.finish();
  manifest.files.push_back({file_name, file.bytes(), sha256});
}

void verify_file(const fs::path& folder, const FileEntry& entry) { read_verified(folder, entry); }

TensorMap read_tensors(const fs::path& folder, const std::string& part, const Manifest& manifest) {
  const auto found = manifest.tensors.find(part);
  if (found == manifest.tensors.end()) return {};
  std::map<std::string, std::map<std::string, WantedSlice>> by_file;  // by key
  for (const auto& [name, tensor] : found->second) {
    int64_t count = 0;
    for (const auto& slice : tensor.slices) {
      check_inside(name, tensor, slice);
      count += elements_of(slice.size);
      by_file[slice.file].emplace(slice_key(name, tensor.shape, {slice.offset, slice.size}),
                                  WantedSlice{&tensor, &slice, name});
    }
    if (count != elements_of(tensor.shape)) {
      fail<CheckpointError>("'{}': its slices have {} elements, expected {}; a part is missing",
                            name, count, elements_of(tensor.shape));
    }
  }
  TensorMap tensors;
  try {
    for (const auto& entry : manifest.files) {
      const auto wanted = by_file.find(entry.name);
      if (wanted == by_file.end()) continue;
      const auto slices = read_one_file(folder, entry, wanted->second);
      for (const auto& [key, slice] : wanted->second) {
        const auto values = slices.find(key);
        if (values == slices.end()) fail<CheckpointError>("{}: '{}' is missing", entry.name, key);
        place_slice(tensors[slice.name], *slice.tensor, *slice.slice, values->second);
      }
      by_file.erase(wanted);
    }
    for (const auto& missing : by_file) {
      fail<CheckpointError>("{}: not among the manifest's files", missing.first);
    }
  } catch (const DataError& error) {
    throw CheckpointError(error.what());
  }
  return tensors;
}

}  // namespace fovea::checkpoint
