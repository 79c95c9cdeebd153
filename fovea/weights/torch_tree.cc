#include "fovea/weights/torch_tree.h"

#include <c10/core/ScalarType.h>
#include <fmt/ranges.h>

#include <array>
#include <map>

#include "fovea/core/error.h"

namespace fovea::weights {
namespace {

using Kind = PickleValue::Kind;

constexpr int kMaxDepth = 32;
constexpr int64_t kMaxVisits = int64_t{1} << 22;  // dicts may be shared: a small file, a huge tree
constexpr size_t kMaxNameBytes = 512;
constexpr size_t kMaxDims = 32;

constexpr std::string_view kTensorV2 = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view kTensorV3 = "torch._utils._rebuild_tensor_v3";
constexpr std::string_view kParameter = "torch._utils._rebuild_parameter";
constexpr std::string_view kUntyped = "torch.storage.UntypedStorage";
constexpr std::string_view kOrderedDict = "collections.OrderedDict";

constexpr std::array<std::string_view, 49> kTorchNames = {
    kTensorV2, kTensorV3, kParameter, kUntyped, kOrderedDict, "torch.FloatStorage",
    "torch.DoubleStorage", "torch.HalfStorage", "torch.BFloat16Storage", "torch.LongStorage",
    "torch.IntStorage", "torch.ShortStorage", "torch.CharStorage", "torch.ByteStorage",
    "torch.BoolStorage", "torch.Size", "torch.device", "torch.float64", "torch.float32",
    "torch.float16", "torch.bfloat16", "torch.int64", "torch.int32", "torch.int16", "torch.int8",
    "torch.uint8", "torch.bool", "torch.float8_e4m3fn", "torch.float8_e5m2",
    // Beside the weights; passed over.
    "argparse.Namespace", "numpy.dtype", "numpy.ndarray", "numpy.core.multiarray.scalar",
    "numpy._core.multiarray.scalar", "numpy.core.multiarray._reconstruct",
    "numpy._core.multiarray._reconstruct", "pathlib.PosixPath",
    // The index of a Distributed Checkpoint.
    "torch.serialization._get_layout", "torch.distributed.checkpoint.metadata.Metadata",
    "torch.distributed.checkpoint.metadata.TensorStorageMetadata",
    "torch.distributed.checkpoint.metadata.BytesStorageMetadata",
    "torch.distributed.checkpoint.metadata.TensorProperties",
    "torch.distributed.checkpoint.metadata.ChunkStorageMetadata",
    "torch.distributed.checkpoint.metadata.MetadataIndex",
    "torch.distributed.checkpoint.metadata.StorageMeta",
    "torch.distributed.checkpoint.metadata._MEM_FORMAT_ENCODING",
    "torch.distributed.checkpoint.filesystem._StorageInfo",
    "torch.distributed.checkpoint.filesystem._StoragePrefix", "collections.defaultdict"};

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 10> kStorages = {
    {{"torch.FloatStorage", at::kFloat},
     {"torch.DoubleStorage", at::kDouble},
     {"torch.HalfStorage", at::kHalf},
     {"torch.BFloat16Storage", at::kBFloat16},
     {"torch.LongStorage", at::kLong},
     {"torch.IntStorage", at::kInt},
     {"torch.ShortStorage", at::kShort},
     {"torch.CharStorage", at::kChar},
     {"torch.ByteStorage", at::kByte},
     {"torch.BoolStorage", at::kBool}}};

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 10> kTorchDtypes = {
    {{"torch.float32", at::kFloat},
     {"torch.float64", at::kDouble},
     {"torch.float16", at::kHalf},
     {"torch.bfloat16", at::kBFloat16},
     {"torch.int64", at::kLong},
     {"torch.int32", at::kInt},
     {"torch.int16", at::kShort},
     {"torch.int8", at::kChar},
     {"torch.uint8", at::kByte},
     {"torch.bool", at::kBool}}};

class TreeReader {
 public:
  explicit TreeReader(const std::string& source) : source_(source) {}

