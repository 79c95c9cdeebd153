#include "fovea/weights/torch_writer.h"

#include <vector>

#include "fovea/core/error.h"
#include "fovea/files/zip_writer.h"
#include "fovea/weights/pickle_text.h"

namespace fovea::weights {
namespace {

constexpr uint64_t kStorageAlignment = 64;  // torch's own
constexpr std::string_view kFolder = "archive/";

std::string_view storage_class(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return "FloatStorage";
    case at::kDouble:
      return "DoubleStorage";
    case at::kHalf:
      return "HalfStorage";
    case at::kBFloat16:
      return "BFloat16Storage";
    case at::kLong:
      return "LongStorage";
    case at::kInt:
      return "IntStorage";
    case at::kShort:
      return "ShortStorage";
    case at::kChar:
      return "CharStorage";
    case at::kByte:
      return "ByteStorage";
    case at::kBool:
      return "BoolStorage";
    default:
      fail<CheckpointError>("a tensor of {} cannot be written as torch does", c10::toString(dtype));
  }
}

// A tensor whose storage is the archive's member data/`storage`.
void add_tensor(PickleText& pickle, const at::Tensor& tensor, size_t storage) {
  pickle.name("torch._utils", "_rebuild_tensor_v2");
  pickle.raw("((");
  pickle.text("storage");
  pickle.name("torch", storage_class(tensor.scalar_type()));
  pickle.text(std::to_string(storage));
  pickle.text("cpu");
  pickle.integer(tensor.numel());
  pickle.raw("tQ");  // the persistent id
  pickle.integer(0);
  pickle.tuple(tensor.sizes());
  pickle.tuple(tensor.strides());
  pickle.raw("\x89");  // no gradient
  pickle.name("collections", "OrderedDict");
  pickle.raw(")RtR");
}

at::Tensor as_stored(const at::Tensor& tensor) { return tensor.detach().to(at::kCPU).contiguous(); }

// One value of an object; `storages` gets its tensors.
class ObjectPickle {
 public:
  ObjectPickle(PickleText& pickle, std::vector<at::Tensor>& storages)
      : pickle_(pickle), storages_(storages) {}

  void add(const TorchObject& object) { std::visit(*this, object.value); }

  void operator()(std::monostate) { pickle_.none(); }
  void operator()(bool value) { pickle_.truth(value); }
  void operator()(int64_t value) { pickle_.integer(value); }
  void operator()(double value) { pickle_.number(value); }
  void operator()(const std::string& value) { pickle_.text(value); }
  void operator()(const at::Tensor& tensor) {
    storages_.push_back(as_stored(tensor));
    add_tensor(pickle_, storages_.back(), storages_.size() - 1);
  }
  void operator()(const TorchList& list) {
    pickle_.raw(list.is_tuple ? "(" : "](");
    for (const auto& item : list.items) add(item);
    pickle_.raw(list.is_tuple ? "t" : "e");
  }
  void operator()(const TorchDict& dict) {
    pickle_.raw("}(");
    for (size_t i = 0; i < dict.keys.size(); ++i) {
      std::visit(*this, dict.keys[i]);
      add(dict.values[i]);
    }
    pickle_.raw("u");
  }

 private:
  PickleText& pickle_;
  std::vector<at::Tensor>& storages_;
};

std::string pickle_of(const TorchObject& object, std::vector<at::Tensor>& storages) {
  PickleText pickle;
  pickle.raw("\x80\x02");
  ObjectPickle(pickle, storages).add(object);
  pickle.raw(".");
  return pickle.take();
}

std::span<const std::byte> as_bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// -> the archive's bytes. tensors: in the order of the storages that the pickle names.
uint64_t write_archive(AtomicFile& file, const std::string& pickle,
                       const std::vector<at::Tensor>& tensors) {
  const auto in_folder = [](const std::string& name) { return std::string(kFolder) + name; };
  ZipWriter zip(file, kStorageAlignment);
  zip.add(in_folder("data.pkl"), as_bytes_of(pickle));
  zip.add(in_folder("byteorder"), as_bytes_of("little"));
  for (size_t i = 0; i < tensors.size(); ++i) {
    zip.add(in_folder("data/" + std::to_string(i)),
            {static_cast<const std::byte*>(tensors[i].const_data_ptr()), tensors[i].nbytes()});
  }
  zip.add(in_folder("version"), as_bytes_of("3\n"));
  zip.finish();
  return zip.position();
}

}  // namespace

uint64_t append_torch_object(AtomicFile& file, const TorchObject& object) {
  std::vector<at::Tensor> storages;
  const auto pickle = pickle_of(object, storages);
  return write_archive(file, pickle, storages);
}

TorchDict dict_of(const nn::NamedTensors& tensors) {
  TorchDict dict;
  for (const auto& [name, tensor] : tensors) dict.add(name, tensor);
  return dict;
}

void write_torch_file(const std::string& path, const nn::NamedTensors& tensors,
                      const std::function<void()>& before_commit) {
  write_torch_file(path, TorchObject(dict_of(tensors)), before_commit);
}

void write_torch_file(const std::string& path, const TorchObject& root,
                      const std::function<void()>& before_commit) {
  std::vector<at::Tensor> storages;
  const auto pickle = pickle_of(root, storages);
  try {
    AtomicFile file(path);
    write_archive(file, pickle, storages);
    if (before_commit) before_commit();
    file.commit();
  } catch (const CheckpointError&) {
    throw;
  } catch (const Error& error) {
    throw CheckpointError(error.what());
  }
}

}  // namespace fovea::weights
