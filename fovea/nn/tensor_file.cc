#include "fovea/nn/tensor_file.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <array>
#include <cstring>
#include <memory>

#include "fovea/core/error.h"
#include "fovea/core/printable.h"

namespace fovea::nn {
namespace {

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 10> kDtypes = {
    {{"F64", at::kDouble},
     {"F32", at::kFloat},
     {"F16", at::kHalf},
     {"BF16", at::kBFloat16},
     {"I64", at::kLong},
     {"I32", at::kInt},
     {"I16", at::kShort},
     {"I8", at::kChar},
     {"U8", at::kByte},
     {"BOOL", at::kBool}}};

// NumPy's codes for the same; it has none for bfloat16, and "|V2" is what JAX leaves there.
constexpr std::array<std::pair<std::string_view, at::ScalarType>, 10> kNpyDtypes = {
    {{"<f8", at::kDouble},
     {"<f4", at::kFloat},
     {"<f2", at::kHalf},
     {"|V2", at::kBFloat16},
     {"<i8", at::kLong},
     {"<i4", at::kInt},
     {"<i2", at::kShort},
     {"|i1", at::kChar},
     {"|u1", at::kByte},
     {"|b1", at::kBool}}};

template <size_t N>
std::string name_in(const std::array<std::pair<std::string_view, at::ScalarType>, N>& table,
                    at::ScalarType dtype, const char* format) {
  for (const auto& [name, known] : table) {
    if (known == dtype) return std::string(name);
  }
  fail<DataError>("a tensor of {} cannot be written as {}", c10::toString(dtype), format);
}

template <size_t N>
at::ScalarType dtype_in(const std::array<std::pair<std::string_view, at::ScalarType>, N>& table,
                        std::string_view name, const char* format) {
  for (const auto& [known, dtype] : table) {
    if (known == name) return dtype;
  }
  fail<DataError>("{} dtype '{}' has no counterpart among tensors", format, name);
}

at::Tensor from_bytes(std::span<const std::byte> bytes, const std::vector<int64_t>& shape,
                      at::ScalarType dtype) {
  const auto tensor = at::empty(shape, at::TensorOptions().dtype(dtype));
  FOVEA_CHECK(tensor.nbytes() == bytes.size(), "{} bytes for a tensor of {}", bytes.size(),
              tensor.nbytes());
  if (!bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

bool has_ending(const std::string& path, std::string_view ending) { return path.ends_with(ending); }

}  // namespace

std::string safetensors_dtype(at::ScalarType dtype) {
  return name_in(kDtypes, dtype, "safetensors");
}

at::ScalarType dtype_of_safetensors(std::string_view dtype) {
  return dtype_in(kDtypes, dtype, "safetensors");
}

at::Tensor to_tensor(const SafetensorsEntry& entry) {
  return from_bytes(entry.bytes, entry.shape, dtype_of_safetensors(entry.dtype));
}

namespace {

// A dtype that tensors have.
void check_dtypes(const SafetensorsFile& file) {
  for (const auto& entry : file.entries()) {
    try {
      dtype_of_safetensors(entry.dtype);
    } catch (const DataError& error) {
      fail<DataError>("{}: {}: {}", file.mapping()->name(), printable_start(entry.name),
                      error.what());
    }
  }
}

}  // namespace

NamedTensors mapped_tensors(const SafetensorsFile& file) {
  check_dtypes(file);
  const auto kept = std::make_shared<const SafetensorsFile>(file);  // with its mapping
  NamedTensors tensors;
  for (const auto& entry : kept->entries()) {
    const auto dtype = dtype_of_safetensors(entry.dtype);
    const auto* data = entry.bytes.data();
    if (entry.bytes.empty() || reinterpret_cast<uintptr_t>(data) % c10::elementSize(dtype) != 0) {
      tensors.emplace_back(entry.name, to_tensor(entry));
      continue;
    }
    tensors.emplace_back(entry.name,
                         at::from_blob(
                             const_cast<std::byte*>(data), entry.shape, [kept](void*) {}, dtype));
  }
  return tensors;
}

SafetensorsEntry to_entry(const std::string& name, const at::Tensor& tensor) {
  FOVEA_CHECK(tensor.is_cpu() && tensor.is_contiguous(),
              "{}: only contiguous CPU tensors have bytes to write", name);
  return {name, safetensors_dtype(tensor.scalar_type()), tensor.sizes().vec(), bytes_of(tensor)};
}

at::Tensor npy_tensor(std::string_view bytes, const std::string& source) {
  const auto header = parse_npy_header(bytes, source);
  if (bytes.size() - header.data_offset != header.data_bytes) {
    fail<DataError>("{}: {} bytes of data, but its header describes {}; the file is damaged",
                    source, bytes.size() - header.data_offset, header.data_bytes);
  }
  return from_bytes(std::as_bytes(std::span(bytes)).subspan(header.data_offset), header.shape,
                    dtype_in(kNpyDtypes, header.dtype, "npy"));
}

at::Tensor array_tensor(const NpyArray& array) {
  return from_bytes(array.bytes, array.shape, dtype_in(kNpyDtypes, array.dtype, "npy"));
}

bool is_tensor_file(const std::string& path) {
  return has_ending(path, ".npy") || has_ending(path, ".safetensors");
}

NamedTensors read_tensor_file(const std::string& path) {
  if (has_ending(path, ".npy")) {
    return {{"array", array_tensor(read_npy(path))}};
  }
  if (!has_ending(path, ".safetensors"))
    fail<DataError>("{}: expected a .npy or .safetensors file", path);
  const auto file = SafetensorsFile::open(path);
  check_dtypes(file);
  uint64_t bytes = 0;
  for (const auto& entry : file.entries()) bytes += entry.bytes.size();
  if (bytes > kMaxNpyBytes) {
    fail<DataError>("{}: {} bytes of values; expected at most {}, one batch of a model", path,
                    bytes, kMaxNpyBytes);
  }
  NamedTensors tensors;
  for (const auto& entry : file.entries()) tensors.emplace_back(entry.name, to_tensor(entry));
  file.check_unchanged();
  return tensors;
}

at::Tensor read_one_tensor(const std::string& path, const std::string& preferred) {
  auto tensors = read_tensor_file(path);
  if (tensors.size() == 1) return tensors.front().second;
  for (const auto& [name, tensor] : tensors) {
    if (name == preferred) return tensor;
  }
  fail<DataError>("{}: {} tensors, none of them named '{}'; expected one tensor, or that name",
                  path, tensors.size(), preferred);
}

void write_tensor_file(const std::string& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata,
                       const std::function<void()>& before_commit) {
  NamedTensors contiguous;
  for (const auto& [name, tensor] : tensors) {
    contiguous.emplace_back(name, tensor.detach().to(at::kCPU).contiguous());
  }
  if (has_ending(path, ".npy")) {
    if (tensors.size() != 1) {
      fail<ConfigError>("{}: a .npy file holds one tensor, here are {}; name the file .safetensors",
                        path, tensors.size());
    }
    const auto& tensor = contiguous.front().second;
    write_npy(path, name_in(kNpyDtypes, tensor.scalar_type(), "npy"), tensor.sizes().vec(),
              bytes_of(tensor));
    return;
  }
  if (!has_ending(path, ".safetensors")) {
    fail<ConfigError>("{}: expected a name that ends in .npy or .safetensors", path);
  }
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, tensor] : contiguous) entries.push_back(to_entry(name, tensor));
  write_safetensors(path, entries, metadata, before_commit);
}

}  // namespace fovea::nn
