#include "fovea/weights/torch_file.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/memory.h"
#include "fovea/files/byte_reader.h"
#include "fovea/files/mapped_file.h"
#include "fovea/files/zip.h"

namespace fovea::weights {
namespace {

constexpr uint64_t kMaxPickleBytes = uint64_t{1} << 28;
// The pickle of the number that such files begin with, 0x1950a86a20f9469cfc6c.
constexpr std::string_view kLegacyMagic = "\x80\x02\x8a\nl\xfc\x9c\x46\xf9\x20j\xa8P\x19.";

// A sparse file has room for more than any machine.
void check_memory(const std::string& path, const StoredTensor& tensor) {
  const auto most = static_cast<uint64_t>(usable_memory_bytes());
  if (tensor.storage_bytes <= most) return;
  fail<DataError>("{}: {}: a storage of {} bytes; this process may use {}", path,
                  shown(tensor.name), tensor.storage_bytes, most);
}

at::Tensor bytes_tensor(uint64_t bytes) {
  return at::empty({static_cast<int64_t>(bytes)}, at::TensorOptions().dtype(at::kByte));
}

PickleOptions torch_pickle(bool may_go_on) {
  return {.names = torch_pickle_names(), .has_persistent_ids = true, .may_go_on = may_go_on};
}

}  // namespace

class TorchFile::Storages {
 public:
  virtual ~Storages() = default;
  // -> [bytes] uint8
  virtual at::Tensor read(const std::string& key, uint64_t bytes) const = 0;
};

// archive/data.pkl, archive/byteorder, archive/data/0 ...
class TorchFile::ZipStorages : public Storages {
 public:
  explicit ZipStorages(std::unique_ptr<ZipFile> zip) : zip_(std::move(zip)) {
    for (const auto& member : zip_->members()) {
      if (member.name.ends_with("/constants.pkl")) {
        fail<DataError>(
            "{}: a TorchScript program, which is not read; save the weights alone: "
            "torch.save(model.state_dict(), path)",
            zip_->path());
      }
      if (member.name.ends_with("/data.pkl") && folder_.empty())
        folder_ = member.name.substr(0, member.name.size() - std::strlen("data.pkl"));
    }
    if (folder_.empty()) {
      fail<DataError>("{}: a zip archive without data.pkl; expected a file of torch.save",
                      zip_->path());
    }
    const auto* order = zip_->find(folder_ + "byteorder");
    if (order != nullptr && zip_->read(*order, 16) != "little")
      fail<DataError>("{}: numbers in big-endian order are not read", zip_->path());
  }

  std::unique_ptr<Pickle> object() {
    text_ = zip_->read(*zip_->find(folder_ + "data.pkl"), kMaxPickleBytes);
    const std::span bytes(reinterpret_cast<const uint8_t*>(text_.data()), text_.size());
    return std::make_unique<Pickle>(bytes, zip_->path(), torch_pickle(false));
  }

  at::Tensor read(const std::string& key, uint64_t bytes) const override {
    const auto* member = zip_->find(folder_ + "data/" + key);
    if (member == nullptr || member->bytes != bytes || member->is_deflated) {
      fail<DataError>(
          "{}: storage {} of {} bytes is {}; the file is damaged, or another program packed it "
          "anew",
          zip_->path(), shown(key), bytes,
          member == nullptr ? "missing" : fmt::format("one of {}, or compressed", member->bytes));
    }
    const auto text = zip_->read(*member, bytes);
    const auto tensor = bytes_tensor(bytes);
    if (bytes > 0) std::memcpy(tensor.mutable_data_ptr(), text.data(), bytes);
    return tensor;
  }

 private:
  std::unique_ptr<ZipFile> zip_;
  std::string folder_;
  std::string text_;  // of the pickle
};

// Magic number, version, system, the saved object, the keys of its storages, and these one by one.
class TorchFile::LegacyStorages : public Storages {
 public:
  LegacyStorages(const std::string& path, TorchTree& tree, std::unique_ptr<Pickle>& object)
      : path_(path), file_(path), bytes_(file_.bytes()) {
    at_ = kLegacyMagic.size();
    if (next()->root().integer != 1001)
      fail<DataError>("{}: another version of torch's old format than 1001", path_);
    const auto system = next();
    const auto* order = system->root().find("little_endian");
    if (order == nullptr || order->integer != 1)
      fail<DataError>("{}: numbers in big-endian order are not read", path_);
    object = next();
    tree = read_torch_tree(object->root(), path_);
    find_storages(next()->root(), tree);
    file_.check_unchanged();
  }

