#include "fovea/weights/t5x_folder.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/scalar_tensor.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/printable.h"
#include "fovea/files/archive_name.h"
#include "fovea/files/msgpack.h"
#include "fovea/files/zarr.h"
#include "fovea/nn/tensor_file.h"

// Note [t5x]. The file `checkpoint` is {"version": 3, "optimizer": {"target": weights, "state":
// {"step", "param_states"}}}. A leaf is an extension of flax.serialization (1: array, 3: scalar;
// both are [shape, dtype, bytes] in turn), or a map that is the spec of a tensorstore: {"driver":
// "zarr", "dtype", "kvstore": {"driver": "file", "path": below the folder}, "metadata"}. Lists in
// it are maps of "0", "1", ...: flax.serialization has no other.
namespace fovea::weights {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxTreeBytes = uint64_t{1} << 34;  // arrays that are not shared out are in it
constexpr int64_t kArrayType = 1, kScalarType = 3;
constexpr std::string_view kStepFolder = "checkpoint_", kTreeName = "checkpoint";
constexpr std::string_view kChunked = "__msgpack_chunked_array__";

std::string tree_file(const std::string& path) { return fmt::format("{}/{}", path, kTreeName); }

// The file of that name begins with a map; TensorFlow's is a text.
bool has_tree(const std::string& path) {
  const auto file = tree_file(path);
  if (!is_there(file) || is_folder(file)) return false;
  const auto start = read_start(file, 1);
  const auto tag = start.empty() ? 0 : static_cast<uint8_t>(start[0]);
  return (tag & 0xF0) == 0x80 || tag == 0xDE || tag == 0xDF;
}

// What tells a layout that came after t5x's own; empty: nothing.
std::string later_layout(const std::string& path) {
  for (const auto* name : {"manifest.ocdbt", "_METADATA", "state/manifest.ocdbt", "state/_METADATA",
                           "state/checkpoint"}) {
    if (is_there(path + "/" + name)) return name;
  }
  return {};
}

// The number behind "checkpoint_".
std::optional<int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kStepFolder) || name.size() == kStepFolder.size() ||
      name.size() > kStepFolder.size() + 15)
    return {};
  const auto digits = name.substr(kStepFolder.size());
  const bool is_number =
      std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  return is_number ? std::optional<int64_t>(std::stoll(digits)) : std::nullopt;
}

// The latest checkpoint of a run; empty: none.
std::string latest_in(const std::string& path) {
  std::string latest;
  int64_t last = -1;
  std::error_code error;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    const auto step = step_of(at->path().filename().string());
    const auto folder = at->path().string();
    if (!step || *step <= last || !(has_tree(folder) || !later_layout(folder).empty())) continue;
    last = *step;
    latest = folder;
  }
  return latest;
}

// JAX's name of a dtype -> NumPy's code; empty: another one.
std::string code_of(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kCodes = {
      {{"float32", "<f4"},
       {"bfloat16", "|V2"},
       {"float16", "<f2"},
       {"float64", "<f8"},
       {"int32", "<i4"},
       {"int64", "<i8"},
       {"int16", "<i2"},
       {"int8", "|i1"},
       {"uint8", "|u1"},
       {"bool", "|b1"}}};
  for (const auto& [known, code] : kCodes) {
    if (known == name) return std::string(code);
  }
  return {};
}

bool is_spec(const MsgpackValue& value) {
  return value.find("driver") != nullptr &&
         (value.find("kvstore") != nullptr || value.find("path") != nullptr);
}

}  // namespace

class T5xTree {
 public:
  T5xTree(T5xFolder& folder, const std::string& source) : folder_(folder), source_(source) {}

  void read(const MsgpackValue& value, const std::string& name) {
    if (value.kind == Kind::kExtension) {
      add(name, array(value, name));
    } else if (value.kind == Kind::kMap && is_spec(value)) {
      add_spec(value, name);
    } else if (value.kind == Kind::kMap && value.find(kChunked) != nullptr) {
      add(name, chunked(value, name));
    } else if (value.kind == Kind::kMap) {
      for (size_t i = 0; i < value.keys.size(); ++i) {
        const std::string key(value.keys[i]);
        read(value.items[i], name.empty() ? key : fmt::format("{}/{}", name, key));
      }
    } else if (value.kind == Kind::kInt) {
      add(name, at::scalar_tensor(value.integer, at::kLong));
    } else if (value.kind == Kind::kFloat) {
      add(name, at::scalar_tensor(value.number, at::kDouble));
    } else if (value.kind != Kind::kNil) {
      refuse(name, fmt::format("{}; expected an array or a number", name_of(value.kind)));
    }
  }

 private:
  using Kind = MsgpackValue::Kind;

  void add(const std::string& name, const at::Tensor& value) {
    folder_.arrays_.push_back({.name = name, .value = value});
  }

