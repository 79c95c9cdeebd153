#include "fovea/weights/dcp_folder.h"

#include <ATen/ops/empty.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/files/pickle.h"

// Note [Distributed Checkpoint]. The index is a dataclass Metadata: state_dict_metadata (name ->
// TensorStorageMetadata{properties, size, chunks[offsets, sizes]}, or BytesStorageMetadata for what
// is no tensor), planner_data (name -> the keys on the way there), storage_data (MetadataIndex{fqn,
// offset} -> _StorageInfo{relative_path, offset, length}). Dataclasses are saved as NEWOBJ with
// their fields as the state.
namespace fovea::weights {
namespace {

using Kind = PickleValue::Kind;

constexpr uint64_t kMaxIndexBytes = uint64_t{1} << 28;  // a million parts
constexpr size_t kMaxParts = 1 << 13;
constexpr std::string_view kModule = "torch.distributed.checkpoint.";
constexpr std::string_view kBytesMetadata =
    "torch.distributed.checkpoint.metadata.BytesStorageMetadata";

std::string file_name(const std::string& path) { return fmt::format("{}/.metadata", path); }

}  // namespace

class DcpIndex {
 public:
  explicit DcpIndex(DcpFolder& folder) : folder_(folder), source_(file_name(folder.path_)) {}

  void read() {
    const auto text = read_file(source_, kMaxIndexBytes);
    const Pickle pickle({reinterpret_cast<const uint8_t*>(text.data()), text.size()}, source_,
                        {.names = torch_pickle_names()});
    const auto& metadata = fields(pickle.root(), "metadata.Metadata");
    read_tensors(entry(metadata, "state_dict_metadata"));
    read_parts(entry(metadata, "storage_data"));
    if (const auto* planner = metadata.find("planner_data")) read_keys(*planner);
    for (const auto& [name, whole] : folder_.wholes_) check_cover(name, whole);
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail<DataError>("{}: {}; expected an index of torch.distributed.checkpoint", source_,
                    fmt::format(format, std::forward<Args>(args)...));
  }

  const PickleValue& fields(const PickleValue& value, std::string_view type) const {
    const auto name = fmt::format("{}{}", kModule, type);
    if (!value.is_call(name) || value.state == nullptr || value.state->kind != Kind::kDict)
      refuse("{} where {} belongs", name_of(value.kind), name);
    return *value.state;
  }
  const PickleValue& entry(const PickleValue& dict, std::string_view key) const {
    const auto* found = dict.find(key);
    if (found == nullptr) refuse("no \"{}\"", key);
    return *found;
  }
  // torch.Size([...]), or a tuple.
  std::vector<int64_t> sizes(const PickleValue& value) const {
    const bool is_size = value.is_call("torch.Size") && value.arguments->items.size() == 1;
    std::vector<int64_t> numbers;
    for (const auto* item : (is_size ? *value.arguments->items[0] : value).items) {
      if (item->kind != Kind::kInt || item->integer < 0 || numbers.size() == 32)
        refuse("a size that is no list of numbers from 0");
      numbers.push_back(item->integer);
    }
    return numbers;
  }

  void read_tensors(const PickleValue& dict) {
    for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
      const std::string name(dict.items[i]->text);
      const auto& value = *dict.items[i + 1];
      if (value.is_call(kBytesMetadata)) {
        folder_.others_[name] = {};
        continue;
      }
      const auto& description = fields(value, "metadata.TensorStorageMetadata");
      const auto& properties = entry(description, "properties");
      if (properties.state == nullptr || properties.state->items.empty())
        refuse("{}: a tensor without properties", shown(name));
      DcpFolder::Whole whole;
      whole.dtype = torch_dtype(properties.state->items[0]->text, source_ + ": " + shown(name));
      whole.sizes = sizes(entry(description, "size"));
      folder_.wholes_[name] = std::move(whole);
      folder_.tensors_.push_back({name, ""});
      for (const auto* chunk : entry(description, "chunks").items) {
        const auto& place = fields(*chunk, "metadata.ChunkStorageMetadata");
        folder_.wholes_[name].parts.push_back(
            {"", 0, 0, sizes(entry(place, "offsets")), sizes(entry(place, "sizes"))});
      }
    }
  }

