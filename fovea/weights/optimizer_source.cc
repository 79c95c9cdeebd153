#include "fovea/weights/optimizer_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/weights/dcp_folder.h"
#include "fovea/weights/t5x_folder.h"
#include "fovea/weights/t5x_source.h"
#include "fovea/weights/torch_file.h"

namespace fovea::weights {
namespace {

using Kind = PickleValue::Kind;

constexpr std::string_view kGroups = "param_groups";
constexpr int kMostLevels = 4;  // from the outermost dict to an optimizer's

std::string below(const std::string& place) { return place.empty() ? "" : place + "."; }

// What one key of a group says.
void read_setting(const std::string& key, const PickleValue& value, OptimizerGroup& group) {
  const bool is_list = value.kind == Kind::kList || value.kind == Kind::kTuple;
  if (is_list && (key == "params" || key == "param_names")) {
    auto& list = key == "params" ? group.params : group.names;
    for (const auto* item : value.items)
      list.push_back(item->is_text() ? std::string(item->text) : std::to_string(item->integer));
  } else if (auto setting = plain_object(value)) {
    group.settings[key] = std::move(*setting);
  }
}

}  // namespace

// The groups of one optimizer while they are put together: by number or, in a flattened state, by
// the name of a parameter.
class GroupsBuilder {
 public:
  // Of a list of dicts, which "param_groups" is as a rule.
  void add_list(const PickleValue& list) {
    for (size_t g = 0; list.kind == Kind::kList && g < list.items.size(); ++g) {
      auto& group = named(std::to_string(g));
      const auto& items = list.items[g]->items;
      for (size_t i = 0; list.items[g]->kind == Kind::kDict && i + 1 < items.size(); i += 2) {
        if (items[i]->is_text()) read_setting(std::string(items[i]->text), *items[i + 1], group);
      }
    }
  }
  // Of one value: "0.lr", or "blocks.0.norm1.weight.lr".
  void add_value(const std::string& name, const PickleValue& value) {
    const auto last = name.rfind('.');
    if (last == std::string::npos) return;
    read_setting(name.substr(last + 1), value, named(name.substr(0, last)));
  }
  void add_tensor(const std::string& name, const at::Tensor& tensor) {
    const auto last = name.rfind('.');
    if (last != std::string::npos)
      named(name.substr(0, last)).settings[name.substr(last + 1)] = tensor;
  }

  // order: names of parameters as the file has them.
  std::vector<OptimizerGroup> list(const std::vector<std::string>& order) {
    std::vector<OptimizerGroup> result;
    std::map<std::string, OptimizerGroup> of_parameters;
    std::sort(names_.begin(), names_.end(), [](const auto& a, const auto& b) {
      if (is_index(a) != is_index(b)) return is_index(a);
      return is_index(a) && std::stoll(a) != std::stoll(b) ? std::stoll(a) < std::stoll(b) : a < b;
    });
    for (const auto& name : names_) {
      if (is_index(name)) {
        result.push_back(std::move(groups_[name]));
      } else {
        of_parameters[name] = std::move(groups_[name]);
      }
    }
    join_equal(of_parameters, order, result);
    return result;
  }

 private:
  OptimizerGroup& named(const std::string& name) {
    if (!groups_.contains(name)) names_.push_back(name);
    return groups_[name];
  }

  // Parameters of equal settings are a group.
  static void join_equal(const std::map<std::string, OptimizerGroup>& of_parameters,
                         const std::vector<std::string>& order,
                         std::vector<OptimizerGroup>& result) {
    std::map<std::string, size_t> by_settings;
    std::set<std::string> done;
    const auto add = [&](const std::string& name) {
      const auto found = of_parameters.find(name);
      if (found == of_parameters.end() || !done.insert(name).second) return;
      std::string text;
      for (const auto& [key, setting] : found->second.settings) text += key + setting.text();
      const auto [group, is_new] = by_settings.try_emplace(text, result.size());
      if (is_new) result.push_back({{}, {}, found->second.settings});
      result[group->second].params.push_back(name);
    };
    for (const auto& name : order) add(name);
    for (const auto& item : of_parameters) add(item.first);
  }

  std::vector<std::string> names_;
  std::map<std::string, OptimizerGroup> groups_;
};

namespace {

std::optional<double> number_of(const PickleValue* value) {
  const auto plain = value == nullptr ? std::nullopt : plain_object(*value);
  return plain ? plain->number() : std::nullopt;
}

// The value under "a.b", by exact keys and positions in lists; null: none.
const PickleValue* value_at(const PickleValue& root, std::string_view path) {
  const auto* value = &root;
  while (value != nullptr && !path.empty()) {
    const auto part = path.substr(0, path.find('.'));
    path.remove_prefix(std::min(path.size(), part.size() + 1));
    if (value->kind == Kind::kList) {
      const auto i = is_index(std::string(part)) ? std::stoull(std::string(part)) : SIZE_MAX;
      value = i < value->items.size() ? value->items[i] : nullptr;
    } else {
      value = value->find(part);
    }
  }
  return value;
}

// Dicts with "param_groups", or with keys that begin so.
void find_places(const PickleValue& value, const std::string& place, int level,
                 std::vector<std::string>& places) {
  if (value.kind != Kind::kDict || level > kMostLevels) return;
  bool has_groups = false;
  for (size_t i = 0; i + 1 < value.items.size(); i += 2) {
    if (!value.items[i]->is_text()) continue;
    const auto key = value.items[i]->text;
    has_groups = has_groups || key.starts_with(kGroups);
    if (key != "state")
      find_places(*value.items[i + 1], below(place) + std::string(key), level + 1, places);
  }
  if (has_groups) places.push_back(place);
}

const PickleValue* step_of(const PickleValue* states, const std::string& key) {
  for (size_t i = 0; states != nullptr && i + 1 < states->items.size(); i += 2) {
    const auto& found = *states->items[i];
    const bool is_it = found.is_text()
                           ? found.text == key
                           : found.kind == Kind::kInt && std::to_string(found.integer) == key;
    if (is_it) return states->items[i + 1]->find("step");
  }
  return nullptr;
}

class FileSource : public OptimizerSource {
 public:
  explicit FileSource(const std::string& path) : file_(path) {
    for (const auto& tensor : file_.tensors()) tensors_.push_back(tensor.name);
  }

