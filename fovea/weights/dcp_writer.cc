// See Note [Distributed Checkpoint] in dcp_folder.cc for what the index holds.
#include "fovea/weights/dcp_writer.h"

#include <filesystem>
#include <system_error>

#include "fovea/core/atomic_file.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/weights/pickle_text.h"
#include "fovea/weights/torch_writer.h"

namespace fovea::weights {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMetadataModule = "torch.distributed.checkpoint.metadata";
constexpr std::string_view kPartsFile = "__0_0.distcp";

struct StoredPart {
  std::string key;   // "model.blocks.0.norm1.weight"
  std::string name;  // without the key on top
  std::vector<int64_t> sizes;
  at::ScalarType dtype = at::kFloat;
  uint64_t offset = 0, bytes = 0;
};

// "torch.float32" without its module.
std::string_view torch_name(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return "float32";
    case at::kDouble:
      return "float64";
    case at::kHalf:
      return "float16";
    case at::kBFloat16:
      return "bfloat16";
    case at::kLong:
      return "int64";
    case at::kInt:
      return "int32";
    case at::kShort:
      return "int16";
    case at::kChar:
      return "int8";
    case at::kByte:
      return "uint8";
    case at::kBool:
      return "bool";
    default:
      fail<CheckpointError>("a tensor of {} cannot be written as torch does", c10::toString(dtype));
  }
}

// A dataclass: a new object, and a dict of its fields that `fields` writes.
template <class Fields>
void object(PickleText& pickle, std::string_view module, std::string_view name,
            const Fields& fields) {
  pickle.name(module, name);
  pickle.raw(")\x81}(");  // EMPTY_TUPLE NEWOBJ EMPTY_DICT MARK
  fields();
  pickle.raw("ub");  // SETITEMS BUILD
}

void torch_size(PickleText& pickle, at::IntArrayRef sizes) {
  pickle.name("torch", "Size");
  pickle.tuple(sizes);
  pickle.raw("\x85R");  // TUPLE1 REDUCE
}

// dtype, layout, requires_grad, memory_format, pin_memory: what the class gives its own state as.
void tensor_properties(PickleText& pickle, at::ScalarType dtype) {
  pickle.name(kMetadataModule, "TensorProperties");
  pickle.raw(")\x81(");
  pickle.name("torch", torch_name(dtype));
  pickle.name("torch.serialization", "_get_layout");
  pickle.text("torch.strided");
  pickle.raw("\x85R\x89");
  pickle.name(kMetadataModule, "_MEM_FORMAT_ENCODING");
  pickle.raw("K");
  pickle.little(0, 1);  // torch.contiguous_format
  pickle.raw("\x85R\x89tb");
}

void tensor_metadata(PickleText& pickle, const StoredPart& part) {
  pickle.text(part.key);
  object(pickle, kMetadataModule, "TensorStorageMetadata", [&] {
    pickle.text("properties");
    tensor_properties(pickle, part.dtype);
    pickle.text("size");
    torch_size(pickle, part.sizes);
    pickle.text("chunks");
    pickle.raw("]");
    object(pickle, kMetadataModule, "ChunkStorageMetadata", [&] {
      pickle.text("offsets");
      torch_size(pickle, std::vector<int64_t>(part.sizes.size(), 0));
      pickle.text("sizes");
      torch_size(pickle, part.sizes);
    });
    pickle.raw("a");
  });
}

void storage_entry(PickleText& pickle, const StoredPart& part) {
  object(pickle, kMetadataModule, "MetadataIndex", [&] {
    pickle.text("fqn");
    pickle.text(part.key);
    pickle.text("index");
    pickle.integer(0);
    pickle.text("offset");
    torch_size(pickle, std::vector<int64_t>(part.sizes.size(), 0));
  });
  object(pickle, "torch.distributed.checkpoint.filesystem", "_StorageInfo", [&] {
    pickle.text("relative_path");
    pickle.text(kPartsFile);
    pickle.text("offset");
    pickle.integer(static_cast<int64_t>(part.offset));
    pickle.text("length");
    pickle.integer(static_cast<int64_t>(part.bytes));
  });
}

std::string index_of(const std::vector<StoredPart>& parts, const std::string& top) {
  PickleText pickle;
  pickle.raw("\x80\x02");
  object(pickle, kMetadataModule, "Metadata", [&] {
    pickle.text("state_dict_metadata");
    pickle.raw("}(");
    for (const auto& part : parts) tensor_metadata(pickle, part);
    pickle.raw("u");
    pickle.text("planner_data");  // the keys on the way to each tensor
    pickle.raw("}(");
    for (const auto& part : parts) {
      pickle.text(part.key);
      pickle.raw("(");
      if (!top.empty()) pickle.text(top);
      pickle.text(part.name);
      pickle.raw("t");
    }
    pickle.raw("u");
    pickle.text("storage_data");
    pickle.raw("}(");
    for (const auto& part : parts) storage_entry(pickle, part);
    pickle.raw("u");
    pickle.text("storage_meta");
    pickle.raw("N");
  });
  pickle.raw(".");
  return pickle.take();
}

std::vector<StoredPart> write_parts(AtomicFile& file, const nn::NamedTensors& tensors,
                                    const std::string& top) {
  std::vector<StoredPart> parts;
  uint64_t position = 0;
  for (const auto& [name, tensor] : tensors) {
    const auto bytes = append_torch_tensor(file, tensor);
    parts.push_back({.key = top.empty() ? name : top + "." + name,
                     .name = name,
                     .sizes = tensor.sizes().vec(),
                     .dtype = tensor.scalar_type(),
                     .offset = position,
                     .bytes = bytes});
    position += bytes;
  }
  return parts;
}

}  // namespace

void write_dcp_folder(const std::string& path, const nn::NamedTensors& tensors,
                      const std::string& top, const std::function<void()>& before_commit) {
  if (is_there(path)) {
    fail<CheckpointError>("{} is there already; name another folder", path);
  }
  for (const auto& item : tensors) torch_name(item.second.scalar_type());
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail<CheckpointError>("{}: cannot be made: {}", path, error.message());
  try {
    AtomicFile file((fs::path(path) / kPartsFile).string());
    const auto parts = write_parts(file, tensors, top);
    if (before_commit) before_commit();
    file.commit();
    write_file_atomic((fs::path(path) / ".metadata").string(), index_of(parts, top));
  } catch (const Error& failure) {
    fs::remove_all(path, error);
    throw CheckpointError(failure.what());
  }
}

}  // namespace fovea::weights