  [[noreturn]] void refuse(const std::string& name, const std::string& what) const {
    fail<DataError>("{}: {}: {}", source_, printable_start(name), what);
  }

  const MsgpackValue& member(const MsgpackValue& map, std::string_view key, Kind kind,
                             const std::string& name) const {
    const auto* found = map.find(key);
    if (found == nullptr) refuse(name, fmt::format("no \"{}\"", key));
    if (found->kind != kind) {
      refuse(name, fmt::format("{} is {}; expected {}", key, name_of(found->kind), name_of(kind)));
    }
    return *found;
  }

  // Sizes, of a list or of a map of "0", "1", ...
  std::vector<int64_t> sizes(const MsgpackValue& value, const std::string& name) const {
    std::vector<int64_t> sizes;
    for (size_t i = 0; i < value.items.size(); ++i) {
      const auto* size =
          value.kind == Kind::kList ? &value.items[i] : value.find(std::to_string(i));
      if (size == nullptr || size->kind != Kind::kInt || size->integer < 1 || i == 32)
        refuse(name, "a shape that is no list of numbers from 1");
      sizes.push_back(size->integer);
    }
    return sizes;
  }

  // An extension of flax.serialization.
  at::Tensor array(const MsgpackValue& value, const std::string& name) const {
    if (value.kind != Kind::kExtension ||
        (value.integer != kArrayType && value.integer != kScalarType)) {
      refuse(name, fmt::format("{} {}; expected an array of flax.serialization, extension 1 or 3",
                               name_of(value.kind), value.integer));
    }
    const auto parts =
        parse_msgpack(value.text, fmt::format("{}: {}", source_, printable_start(name)));
    const auto is_text = [](const MsgpackValue& part) {
      return part.kind == Kind::kText || part.kind == Kind::kBytes;
    };
    if (parts.kind != Kind::kList || parts.items.size() != 3 ||
        parts.items[0].kind != Kind::kList || !is_text(parts.items[1]) || !is_text(parts.items[2]))
      refuse(name, "an array that is not [shape, dtype, bytes]");
    NpyArray array{code_of(parts.items[1].text), sizes(parts.items[0], name), {}};
    if (array.dtype.empty())
      refuse(name, fmt::format("the dtype {}, which is none of a tensor's",
                               printable_start(parts.items[1].text)));
    const auto bytes = parts.items[2].text;
    // "<f4" has its size at the end, as all codes do; a product of sizes must not overflow.
    uint64_t wanted = static_cast<uint64_t>(array.dtype[2] - '0');
    for (const auto size : array.shape) {
      const auto factor = static_cast<uint64_t>(size);
      wanted = wanted <= bytes.size() / factor ? wanted * factor : UINT64_MAX;
    }
    if (wanted != bytes.size()) {
      refuse(name, fmt::format("{} bytes for an array of [{}]; the file is damaged", bytes.size(),
                               fmt::join(array.shape, ", ")));
    }
    const auto* first = reinterpret_cast<const std::byte*>(bytes.data());
    array.bytes.assign(first, first + bytes.size());
    return nn::array_tensor(array);
  }

  // An array of more than a GiB, in parts.
  at::Tensor chunked(const MsgpackValue& value, const std::string& name) const {
    const auto shape = sizes(member(value, "shape", Kind::kMap, name), name);
    const auto& chunks = member(value, "chunks", Kind::kMap, name);
    std::vector<at::Tensor> parts;
    int64_t count = 0;
    for (size_t i = 0; i < chunks.keys.size(); ++i) {
      parts.push_back(
          array(member(chunks, std::to_string(i), Kind::kExtension, name), name).flatten());
      count += parts.back().numel();
      if (parts.back().scalar_type() != parts.front().scalar_type())
        refuse(name, "parts of several dtypes");
    }
    int64_t wanted = 1;
    for (const auto size : shape) wanted = wanted < 1 || size > count / wanted ? -1 : wanted * size;
    if (parts.empty() || wanted != count)
      refuse(name, fmt::format("parts of {} numbers for an array of [{}]", count,
                               fmt::join(shape, ", ")));
    return at::cat(parts).view(shape);
  }

  void add_spec(const MsgpackValue& spec, const std::string& name) {
    const auto driver = member(spec, "driver", Kind::kText, name).text;
    if (driver != "zarr") {
      refuse(name, fmt::format("an array of tensorstore's driver {}; expected zarr",
                               printable_start(driver)));
    }
    auto place = std::string(path_of(spec, name));
    while (place.ends_with('/')) place.pop_back();
    check_archive_name(source_, place);
    T5xArray array{.name = name, .value = {}, .folder = place};
    if (const auto* dtype = spec.find("dtype"); dtype != nullptr && dtype->kind == Kind::kText) {
      array.dtype = code_of(dtype->text);
      if (array.dtype.empty())
        refuse(name, fmt::format("the dtype {}, which is none of a tensor's",
                                 printable_start(dtype->text)));
    }
    const auto* metadata = spec.find("metadata");
    const auto* shape = metadata == nullptr ? nullptr : metadata->find("shape");
    if (shape != nullptr) {
      array.shape = sizes(*shape, name);
      array.has_shape = true;
    }
    folder_.arrays_.push_back(std::move(array));
  }