  void read_parts(const PickleValue& dict) {
    for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
      const auto& index = fields(*dict.items[i], "metadata.MetadataIndex");
      const auto& place = fields(*dict.items[i + 1], "filesystem._StorageInfo");
      const std::string name(entry(index, "fqn").text);
      if (const auto other = folder_.others_.find(name); other != folder_.others_.end()) {
        read_place(place, other->second);
        continue;
      }
      const auto whole = folder_.wholes_.find(name);
      if (whole == folder_.wholes_.end())
        refuse("a part of {}, which it does not list", shown(name));
      const auto* start = index.find("offset");
      const auto starts = start == nullptr ? std::vector<int64_t>() : sizes(*start);
      for (const auto part : parts_at(name, whole->second, starts))
        read_place(place, whole->second.parts[part]);
    }
  }
  // The parts of a tensor that start there: one, or, of empty ones, several.
  const std::vector<size_t>& parts_at(const std::string& name, const DcpFolder::Whole& whole,
                                      const std::vector<int64_t>& starts) {
    const auto [of_tensor, is_new] = by_starts_.try_emplace(name);
    if (is_new) {
      for (size_t i = 0; i < whole.parts.size(); ++i)
        of_tensor->second[whole.parts[i].starts].push_back(i);
    }
    const auto found = of_tensor->second.find(starts);
    if (found == of_tensor->second.end())
      refuse("{}: a part at [{}], which it does not list", shown(name), fmt::join(starts, ", "));
    return found->second;
  }
  void read_place(const PickleValue& place, DcpFolder::Part& part) const {
    part.file = entry(place, "relative_path").text;
    part.offset = static_cast<uint64_t>(entry(place, "offset").integer);
    part.bytes = static_cast<uint64_t>(entry(place, "length").integer);
    if (part.file.empty() || part.file.find('/') != std::string::npos || part.file[0] == '.')
      refuse("the file \"{}\"", shown(part.file));
  }

  // The planner's keys have the order of the saved dict; the index itself lists the tensors of one
  // process after those of another. A name that is not its keys is damaged, and would be taken for
  // what lies elsewhere.
  void read_keys(const PickleValue& planner) {
    if (planner.items.empty()) return;  // saved without keys
    std::map<std::string, std::string> tops;
    std::map<std::string, size_t> order;
    for (size_t i = 0; i + 1 < planner.items.size(); i += 2) {
      const auto& keys = planner.items[i + 1]->items;
      const std::string name(planner.items[i]->text);
      if (const auto joined = joined_keys(keys); joined != name)
        refuse("the name {} where its keys are {}", shown(name), shown(joined));
      order.emplace(name, i);
      if (folder_.others_.contains(name)) {
        auto& path = folder_.keys_of_others_[name];
        for (const auto* key : keys)
          path.push_back(key->kind == Kind::kInt ? TorchKey(key->integer) : key_text(*key));
      }
      tops[name] = keys.size() > 1 ? key_text(*keys[0]) : "";
    }
    for (auto& tensor : folder_.tensors_) {
      const auto top = tops.find(tensor.name);
      if (top == tops.end()) refuse("{}: no keys of it", shown(tensor.name));
      tensor.top = top->second;
    }
    std::stable_sort(
        folder_.tensors_.begin(), folder_.tensors_.end(),
        [&](const auto& a, const auto& b) { return order.at(a.name) < order.at(b.name); });
  }

  std::string joined_keys(const std::vector<PickleValue*>& keys) const {
    std::vector<std::string> texts;
    for (const auto* key : keys) texts.push_back(key_text(*key));
    return fmt::format("{}", fmt::join(texts, "."));
  }
  std::string key_text(const PickleValue& key) const {
    if (key.kind == Kind::kInt) return std::to_string(key.integer);
    if (!key.is_text()) refuse("{} as a key", name_of(key.kind));
    return std::string(key.text);
  }

  // Parts within the tensor, apart from each other, and with as many elements as it: a cover.
  void check_cover(const std::string& name, const DcpFolder::Whole& whole) const {
    const auto dims = whole.sizes.size();
    if (whole.parts.size() > kMaxParts) refuse("{}: too many parts", shown(name));
    double elements = 0;
    for (const auto& part : whole.parts) {
      bool fits = !part.file.empty() && part.starts.size() == dims && part.sizes.size() == dims;
      for (size_t d = 0; fits && d < dims; ++d) {
        fits = part.starts[d] <= whole.sizes[d] && part.sizes[d] <= whole.sizes[d] - part.starts[d];
      }
      if (!fits) {
        refuse("{}: a part at [{}] of sizes [{}] in a tensor [{}], or without a file", shown(name),
               fmt::join(part.starts, ", "), fmt::join(part.sizes, ", "),
               fmt::join(whole.sizes, ", "));
      }
      double count = 1;
      for (const auto size : part.sizes) count *= static_cast<double>(size);
      elements += count;
    }
    double expected = 1;
    for (const auto size : whole.sizes) expected *= static_cast<double>(size);
    if (elements != expected || expected > 1e15 || any_overlap(whole))
      refuse("{}: its parts leave a gap or overlap", shown(name));
  }

  static bool overlap(const DcpFolder::Part& a, const DcpFolder::Part& b) {
    for (size_t d = 0; d < a.starts.size(); ++d) {
      if (a.starts[d] + a.sizes[d] <= b.starts[d] || b.starts[d] + b.sizes[d] <= a.starts[d])
        return false;
    }
    return true;
  }

  // The dim along which most parts start apart.
  static size_t dim_of_sweep(const DcpFolder::Whole& whole) {
    size_t best = 0, most = 0;
    for (size_t d = 0; d < whole.sizes.size(); ++d) {
      std::set<int64_t> starts;
      for (const auto& part : whole.parts) starts.insert(part.starts[d]);
      if (starts.size() > most) best = d;
      most = std::max(most, starts.size());
    }
    return best;
  }

  // Along that dim, each part is held against those alone that have not ended before it.
  static bool any_overlap(const DcpFolder::Whole& whole) {
    if (whole.sizes.empty()) return whole.parts.size() > 1;
    const size_t d = dim_of_sweep(whole);
    std::vector<const DcpFolder::Part*> sorted, open;
    for (const auto& part : whole.parts) sorted.push_back(&part);
    std::sort(sorted.begin(), sorted.end(),
              [&](const auto* a, const auto* b) { return a->starts[d] < b->starts[d]; });
    for (const auto* part : sorted) {
      std::erase_if(open, [&](const auto* other) {
        return other->starts[d] + other->sizes[d] <= part->starts[d];
      });
      for (const auto* other : open) {
        if (overlap(*part, *other)) return true;
      }
      open.push_back(part);
    }
    return false;
  }

  DcpFolder& folder_;
  const std::string source_;
  // Numbers of parts by tensor and start.
  std::map<std::string, std::map<std::vector<int64_t>, std::vector<size_t>>> by_starts_;
};