  at::Tensor read(size_t i) override { return file_.read(file_.tensors()[i]); }
  std::vector<std::string> places_of_groups() const override {
    std::vector<std::string> places;
    find_places(file_.root(), "", 0, places);
    return places;
  }
  std::optional<double> step(const std::string& place, const std::string& key) const override {
    const auto* dict = value_at(file_.root(), place);
    if (dict == nullptr) return {};
    if (const auto* flat = dict->find("state." + key + ".step")) return number_of(flat);
    return number_of(step_of(dict->find("state"), key));
  }
  std::optional<double> top_number(const std::string& key) const override {
    return number_of(file_.root().find(key));
  }

 private:
  void add_groups(const std::string& place, GroupsBuilder& groups) const override {
    const auto* dict = value_at(file_.root(), place);
    if (dict == nullptr) return;
    if (const auto* list = dict->find(kGroups)) groups.add_list(*list);
    const auto start = fmt::format("{}.", kGroups);
    for (size_t i = 0; i + 1 < dict->items.size(); i += 2) {
      const auto& key = *dict->items[i];
      if (key.is_text() && key.text.starts_with(start))
        groups.add_value(std::string(key.text.substr(start.size())), *dict->items[i + 1]);
    }
  }

  TorchFile file_;
};

class FolderSource : public OptimizerSource {
 public:
  explicit FolderSource(const std::string& path) : folder_(path) {
    for (const auto& tensor : folder_.tensors()) tensors_.push_back(tensor.name);
  }

  at::Tensor read(size_t i) override { return folder_.read(folder_.tensors()[i]); }
  std::vector<std::string> places_of_groups() const override {
    std::set<std::string> places;
    for (const auto& name : folder_.other_names()) {
      const auto at = ("." + name).find(fmt::format(".{}", kGroups));
      if (at != std::string::npos) places.insert(name.substr(0, at == 0 ? 0 : at - 1));
    }
    return {places.begin(), places.end()};
  }
  std::optional<double> step(const std::string& place, const std::string& key) const override {
    return top_number(fmt::format("{}state.{}.step", below(place), key));
  }
  std::optional<double> top_number(const std::string& name) const override {
    const auto file = folder_.open_other(name);
    return file == nullptr ? std::nullopt : number_of(&file->root());
  }

 private:
  void add_groups(const std::string& place, GroupsBuilder& groups) const override {
    if (const auto whole = folder_.open_other(fmt::format("{}{}", below(place), kGroups)))
      groups.add_list(whole->root());
    const auto start = fmt::format("{}{}.", below(place), kGroups);
    for (const auto& name : folder_.other_names()) {
      if (name.starts_with(start))
        groups.add_value(name.substr(start.size()), folder_.open_other(name)->root());
    }
  }

  DcpFolder folder_;
};

}  // namespace

std::optional<StateName> state_name(std::string_view name) {
  constexpr std::string_view kState = "state.";
  const size_t at = name.starts_with(kState) ? 0 : name.find(".state.");
  const size_t last = name.rfind('.');
  if (at == std::string_view::npos) return {};
  const size_t key = at + kState.size() + (at == 0 && name.starts_with(kState) ? 0 : 1);
  if (last == std::string_view::npos || last <= key) return {};
  const auto slot = name.substr(last + 1);
  if (!is_slot(slot)) return {};
  return StateName{std::string(name.substr(0, at)), std::string(name.substr(key, last - key)),
                   std::string(slot)};
}

bool is_index(const std::string& key) {
  return !key.empty() && key.size() < 10 &&
         std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::vector<OptimizerGroup> OptimizerSource::groups(const std::string& place) {
  GroupsBuilder groups;
  add_groups(place, groups);
  const auto start = fmt::format("{}{}.", below(place), kGroups);
  std::vector<std::string> order;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const auto& name = tensors_[i];
    if (name.starts_with(start)) groups.add_tensor(name.substr(start.size()), read(i));
    const auto state = state_name(name);
    if (state && state->place == place) order.push_back(state->key);
  }
  return groups.list(order);
}

std::unique_ptr<OptimizerSource> OptimizerSource::open(const std::string& path) {
  if (T5xFolder::is_one(path)) return open_t5x_source(path);
  if (!is_folder(path)) return std::make_unique<FileSource>(path);
  if (!DcpFolder::is_one(path)) {
    fail<DataError>(
        "{}: a folder without .metadata; expected one of torch.distributed.checkpoint, or a "
        "checkpoint of t5x",
        path);
  }
  return std::make_unique<FolderSource>(path);
}

}  // namespace fovea::weights
