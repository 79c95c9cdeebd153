// See Note [Distributed Checkpoint] in dcp_folder.cc for what the index holds.
#include "fovea/weights/dcp_writer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/files/atomic_file.h"
#include "fovea/weights/pickle_text.h"
#include "fovea/weights/torch_writer.h"

namespace fovea::weights {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMetadataModule = "torch.distributed.checkpoint.metadata";
constexpr std::string_view kPartsFile = "__0_0.distcp";

using Path = std::vector<TorchKey>;

struct StoredPart {
  std::string name;  // "model.blocks.0.norm1.weight"
  Path path;         // "model", "blocks.0.norm1.weight"
  TorchObject object;
  uint64_t offset = 0, bytes = 0;

  const at::Tensor* tensor() const { return std::get_if<at::Tensor>(&object.value); }
};

// What torch keeps as one part: a list without dicts and tensors, at any depth, a tuple, and what
// is no container.
bool is_one_part(const TorchObject& object) {
  if (object.dict() != nullptr) return false;
  const auto* list = object.list();
  if (list == nullptr || list->is_tuple) return true;
  return std::none_of(list->items.begin(), list->items.end(), [](const TorchObject& item) {
    return item.is_tensor() || !is_one_part(item);
  });
}

void divide(const TorchObject& object, const Path& path, std::vector<StoredPart>& parts) {
  const auto below = [&](TorchKey key) {
    auto longer = path;
    longer.push_back(std::move(key));
    return longer;
  };
  if (is_one_part(object)) {
    std::vector<std::string> keys;
    for (const auto& key : path) keys.push_back(text_of(key));
    parts.push_back({fmt::format("{}", fmt::join(keys, ".")), path, object});
  } else if (const auto* dict = object.dict()) {
    // torch turns the keys of dicts into texts.
    for (size_t i = 0; i < dict->keys.size(); ++i)
      divide(dict->values[i], below(text_of(dict->keys[i])), parts);
  } else {
    const auto& items = object.list()->items;
    for (size_t i = 0; i < items.size(); ++i)
      divide(items[i], below(static_cast<int64_t>(i)), parts);
  }
}

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

std::vector<int64_t> starts_of(const at::Tensor& tensor) {
  return std::vector<int64_t>(static_cast<size_t>(tensor.dim()), 0);
}

void part_metadata(PickleText& pickle, const StoredPart& part) {
  pickle.text(part.name);
  const auto* tensor = part.tensor();
  if (tensor == nullptr) {
    object(pickle, kMetadataModule, "BytesStorageMetadata", [] {});
    return;
  }
  object(pickle, kMetadataModule, "TensorStorageMetadata", [&] {
    pickle.text("properties");
    tensor_properties(pickle, tensor->scalar_type());
    pickle.text("size");
    torch_size(pickle, tensor->sizes());
    pickle.text("chunks");
    pickle.raw("]");
    object(pickle, kMetadataModule, "ChunkStorageMetadata", [&] {
      pickle.text("offsets");
      torch_size(pickle, starts_of(*tensor));
      pickle.text("sizes");
      torch_size(pickle, tensor->sizes());
    });
    pickle.raw("a");
  });
}

void storage_entry(PickleText& pickle, const StoredPart& part) {
  const auto* tensor = part.tensor();
  object(pickle, kMetadataModule, "MetadataIndex", [&] {
    pickle.text("fqn");
    pickle.text(part.name);
    pickle.text("index");
    tensor != nullptr ? pickle.integer(0) : pickle.none();
    pickle.text("offset");
    tensor != nullptr ? torch_size(pickle, starts_of(*tensor)) : pickle.none();
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

std::string index_of(const std::vector<StoredPart>& parts) {
  PickleText pickle;
  pickle.raw("\x80\x02");
  object(pickle, kMetadataModule, "Metadata", [&] {
    pickle.text("state_dict_metadata");
    pickle.raw("}(");
    for (const auto& part : parts) part_metadata(pickle, part);
    pickle.raw("u");
    pickle.text("planner_data");  // the keys on the way to each part
    pickle.raw("}(");
    for (const auto& part : parts) {
      pickle.text(part.name);
      pickle.raw("(");
      for (const auto& key : part.path) {
        const auto* text = std::get_if<std::string>(&key);
        text != nullptr ? pickle.text(*text) : pickle.integer(std::get<int64_t>(key));
      }
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

void write_parts(AtomicFile& file, std::vector<StoredPart>& parts) {
  uint64_t position = 0;
  for (auto& part : parts) {
    part.offset = position;
    part.bytes = write_torch_object([&](std::span<const std::byte> bytes) { file.write(bytes); },
                                    part.object);
    position += part.bytes;
  }
}

}  // namespace

void write_dcp_folder(const std::string& path, const nn::NamedTensors& tensors,
                      const std::string& top, const std::function<void()>& before_commit) {
  TorchDict state_dict;
  if (top.empty()) {
    state_dict = dict_of(tensors);
  } else {
    state_dict.add(top, dict_of(tensors));
  }
  write_dcp_folder(path, state_dict, before_commit);
}

void write_dcp_folder(const std::string& path, const TorchDict& state_dict,
                      const std::function<void()>& before_commit) {
  if (is_there(path)) {
    fail<CheckpointError>("{} is there already; name another folder", path);
  }
  std::vector<StoredPart> parts;
  divide(state_dict, {}, parts);
  for (const auto& part : parts) {
    if (part.tensor() != nullptr) torch_name(part.tensor()->scalar_type());
  }
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail<CheckpointError>("{}: cannot be made: {}", path, error.message());
  try {
    AtomicFile file((fs::path(path) / kPartsFile).string());
    write_parts(file, parts);
    if (before_commit) before_commit();
    file.commit();
    write_file_atomic((fs::path(path) / ".metadata").string(), index_of(parts));
  } catch (const Error& failure) {
    fs::remove_all(path, error);
    throw CheckpointError(failure.what());
  }
}

}  // namespace fovea::weights
