#include "fovea/weights/torch_writer.h"

#include "fovea/core/error.h"
#include "fovea/core/zip_writer.h"

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

// The few opcodes of protocol 2 that a dict of tensors needs.
class PickleText {
 public:
  std::string take() { return std::move(text_); }

  void raw(std::string_view opcodes) { text_ += opcodes; }
  void little(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) text_ += static_cast<char>(value >> (8 * i));
  }
  void name(std::string_view module, std::string_view name) {
    text_ += 'c';
    text_ += module;
    text_ += '\n';
    text_ += name;
    text_ += '\n';
  }
  void text(std::string_view value) {
    text_ += 'X';
    little(value.size(), 4);
    text_ += value;
  }
  void integer(int64_t value) {
    text_ += '\x8a';  // LONG1
    text_ += '\x08';
    little(static_cast<uint64_t>(value), 8);
  }
  void tuple(at::IntArrayRef values) {
    text_ += '(';
    for (const auto value : values) integer(value);
    text_ += 't';
  }

 private:
  std::string text_;
};

std::string pickle_of(const nn::NamedTensors& tensors) {
  PickleText pickle;
  pickle.raw("\x80\x02");
  pickle.raw("}(");
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, tensor] = tensors[i];
    pickle.text(name);
    pickle.name("torch._utils", "_rebuild_tensor_v2");
    pickle.raw("((");
    pickle.text("storage");
    pickle.name("torch", storage_class(tensor.scalar_type()));
    pickle.text(std::to_string(i));
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
  pickle.raw("u.");
  return pickle.take();
}

std::span<const std::byte> as_bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

void write_torch_file(const std::string& path, const nn::NamedTensors& tensors) {
  nn::NamedTensors contiguous;
  for (const auto& [name, tensor] : tensors)
    contiguous.emplace_back(name, tensor.detach().to(at::kCPU).contiguous());
  const auto pickle = pickle_of(contiguous);
  const auto in_folder = [](const std::string& name) { return std::string(kFolder) + name; };
  try {
    AtomicFile file(path);
    ZipWriter zip(file, kStorageAlignment);
    zip.add(in_folder("data.pkl"), as_bytes_of(pickle));
    zip.add(in_folder("byteorder"), as_bytes_of("little"));
    for (size_t i = 0; i < contiguous.size(); ++i) {
      const auto& tensor = contiguous[i].second;
      zip.add(in_folder("data/" + std::to_string(i)),
              {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()});
    }
    zip.add(in_folder("version"), as_bytes_of("3\n"));
    zip.finish();
    file.commit();
  } catch (const CheckpointError&) {
    throw;
  } catch (const Error& error) {
    throw CheckpointError(error.what());
  }
}

}  // namespace fovea::weights
