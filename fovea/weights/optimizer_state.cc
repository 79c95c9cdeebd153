#include "fovea/weights/optimizer_state.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <set>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/weights/dcp_folder.h"
#include "fovea/weights/t5x_folder.h"
#include "fovea/weights/torch_file.h"

namespace fovea::weights {
namespace {

using Kind = PickleValue::Kind;

constexpr std::string_view kFirst = "exp_avg";
constexpr std::string_view kSecond = "exp_avg_sq";
constexpr std::string_view kStep = "step";
// What torch's and timm's optimizers keep for a parameter.
constexpr std::array<std::string_view, 11> kStateNames = {
    kFirst,    kSecond,      kStep,        "max_exp_avg_sq", "momentum_buffer",
    "exp_inf", "mu_product", "square_avg", "exp_avg_sq_row", "exp_avg_sq_col",
    "sum"};

// "optimizer.state.0.exp_avg": under "optimizer", of key "0", the moment "exp_avg".
struct StateName {
  std::string place, key, moment;
};

std::optional<StateName> state_name(std::string_view name) {
  constexpr std::string_view kState = "state.";
  const size_t at = name.starts_with(kState) ? 0 : name.find(".state.");
  const size_t last = name.rfind('.');
  if (at == std::string_view::npos) return {};
  const size_t key = at + kState.size() + (at == 0 && name.starts_with(kState) ? 0 : 1);
  if (last == std::string_view::npos || last <= key) return {};
  const auto moment = name.substr(last + 1);
  if (std::find(kStateNames.begin(), kStateNames.end(), moment) == kStateNames.end()) return {};
  return StateName{std::string(name.substr(0, at)), std::string(name.substr(key, last - key)),
                   std::string(moment)};
}

bool is_index(const std::string& key) {
  return !key.empty() && key.size() < 10 &&
         std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::optional<double> number_of(const PickleValue& value) {
  if (value.kind == Kind::kInt || value.kind == Kind::kBool)
    return static_cast<double>(value.integer);
  if (value.kind == Kind::kFloat) return value.number;
  return {};
}

// What one key of a group says.
void read_group_value(const std::string& key, const PickleValue& value, OptimizerGroup& group) {
  const bool is_list = value.kind == Kind::kList || value.kind == Kind::kTuple;
  if (is_list && (key == "params" || key == "param_names")) {
    auto& list = key == "params" ? group.params : group.names;
    for (const auto* item : value.items) {
      list.push_back(item->is_text() ? std::string(item->text) : std::to_string(item->integer));
    }
  } else if (is_list) {
    for (size_t i = 0; i < value.items.size() && i < 4; ++i) {
      if (const auto number = number_of(*value.items[i]))
        group.numbers[fmt::format("{}.{}", key, i)] = *number;
    }
  } else if (const auto number = number_of(value)) {
    group.numbers[key] = *number;
  }
}

std::vector<OptimizerGroup> read_groups(const PickleValue& list) {
  std::vector<OptimizerGroup> groups;
  if (list.kind != Kind::kList) return groups;
  for (const auto* item : list.items) {
    auto& group = groups.emplace_back();
    if (item->kind != Kind::kDict) continue;
    for (size_t i = 0; i + 1 < item->items.size(); i += 2) {
      if (item->items[i]->is_text())
        read_group_value(std::string(item->items[i]->text), *item->items[i + 1], group);
    }
  }
  return groups;
}

// A file or folder, as far as it is the same.
struct Source {
  std::vector<std::string> tensors;
  std::function<at::Tensor(size_t)> read;  // the i-th of them
  std::function<std::vector<OptimizerGroup>(const std::string& place)> groups;
  // A step that is a plain number.
  std::function<std::optional<double>(const std::string& place, const std::string& key)> step;
};

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

Source source_of(TorchFile& file) {
  Source source;
  for (const auto& tensor : file.tensors()) source.tensors.push_back(tensor.name);
  source.read = [&file](size_t i) { return file.read(file.tensors()[i]); };
  source.groups = [&file](const std::string& place) {
    const auto* dict = value_at(file.root(), place);
    const auto* list = dict == nullptr ? nullptr : dict->find("param_groups");
    return list == nullptr ? std::vector<OptimizerGroup>() : read_groups(*list);
  };
  source.step = [&file](const std::string& place, const std::string& key) {
    const auto* dict = value_at(file.root(), place);
    const auto* states = dict == nullptr ? nullptr : dict->find("state");
    for (size_t i = 0; states != nullptr && i + 1 < states->items.size(); i += 2) {
      const auto& found = *states->items[i];
      const bool is_it = found.is_text()
                             ? found.text == key
                             : found.kind == Kind::kInt && std::to_string(found.integer) == key;
      const auto* step = is_it ? states->items[i + 1]->find(kStep) : nullptr;
      if (step != nullptr) return number_of(*step);
    }
    return std::optional<double>();
  };
  return source;
}

// Groups of a folder: as one value, as "param_groups.0.lr", or by the parameters' names
// ("param_groups.norm.weight.lr"), of which all but the weight decay is read for one alone.
std::vector<OptimizerGroup> groups_of_folder(const DcpFolder& folder, const std::string& place) {
  const auto prefix = place.empty() ? std::string() : place + ".";
  if (const auto whole = folder.open_other(prefix + "param_groups"))
    return read_groups(whole->root());
  std::map<std::string, int64_t> named;
  std::map<int64_t, OptimizerGroup> groups;  // by number: names are sorted as text
  for (const auto& name : folder.other_names()) {
    const auto start = prefix + "param_groups.";
    if (!name.starts_with(start)) continue;
    const auto last = name.rfind('.');
    const auto group = last > start.size() ? name.substr(start.size(), last - start.size()) : "";
    const auto key = name.substr(last + 1);
    const auto number =
        is_index(group) ? std::stoll(group) : named.emplace(group, named.size()).first->second;
    if (!is_index(group) && number > 0 && key != "weight_decay") continue;
    read_group_value(key, folder.open_other(name)->root(), groups[number]);
  }
  std::vector<OptimizerGroup> list;
  for (auto& item : groups) list.push_back(std::move(item.second));
  return list;
}

Source source_of(const DcpFolder& folder) {
  Source source;
  for (const auto& tensor : folder.tensors()) source.tensors.push_back(tensor.name);
  source.read = [&folder](size_t i) { return folder.read(folder.tensors()[i]); };
  source.groups = [&folder](const std::string& place) { return groups_of_folder(folder, place); };
  source.step = [&folder](const std::string& place, const std::string& key) {
    const auto file = folder.open_other(
        fmt::format("{}{}state.{}.{}", place, place.empty() ? "" : ".", key, kStep));
    return file == nullptr ? std::optional<double>() : number_of(file->root());
  };
  return source;
}

// The moments of optax's transformations in a checkpoint of t5x, by torch's names: what stands
// there as "state/param_states/1/0/mu/head/kernel" belongs to the state "state/param_states/1/0".
Source source_of(const T5xFolder& folder) {
  constexpr std::string_view kStates = "state/param_states/";
  constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kMoments = {
      {{"mu", kFirst},
       {"nu", kSecond},
       {"trace", "momentum_buffer"},
       {"m", "exp_inf"},  // of t5x's own Adafactor, and factored second moments
       {"v", "square_avg"},
       {"v_row", "exp_avg_sq_row"},
       {"v_col", "exp_avg_sq_col"}}};
  Source source;
  std::vector<const T5xArray*> arrays;
  for (const auto& array : folder.arrays()) {
    if (!array.name.starts_with(kStates)) continue;
    size_t start = kStates.size();
    for (size_t end = 0; end != std::string::npos && start < array.name.size(); start = end + 1) {
      end = array.name.find('/', start);
      const auto part = std::string_view(array.name).substr(start, end - start);
      const auto* moment = std::find_if(kMoments.begin(), kMoments.end(),
                                        [&](const auto& item) { return item.first == part; });
      if (moment == kMoments.end()) continue;
      // t5x's own optimizers keep a map for each parameter instead: "param_states/head/kernel/m".
      const bool is_behind = end == std::string::npos;
      const auto before = array.name.substr(0, start - 1);
      source.tensors.push_back(
          fmt::format("{}.state.{}.{}", is_behind ? "state/param_states" : before,
                      is_behind ? before.substr(std::min(before.size(), kStates.size()))
                                : array.name.substr(end + 1),
                      moment->second));
      arrays.push_back(&array);
      break;
    }
  }
  source.read = [&folder, arrays](size_t i) { return folder.read(*arrays[i]); };
  source.groups = [](const std::string&) { return std::vector<OptimizerGroup>(); };
  source.step = [&folder](const std::string& place, const std::string&) {
    const auto* count = folder.find(place + "/count");
    if (count == nullptr) count = folder.find("state/step");
    const auto value = count == nullptr ? at::Tensor() : folder.read(*count);
    return value.defined() && value.numel() == 1
               ? std::optional<double>(value.to(at::kDouble).item<double>())
               : std::nullopt;
  };
  return source;
}

class StateReader {
 public:
  StateReader(const Source& source, const std::string& path) : source_(source), path_(path) {}

  OptimizerState read() {
    find_place();
    for (size_t i = 0; i < source_.tensors.size(); ++i) {
      const auto name = state_name(source_.tensors[i]);
      if (!name || name->place != state_.place) continue;
      if (name->moment == kFirst) state_.exp_avg[name->key] = source_.read(i);
      if (name->moment == kSecond) state_.exp_avg_sq[name->key] = source_.read(i);
      if (name->moment == kStep) steps_[name->key] = one_number(source_.read(i), name->key);
    }
    state_.groups = source_.groups(state_.place);
    check_optimizer();
    check_groups();
    check_moments();
    return std::move(state_);
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail<CheckpointError>("{}: {}", path_, fmt::format(format, std::forward<Args>(args)...));
  }

  void find_place() {
    std::set<std::string> places, others;
    for (const auto& tensor : source_.tensors) {
      const auto name = state_name(tensor);
      if (!name) continue;
      if (name->moment == kFirst || name->moment == kSecond) places.insert(name->place);
      if (name->moment != kFirst && name->moment != kSecond && name->moment != kStep)
        others.insert(name->moment);
    }
    if (!others.empty()) {
      refuse(
          "its optimizer keeps {}: it is another one than AdamW, whose state is exp_avg, "
          "exp_avg_sq and step",
          shown(fmt::format("{}", fmt::join(others, ", "))));
    }
    if (places.empty()) {
      refuse(
          "holds no state of AdamW; expected optimizer.state_dict() of torch under a key, such as "
          "{{\"optimizer\": ...}}, or a DCP folder with it");
    }
    if (places.size() > 1)
      refuse("holds several optimizers, under {}; expected one", fmt::join(places, ", "));
    state_.place = *places.begin();
  }

  double one_number(const at::Tensor& tensor, const std::string& key) const {
    if (tensor.numel() != 1)
      refuse("the step of {} is a tensor of {} numbers", shown(key), tensor.numel());
    return tensor.to(at::kDouble).item<double>();
  }

  // Other optimizers have states of the same names.
  void check_optimizer() const {
    for (const auto& group : state_.groups) {
      const auto number = [&](const char* key) {
        const auto found = group.numbers.find(key);
        return found == group.numbers.end() ? std::optional<double>() : found->second;
      };
      if (!number("lr") && !number("amsgrad")) continue;
      if (!number("amsgrad"))
        refuse("its param_groups have no key amsgrad: they are not those of torch's AdamW");
      if (*number("amsgrad") != 0) refuse("AdamW with amsgrad, which is not here");
      if (number("decoupled_weight_decay") == 0.0 && number("weight_decay").value_or(0) != 0)
        refuse("Adam with weight decay in the gradient (L2), which is not AdamW's");
    }
  }

  void check_groups() const {
    std::set<std::string> keys;
    for (const auto& group : state_.groups) {
      for (const auto& key : group.params) {
        if (!keys.insert(key).second) refuse("parameter {} is in two groups", shown(key));
      }
    }
    if (keys.empty() && state_.is_by_index())
      refuse("its parameters have numbers for names, and there are no param_groups to tell them");
    for (const auto& [key, tensor] : state_.exp_avg) {
      if (!keys.empty() && !keys.contains(key)) {
        refuse("its state has parameter {}, which none of its groups of {} in all has", shown(key),
               keys.size());
      }
    }
  }

  void check_moments() {
    for (const auto& [key, second] : state_.exp_avg_sq) {
      if (!state_.exp_avg.contains(key)) refuse("{} has exp_avg_sq, but no exp_avg", shown(key));
    }
    for (const auto& [key, first] : state_.exp_avg) {
      const auto second = state_.exp_avg_sq.find(key);
      if (second == state_.exp_avg_sq.end())
        refuse("{} has exp_avg, but no exp_avg_sq", shown(key));
      if (second->second.sizes() != first.sizes()) {
        refuse("{}: exp_avg is [{}], but exp_avg_sq [{}]", shown(key),
               fmt::join(first.sizes(), ", "), fmt::join(second->second.sizes(), ", "));
      }
      if (!first.is_floating_point() || !second->second.is_floating_point())
        refuse("{}: moments that are not floating-point numbers", shown(key));
      if (second->second.numel() > 0 && !(second->second.min().item<double>() >= 0))
        refuse("{}: exp_avg_sq has values below 0 or that are none: no second moment", shown(key));
      check_step(key);
    }
  }

  void check_step(const std::string& key) {
    const auto found = steps_.find(key);
    const auto step =
        found != steps_.end() ? std::optional(found->second) : source_.step(state_.place, key);
    if (!step) refuse("{} has moments, but no step, without which they cannot go on", shown(key));
    if (!(*step >= 1 && *step < 1e15) || *step != std::floor(*step))
      refuse("{} has taken {} steps; expected a whole number from 1", shown(key), *step);
    const auto steps = static_cast<int64_t>(*step);
    if (state_.steps == 0) {
      state_.steps = steps;
      first_key_ = key;
    }
    if (state_.steps != steps) {
      refuse("{} has taken {} steps, but {} {}; expected one count for all", shown(first_key_),
             state_.steps, shown(key), steps);
    }
  }

  const Source& source_;
  const std::string& path_;
  OptimizerState state_;
  std::map<std::string, double> steps_;
  std::string first_key_;
};

}  // namespace

bool OptimizerState::is_by_index() const {
  return std::all_of(exp_avg.begin(), exp_avg.end(),
                     [](const auto& item) { return is_index(item.first); });
}

bool is_optimizer_tensor(std::string_view name) { return state_name(name).has_value(); }

OptimizerState read_optimizer_state(const std::string& path) {
  if (T5xFolder::is_one(path)) {
    const T5xFolder folder(path);
    return StateReader(source_of(folder), path).read();
  }
  if (is_folder(path)) {
    if (!DcpFolder::is_one(path)) {
      fail<DataError>(
          "{}: a folder without .metadata; expected one of torch.distributed.checkpoint, or a "
          "checkpoint of t5x",
          path);
    }
    const DcpFolder folder(path);
    return StateReader(source_of(folder), path).read();
  }
  TorchFile file(path);
  return StateReader(source_of(file), path).read();
}

}  // namespace fovea::weights