bool DcpFolder::is_one(const std::string& path) { return is_there(file_name(path)); }

DcpFolder::DcpFolder(const std::string& path) : path_(path) { DcpIndex(*this).read(); }

std::vector<std::string> DcpFolder::other_names() const {
  std::vector<std::string> names;
  for (const auto& item : others_) names.push_back(item.first);
  return names;
}

std::vector<TorchKey> DcpFolder::keys_of_other(const std::string& name) const {
  const auto found = keys_of_others_.find(name);
  return found == keys_of_others_.end() ? std::vector<TorchKey>{name} : found->second;
}

std::unique_ptr<TorchFile> DcpFolder::open_other(const std::string& name) const {
  const auto found = others_.find(name);
  if (found == others_.end()) return nullptr;
  const auto& part = found->second;
  if (part.file.empty()) fail<DataError>("{}: {} lies in no file", file_name(path_), shown(name));
  return std::make_unique<TorchFile>(path_ + "/" + part.file, part.offset, part.bytes);
}

at::Tensor DcpFolder::read(const DcpTensor& tensor) const {
  const auto& whole = wholes_.at(tensor.name);
  at::Tensor out;
  for (const auto& part : whole.parts) {
    TorchFile file(path_ + "/" + part.file, part.offset, part.bytes);
    if (file.tensors().size() != 1)
      fail<DataError>("{}/{}: {} tensors in the part of {}", path_, part.file,
                      file.tensors().size(), tensor.name);
    const auto value = file.read(file.tensors().front());
    if (value.sizes() != at::IntArrayRef(part.sizes) || value.scalar_type() != whole.dtype) {
      fail<DataError>("{}/{}: {} [{}] where {} [{}] of {} belongs", path_, part.file,
                      c10::toString(value.scalar_type()), fmt::join(value.sizes(), ", "),
                      c10::toString(whole.dtype), fmt::join(part.sizes, ", "), tensor.name);
    }
    if (whole.parts.size() == 1) return value;
    // After the first part, so that an index alone does not make the memory be taken.
    if (!out.defined()) out = at::empty(whole.sizes, at::TensorOptions().dtype(whole.dtype));
    auto view = out;
    for (size_t d = 0; d < part.sizes.size(); ++d)
      view = view.narrow(static_cast<int64_t>(d), part.starts[d], part.sizes[d]);
    view.copy_(value);
  }
  if (!out.defined()) fail<DataError>("{}: {} has no parts", path_, tensor.name);
  return out;
}

}  // namespace fovea::weights