  TorchTree read(const PickleValue& root) {
    visit(root, "", "", 0);
    return std::move(tree_);
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(const std::string& name, fmt::format_string<Args...> format,
                           Args&&... args) const {
    fail<DataError>("{}: {}: {}", source_, name.empty() ? "its root" : shown(name),
                    fmt::format(format, std::forward<Args>(args)...));
  }

  void visit(const PickleValue& value, const std::string& name, const std::string& top, int depth) {
    if (++visits_ > kMaxVisits || depth > kMaxDepth) {
      refuse(name, "nested deeper than {} levels, or the same dicts again and again", kMaxDepth);
    }
    if (name.size() > kMaxNameBytes) refuse(name, "a name of more than {} bytes", kMaxNameBytes);
    if (value.is_call(kTensorV2) || value.is_call(kTensorV3) || value.is_call(kParameter)) {
      tree_.tensors.push_back(tensor(value, name));
      tree_.tensors.back().top = depth > 1 ? top : "";
      return;
    }
    const bool is_dict = value.kind == Kind::kDict || value.is_call(kOrderedDict) ||
                         value.is_call("collections.defaultdict");
    if (is_dict) {
      for (size_t i = 0; i + 1 < value.items.size(); i += 2)
        descend(*value.items[i + 1], name, key_text(*value.items[i]), top, depth);
    } else if (value.kind == Kind::kList || value.kind == Kind::kTuple) {
      for (size_t i = 0; i < value.items.size(); ++i)
        descend(*value.items[i], name, std::to_string(i), top, depth);
    } else {
      ++tree_.num_others;
    }
  }
  void descend(const PickleValue& value, const std::string& name, const std::string& key,
               const std::string& top, int depth) {
    visit(value, name.empty() ? key : name + "." + key, depth == 0 ? key : top, depth + 1);
  }
  static std::string key_text(const PickleValue& key) {
    if (key.is_text()) return std::string(key.text);
    return key.kind == Kind::kInt ? std::to_string(key.integer) : "?";
  }

  StoredTensor tensor(const PickleValue& call, const std::string& name) const {
    const auto& items = call.arguments->items;
    if (call.text == kParameter) {  // (tensor, requires_grad, hooks)
      const bool is_wrapped =
          !items.empty() && (items[0]->is_call(kTensorV2) || items[0]->is_call(kTensorV3));
      if (!is_wrapped) refuse(name, "a parameter without a tensor");
      return tensor(*items[0], name);
    }
    // (storage, offset, size, stride, requires_grad, hooks, [dtype])
    const bool is_v3 = call.text == kTensorV3;
    if (items.size() < (is_v3 ? 7U : 6U) || items[0]->kind != Kind::kPersistent ||
        items[1]->kind != Kind::kInt)
      refuse(name, "a tensor of {} arguments", items.size());
    StoredTensor tensor;
    tensor.name = name;
    tensor.offset = items[1]->integer;
    tensor.sizes = integers(*items[2], name);
    tensor.strides = integers(*items[3], name);
    read_storage(*items[0]->arguments, tensor, is_v3 ? items[6] : nullptr);
    return tensor;
  }

  std::vector<int64_t> integers(const PickleValue& value, const std::string& name) const {
    std::vector<int64_t> numbers;
    const auto& tuple = value.is_call("torch.Size") && !value.arguments->items.empty()
                            ? *value.arguments->items[0]
                            : value;
    for (const auto* item : tuple.items) {
      if (item->kind != Kind::kInt || item->integer < 0 || numbers.size() == kMaxDims)
        refuse(name, "sizes or strides that are no list of numbers from 0");
      numbers.push_back(item->integer);
    }
    return numbers;
  }

  // id: ("storage", torch.FloatStorage, "0", "cpu", number of elements, [view]).
  void read_storage(const PickleValue& id, StoredTensor& tensor, const PickleValue* dtype) const {
    const auto& items = id.items;
    const bool is_plain = items.size() == 5 || (items.size() == 6 && items[5]->kind == Kind::kNone);
    if (id.kind != Kind::kTuple || !is_plain || !items[0]->is_text() ||
        items[0]->text != "storage" || items[1]->kind != Kind::kName || !items[2]->is_text() ||
        items[4]->kind != Kind::kInt || items[4]->integer < 0)
      refuse(tensor.name, "a storage that is described in an unknown way");
    tensor.storage = items[2]->text;
    if (dtype != nullptr) {
      if (items[1]->text != kUntyped) refuse(tensor.name, "a storage of {}", items[1]->text);
      tensor.dtype = torch_dtype(dtype->text, source_ + ": " + tensor.name);
      tensor.storage_bytes = static_cast<uint64_t>(items[4]->integer);
    } else {
      tensor.dtype = storage_dtype(items[1]->text, tensor.name);
      if (__builtin_mul_overflow(static_cast<uint64_t>(items[4]->integer),
                                 c10::elementSize(tensor.dtype), &tensor.storage_bytes))
        refuse(tensor.name, "a storage of {} elements", items[4]->integer);
    }
    check_view(tensor);
  }
  at::ScalarType storage_dtype(std::string_view storage, const std::string& name) const {
    for (const auto& [known, dtype] : kStorages) {
      if (known == storage) return dtype;
    }
    refuse(name, "a storage of {}", storage);
  }

  // A view lies within its storage and has no more elements than it.
  void check_view(const StoredTensor& tensor) const {
    const auto elements =
        static_cast<int64_t>(tensor.storage_bytes / c10::elementSize(tensor.dtype));
    bool fits = tensor.sizes.size() == tensor.strides.size() && tensor.offset >= 0 &&
                tensor.offset <= elements;
    int64_t count = 1, last = tensor.offset;
    for (size_t i = 0; fits && i < tensor.sizes.size(); ++i) {
      int64_t step = 0;
      fits = !__builtin_mul_overflow(count, tensor.sizes[i], &count) &&
             !__builtin_mul_overflow(std::max<int64_t>(tensor.sizes[i] - 1, 0), tensor.strides[i],
                                     &step) &&
             !__builtin_add_overflow(last, step, &last);
    }
    if (!fits || count > elements || (count > 0 && last >= elements)) {
      refuse(tensor.name,
             "sizes [{}] with strides [{}] from {} on do not lie within a storage of {} elements; "
             "the file is damaged or made to harm",
             fmt::join(tensor.sizes, ", "), fmt::join(tensor.strides, ", "), tensor.offset,
             elements);
    }
  }

  const std::string& source_;
  TorchTree tree_;
  int64_t visits_ = 0;
};

}  // namespace

std::span<const std::string_view> torch_pickle_names() { return kTorchNames; }

at::ScalarType torch_dtype(std::string_view name, const std::string& source) {
  for (const auto& [known, dtype] : kTorchDtypes) {
    if (known == name) return dtype;
  }
  fail<DataError>("{}: numbers of type {} are not read; save them as torch.float32", source,
                  shown(name));
}

TorchTree read_torch_tree(const PickleValue& root, const std::string& source) {
  return TreeReader(source).read(root);
}

}  // namespace fovea::weights
