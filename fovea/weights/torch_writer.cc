#include "fovea/weights/torch_writer.h"

#include <caffe2/serialize/inline_container.h>

#include <exception>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/files/atomic_file.h"
#include "fovea/weights/pickle_text.h"

namespace fovea::weights {
namespace {

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

// libtorch's own writer of the archive. It is not made for a sink that throws: its destructor ends
// an archive that was left open, and there an exception would end the program. So a failure is
// kept, what comes after it is dropped, and it is thrown between two records.
class TorchArchive {
 public:
  explicit TorchArchive(const ByteSink& sink)
      : sink_(sink), writer_([this](const void* data, size_t bytes) {
          write({static_cast<const std::byte*>(data), bytes});
          return bytes;
        }) {}
  TorchArchive(const TorchArchive&) = delete;
  TorchArchive& operator=(const TorchArchive&) = delete;

  void add(const std::string& name, const void* data, size_t bytes) {
    writer_.writeRecord(name, data, bytes);
    throw_failure();
  }
  // -> the archive's bytes. libtorch adds the version, the byte order and a checksum of it all.
  uint64_t finish() {
    writer_.writeEndOfFile();
    throw_failure();
    return bytes_;
  }

 private:
  void write(std::span<const std::byte> bytes) {
    if (failure_) return;
    try {
      sink_(bytes);
      bytes_ += bytes.size();
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
  void throw_failure() const {
    if (failure_) std::rethrow_exception(failure_);
  }

  const ByteSink& sink_;
  uint64_t bytes_ = 0;
  std::exception_ptr failure_;
  caffe2::serialize::PyTorchStreamWriter writer_;
};

}  // namespace

uint64_t write_torch_object(const ByteSink& sink, const TorchObject& object) {
  std::vector<at::Tensor> storages;  // as the pickle counts them
  const auto pickle = pickle_of(object, storages);
  TorchArchive archive(sink);
  archive.add("data.pkl", pickle.data(), pickle.size());
  for (size_t i = 0; i < storages.size(); ++i)
    archive.add("data/" + std::to_string(i), storages[i].const_data_ptr(), storages[i].nbytes());
  return archive.finish();
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
  try {
    AtomicFile file(path);
    write_torch_object([&](std::span<const std::byte> bytes) { file.write(bytes); }, root);
    if (before_commit) before_commit();
    file.commit();
  } catch (const CheckpointError&) {
    throw;
  } catch (const Error& error) {
    throw CheckpointError(error.what());
  }
}

}  // namespace fovea::weights
