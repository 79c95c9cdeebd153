#include "fovea/weights/torch_object.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace fovea::weights {
namespace {

using Kind = PickleValue::Kind;

// "[1, 2]", "{'a': 1}": the texts of items between two brackets.
std::string between(std::string_view open, const std::vector<std::string>& items,
                    std::string_view close) {
  return fmt::format("{}{}{}", open, fmt::join(items, ", "), close);
}

struct Text {
  std::string operator()(std::monostate) const { return "None"; }
  std::string operator()(bool value) const { return value ? "True" : "False"; }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return fmt::format("{}", value); }
  std::string operator()(const std::string& value) const { return "'" + value + "'"; }
  std::string operator()(const at::Tensor& value) const {
    return fmt::format("a tensor [{}]", fmt::join(value.sizes(), ", "));
  }
  std::string operator()(const TorchList& list) const {
    std::vector<std::string> items;
    for (const auto& item : list.items) items.push_back(item.text());
    return list.is_tuple ? between("(", items, ")") : between("[", items, "]");
  }
  std::string operator()(const TorchDict& dict) const {
    std::vector<std::string> items;
    for (size_t i = 0; i < dict.keys.size(); ++i)
      items.push_back(fmt::format("{}: {}", text_of(dict.keys[i]), dict.values[i].text()));
    return between("{", items, "}");
  }
};

std::optional<TorchObject> plain_list(const PickleValue& value) {
  TorchList list{.items = {}, .is_tuple = value.kind == Kind::kTuple};
  for (const auto* item : value.items) {
    auto object = plain_object(*item);
    if (!object) return {};
    list.items.push_back(std::move(*object));
  }
  return TorchObject(std::move(list));
}

std::optional<TorchObject> plain_dict(const PickleValue& value) {
  TorchDict dict;
  for (size_t i = 0; i + 1 < value.items.size(); i += 2) {
    const auto& key = *value.items[i];
    auto object = plain_object(*value.items[i + 1]);
    if (!object || (!key.is_text() && key.kind != Kind::kInt)) return {};
    dict.add(key.is_text() ? TorchKey(std::string(key.text)) : TorchKey(key.integer),
             std::move(*object));
  }
  return TorchObject(std::move(dict));
}

}  // namespace

std::string text_of(const TorchKey& key) {
  const auto* text = std::get_if<std::string>(&key);
  return text != nullptr ? *text : std::to_string(std::get<int64_t>(key));
}

void TorchDict::add(TorchKey key, TorchObject value) {
  keys.push_back(std::move(key));
  values.push_back(std::move(value));
}

const TorchObject* TorchDict::find(std::string_view key) const {
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto* text = std::get_if<std::string>(&keys[i]);
    if (text != nullptr && *text == key) return &values[i];
  }
  return nullptr;
}

bool TorchObject::holds_tensors() const {
  const auto any_of = [](const std::vector<TorchObject>& items) {
    return std::any_of(items.begin(), items.end(),
                       [](const TorchObject& item) { return item.holds_tensors(); });
  };
  if (is_tensor()) return true;
  if (const auto* items = list()) return any_of(items->items);
  return dict() != nullptr && any_of(dict()->values);
}

std::optional<double> TorchObject::number() const {
  if (const auto* truth = std::get_if<bool>(&value)) return *truth ? 1 : 0;
  if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
  if (const auto* real = std::get_if<double>(&value)) return *real;
  return {};
}

std::string TorchObject::text() const { return std::visit(Text{}, value); }

std::optional<TorchObject> plain_object(const PickleValue& value) {
  switch (value.kind) {
    case Kind::kNone:
      return TorchObject();
    case Kind::kBool:
      return TorchObject(value.integer != 0);
    case Kind::kInt:
      return TorchObject(value.integer);
    case Kind::kFloat:
      return TorchObject(value.number);
    case Kind::kText:
      return TorchObject(std::string(value.text));
    case Kind::kList:
    case Kind::kTuple:
      return plain_list(value);
    case Kind::kDict:
      return plain_dict(value);
    default:
      return value.is_call("collections.OrderedDict") ? plain_dict(value) : std::nullopt;
  }
}

}  // namespace fovea::weights
