#include "fovea/checkpoint/tensor_files.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>

#include "fovea/checkpoint/durable.h"
#include "fovea/core/error.h"

// A safetensors file: the length of the header (8 bytes, little-endian), the header (JSON: name ->
// dtype, shape, data_offsets relative to the end of the header), the data.
namespace fovea::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

static_assert(std::endian::native == std::endian::little);

struct DtypeName {
  const char* name;
  at::ScalarType dtype;
};
constexpr DtypeName kDtypes[] = {{"F64", at::kDouble},    {"F32", at::kFloat}, {"F16", at::kHalf},
                                 {"BF16", at::kBFloat16}, {"I64", at::kLong},  {"I32", at::kInt},
                                 {"I16", at::kShort},     {"I8", at::kChar},   {"U8", at::kByte},
                                 {"BOOL", at::kBool}};

std::string name_of(at::ScalarType dtype) {
  for (const auto& known : kDtypes) {
    if (known.dtype == dtype) return known.name;
  }
  fail<CheckpointError>("a tensor of dtype {} cannot be saved", c10::toString(dtype));
}

at::ScalarType dtype_of(const std::string& name) {
  for (const auto& known : kDtypes) {
    if (name == known.name) return known.dtype;
  }
  fail<CheckpointError>("unknown dtype '{}'", name);
}

// Largest elements first, so that each tensor starts at a multiple of its element's size.
std::vector<std::string> file_order(const TensorMap& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  std::stable_sort(names.begin(), names.end(), [&](const auto& a, const auto& b) {
    return tensors.at(a).element_size() > tensors.at(b).element_size();
  });
  return names;
}

std::string header_text(const TensorMap& tensors, const std::vector<std::string>& order) {
  json header = json::object();
  uint64_t begin = 0;
  for (const auto& name : order) {
    const auto& tensor = tensors.at(name);
    const uint64_t end = begin + tensor.nbytes();
    header[name] = {{"dtype", name_of(tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
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

// One tensor as a view of the file's bytes. data: all bytes behind the header.
at::Tensor view_tensor(const std::string& name, const json& found, const TensorEntry& expected,
                       const at::Tensor& data) {
  if (found.at("dtype") != expected.dtype || found.at("shape") != json(expected.shape)) {
    fail<CheckpointError>("'{}': file and manifest differ in dtype or shape", name);
  }
  const auto dtype = dtype_of(expected.dtype);
  const auto begin = found.at("data_offsets").at(0).get<int64_t>();
  const auto end = found.at("data_offsets").at(1).get<int64_t>();
  int64_t bytes = static_cast<int64_t>(c10::elementSize(dtype));
  for (const int64_t size : expected.shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) {
      fail<CheckpointError>("'{}': impossible shape", name);
    }
  }
  if (begin < 0 || end - begin != bytes || end > data.numel()) {
    fail<CheckpointError>("'{}': its data do not lie in the file", name);
  }
  return data.narrow(0, begin, bytes).view(dtype).view(expected.shape);
}

TensorMap read_one_file(const fs::path& folder, const FileEntry& entry,
                        const std::map<std::string, TensorEntry>& expected) {
  const auto buffer = read_verified(folder, entry);
  uint64_t header_bytes = 0;
  if (entry.bytes >= 8) std::memcpy(&header_bytes, buffer.const_data_ptr<uint8_t>(), 8);
  if (entry.bytes < 8 || header_bytes > entry.bytes - 8 || header_bytes % 8 != 0) {
    fail<CheckpointError>("{}: not a safetensors file", entry.name);
  }
  const auto* text = reinterpret_cast<const char*>(buffer.const_data_ptr<uint8_t>()) + 8;
  const auto header = json::parse(text, text + header_bytes);
  const auto data = buffer.slice(0, 8 + static_cast<int64_t>(header_bytes));
  TensorMap tensors;
  for (const auto& [name, tensor] : expected) {
    if (!header.contains(name)) {
      fail<CheckpointError>("{}: '{}' is missing in it", entry.name, name);
    }
    tensors[name] = view_tensor(name, header.at(name), tensor, data);
  }
  return tensors;
}

}  // namespace

void write_tensors(const fs::path& folder, const std::string& file_name, const std::string& part,
                   const TensorMap& tensors, Manifest& manifest) {
  DurableFile file(folder / file_name);
  const auto order = file_order(tensors);
  const std::string header = header_text(tensors, order);
  const uint64_t header_bytes = header.size();
  file.write(&header_bytes, 8);
  file.write(header.data(), header.size());
  for (const auto& name : order) {
    const auto tensor = tensors.at(name).contiguous();
    FOVEA_CHECK(tensor.is_cpu(), "'{}' is on {}; expected a snapshot on the CPU", name,
                tensor.device().str());
    file.write(tensor.const_data_ptr(), tensor.nbytes());
    const auto shape = tensor.sizes().vec();
    manifest.tensors[part][name] = {name_of(tensor.scalar_type()),
                                    shape,
                                    {{file_name, std::vector<int64_t>(shape.size(), 0), shape}}};
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
  } catch (const json::exception& error) {
    fail<CheckpointError>("a header cannot be read: {}", error.what());
  }
  if (tensors.size() != found->second.size()) {
    fail<CheckpointError>("part '{}': found {} tensors, expected {}", part, tensors.size(),
                          found->second.size());
  }
  return tensors;
}

}  // namespace fovea::checkpoint