  at::Tensor read(const std::string& key, uint64_t bytes) const override {
    const auto found = offsets_.find(key);
    if (found == offsets_.end() || bytes > bytes_.size() - found->second)
      fail<DataError>("{}: storage {} is missing or cut off", path_, shown(key));
    const auto tensor = bytes_tensor(bytes);
    if (bytes > 0) std::memcpy(tensor.mutable_data_ptr(), bytes_.data() + found->second, bytes);
    file_.check_unchanged();
    return tensor;
  }

 private:
  std::span<const uint8_t> rest() const { return bytes_.subspan(at_); }
  std::unique_ptr<Pickle> next() {
    const auto text = rest().first(std::min<uint64_t>(rest().size(), kMaxPickleBytes));
    auto pickle = std::make_unique<Pickle>(text, path_, torch_pickle(true));
    at_ += pickle->end();
    return pickle;
  }

  // Each is a count of elements and as many elements; the keys say in which order.
  void find_storages(const PickleValue& keys, const TorchTree& tree) {
    std::map<std::string, const StoredTensor*> known;
    for (const auto& tensor : tree.tensors) known.emplace(tensor.storage, &tensor);
    for (const auto* key : keys.items) {
      const auto found = known.find(std::string(key->text));
      if (!key->is_text() || found == known.end())
        fail<DataError>("{}: storage {} belongs to no tensor", path_, shown(key->text));
      ByteReader reader(rest(), path_);
      const auto elements = reader.number<uint64_t>();
      const auto element_bytes = c10::elementSize(found->second->dtype);
      const auto bytes = found->second->storage_bytes;
      if (elements != bytes / element_bytes) {
        fail<DataError>("{}: storage {} of {} elements; its tensors say {}", path_,
                        shown(key->text), elements, bytes / element_bytes);
      }
      reader.skip(bytes);
      offsets_[found->first] = at_ + sizeof(elements);
      at_ += sizeof(elements) + bytes;
    }
  }

  const std::string path_;
  const MappedFile file_;
  const std::span<const uint8_t> bytes_;
  size_t at_ = 0;
  std::map<std::string, size_t> offsets_;
};

bool TorchFile::is_legacy(const std::string& path) {
  return read_start(path, kLegacyMagic.size()) == kLegacyMagic;
}

TorchFile::TorchFile(const std::string& path) : path_(path) {
  if (is_legacy(path)) {
    storages_ = std::make_unique<LegacyStorages>(path, tree_, object_);
    return;
  }
  open_zip(std::make_unique<ZipFile>(path));
}

TorchFile::TorchFile(const std::string& path, uint64_t offset, uint64_t bytes) : path_(path) {
  open_zip(std::make_unique<ZipFile>(path, offset, bytes));
}

void TorchFile::open_zip(std::unique_ptr<ZipFile> zip) {
  auto storages = std::make_unique<ZipStorages>(std::move(zip));
  object_ = storages->object();
  tree_ = read_torch_tree(object_->root(), path_);
  storages_ = std::move(storages);
}

TorchFile::~TorchFile() = default;

at::Tensor TorchFile::read(const StoredTensor& tensor) {
  check_memory(path_, tensor);
  auto& bytes = read_storages_[tensor.storage];
  if (!bytes.defined()) bytes = storages_->read(tensor.storage, tensor.storage_bytes);
  if (bytes.nbytes() != tensor.storage_bytes) {
    fail<DataError>("{}: {}: storage {} has {} bytes here and {} there", path_, tensor.name,
                    shown(tensor.storage), tensor.storage_bytes, bytes.nbytes());
  }
  const auto item = static_cast<uint64_t>(c10::elementSize(tensor.dtype));
  if (tensor.storage_bytes % item != 0)
    fail<DataError>("{}: {}: a storage of {} bytes", path_, tensor.name, tensor.storage_bytes);
  return bytes.view(tensor.dtype).as_strided(tensor.sizes, tensor.strides, tensor.offset);
}

}  // namespace fovea::weights
