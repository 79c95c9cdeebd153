#include "fovea/weights/torch_writer.h"

#include <vector>

#include "fovea/core/error.h"
#include "fovea/core/zip_writer.h"
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

std::string pickle_of(const nn::NamedTensors& tensors) {
  PickleText pickle;
  pickle.raw("\x80\x02");
  pickle.raw("}(");
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, tensor] = tensors[i];
    pickle.text(name);
    add_tensor(pickle, tensor, i);
  }
  pickle.raw("u.");
  return pickle.take();
}

std::span<const std::byte> as_bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

at::Tensor as_stored(const at::Tensor& tensor) { return tensor.detach().to(at::kCPU).contiguous(); }

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

uint64_t append_torch_tensor(AtomicFile& file, const at::Tensor& tensor) {
  const auto stored = as_stored(tensor);
  PickleText pickle;
  pickle.raw("\x80\x02");
  add_tensor(pickle, stored, 0);
  pickle.raw(".");
  return write_archive(file, pickle.take(), {stored});
}

void write_torch_file(const std::string& path, const nn::NamedTensors& tensors,
                      const std::function<void()>& before_commit) {
  nn::NamedTensors contiguous;
  std::vector<at::Tensor> storages;
  for (const auto& [name, tensor] : tensors) {
    storages.push_back(as_stored(tensor));
    contiguous.emplace_back(name, storages.back());
  }
  const auto pickle = pickle_of(contiguous);
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
