#include "fovea/weights/plain_values.h"

#include <algorithm>
#include <set>
#include <utility>

#include "fovea/core/files.h"
#include "fovea/weights/dcp_folder.h"
#include "fovea/weights/torch_file.h"

namespace fovea::weights {
namespace {

// Keys of the outermost dict that are none of these values.
class KeysOfTensors {
 public:
  // An optimizer that is the outermost dict has its own keys there.
  explicit KeysOfTensors(const std::string& place) {
    if (place.empty()) {
      keys_ = {"state", "param_groups"};
    } else {
      keys_.insert(place.substr(0, place.find('.')));
    }
  }

  void add(const std::string& tensor, const std::string& top) {
    keys_.insert(top.empty() ? tensor : top);
  }
  bool has(const std::string& key) const { return keys_.contains(key); }

 private:
  std::set<std::string> keys_;
};

PlainValues of_file(const std::string& path, const std::string& place) {
  const TorchFile file(path);
  KeysOfTensors with_tensors(place);
  for (const auto& tensor : file.tensors()) with_tensors.add(tensor.name, tensor.top);
  PlainValues plain;
  const auto& items = file.root().items;
  for (size_t i = 0; file.root().kind == PickleValue::Kind::kDict && i + 1 < items.size(); i += 2) {
    if (!items[i]->is_text()) continue;
    const std::string key(items[i]->text);
    if (with_tensors.has(key)) continue;
    if (auto value = plain_object(*items[i + 1])) {
      plain.values.add(key, std::move(*value));
    } else {
      plain.left_out.push_back(shown(key));
    }
  }
  return plain;
}

// The dicts on the way to `value`, made where they are not there; those of lists have the numbers
// as keys until all is there.
void put(TorchDict& dict, const std::vector<TorchKey>& path, size_t level, TorchObject value) {
  const auto found = std::find(dict.keys.begin(), dict.keys.end(), path[level]);
  const auto at = static_cast<size_t>(found - dict.keys.begin());
  if (level + 1 == path.size()) return dict.add(path[level], std::move(value));
  if (found == dict.keys.end()) dict.add(path[level], TorchDict());
  auto* below = std::get_if<TorchDict>(&dict.values[at].value);
  if (below != nullptr) put(*below, path, level + 1, std::move(value));
}

// Dicts whose keys are numbers, back to lists.
void make_lists(TorchObject& object) {
  auto* dict = std::get_if<TorchDict>(&object.value);
  if (dict == nullptr) return;
  for (auto& value : dict->values) make_lists(value);
  const bool is_list = !dict->keys.empty() && std::holds_alternative<int64_t>(dict->keys.front());
  if (is_list) object = TorchObject(TorchList{.items = std::move(dict->values)});
}

PlainValues of_folder(const std::string& path, const std::string& place) {
  const DcpFolder folder(path);
  KeysOfTensors with_tensors(place);
  for (const auto& tensor : folder.tensors()) with_tensors.add(tensor.name, tensor.top);
  PlainValues plain;
  for (const auto& name : folder.other_names()) {
    const auto keys = folder.keys_of_other(name);
    if (keys.empty() || with_tensors.has(text_of(keys.front()))) continue;
    const auto file = folder.open_other(name);
    if (auto value = plain_object(file->root())) {
      put(plain.values, keys, 0, std::move(*value));
    } else {
      plain.left_out.push_back(shown(name));
    }
  }
  for (auto& value : plain.values.values) make_lists(value);
  return plain;
}

}  // namespace

PlainValues read_plain_values(const std::string& path, const std::string& place) {
  return is_folder(path) ? of_folder(path, place) : of_file(path, place);
}

}  // namespace fovea::weights