  // Relative to the checkpoint; before tensorstore 0.1.14 it stood beside kvstore.
  std::string_view path_of(const MsgpackValue& spec, const std::string& name) const {
    const auto* store = spec.find("kvstore");
    if (store == nullptr || store->kind == Kind::kText) {
      constexpr std::string_view kFile = "file://";
      if (store == nullptr) return member(spec, "path", Kind::kText, name).text;
      if (!store->text.starts_with(kFile)) refuse_store(store->text, name);
      return store->text.substr(kFile.size());
    }
    const auto driver = member(*store, "driver", Kind::kText, name).text;
    // Where the run was written to; what is read is a copy beside the tree, as t5x reads it too.
    if (driver != "file" && driver != "gfile" && driver != "gcs") refuse_store(driver, name);
    const auto& holder = store->find("path") == nullptr ? spec : *store;
    return member(holder, "path", Kind::kText, name).text;
  }

  [[noreturn]] void refuse_store(std::string_view store, const std::string& name) const {
    refuse(name, fmt::format("an array in tensorstore's {}; expected one folder for each array "
                             "(t5x's own layout, or Orbax's with use_ocdbt=False)",
                             printable_start(store)));
  }

  T5xFolder& folder_;
  const std::string& source_;
};

bool T5xFolder::is_one(const std::string& path) {
  return is_folder(path) &&
         (has_tree(path) || !later_layout(path).empty() || !latest_in(path).empty());
}

T5xFolder::T5xFolder(const std::string& path) : path_(path) {
  if (!has_tree(path_)) {
    const auto latest = latest_in(path_);
    if (!latest.empty()) path_ = latest;
  }
  if (const auto later = later_layout(path_); !later.empty() && !has_tree(path_)) {
    fail<DataError>(
        "{}: it has {}, of Orbax, whose arrays lie in one store; expected a checkpoint of t5x, "
        "with "
        "a file \"checkpoint\" and a folder for each array. Write one with t5x's Checkpointer, or "
        "the weights as .npz",
        printable(path_), later);
  }
  const auto file = tree_file(path_);
  const auto source = printable(file);
  const auto bytes = read_file(file, kMaxTreeBytes);
  const auto root = parse_msgpack(bytes, source);
  const auto* version = root.find("version");
  if (version != nullptr && version->kind == MsgpackValue::Kind::kInt && version->integer > 3) {
    fail<DataError>("{}: version {} of t5x's checkpoints; expected at most 3", source,
                    version->integer);
  }
  const auto* tree = root.find("optimizer");
  if (tree == nullptr || tree->find("target") == nullptr) {
    std::vector<std::string> keys;
    for (const auto key : root.keys) {
      if (keys.size() < 8) keys.push_back(printable_start(key));
    }
    fail<DataError>(
        "{}: it has the keys [{}]; expected {{\"version\", \"optimizer\": {{\"target\", "
        "\"state\"}}}}, "
        "as t5x writes it",
        source, fmt::join(keys, ", "));
  }
  T5xTree(*this, source).read(*tree, "");
}

const T5xArray* T5xFolder::find(std::string_view name) const {
  const auto found = std::find_if(arrays_.begin(), arrays_.end(),
                                  [&](const T5xArray& array) { return array.name == name; });
  return found == arrays_.end() ? nullptr : &*found;
}

at::Tensor T5xFolder::read(const T5xArray& array) const {
  if (array.value.defined()) return array.value;
  const auto folder = fmt::format("{}/{}", path_, array.folder);
  const auto header = read_zarr_header(folder);
  const auto refuse = [&](const std::string& found, const std::string& expected) {
    fail<DataError>(
        "{}/.zarray: {}, but the tree in {} says {}; the folder is of another checkpoint",
        printable(folder), found, kTreeName, expected);
  };
  if (array.has_shape && header.shape != array.shape) {
    refuse(fmt::format("the shape [{}]", fmt::join(header.shape, ", ")),
           fmt::format("[{}]", fmt::join(array.shape, ", ")));
  }
  if (!array.dtype.empty() && header.dtype != array.dtype)
    refuse("the dtype " + header.dtype, array.dtype);
  return nn::array_tensor(read_zarr(folder, header));
}

}  // namespace fovea::weights
