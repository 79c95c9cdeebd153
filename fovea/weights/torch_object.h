// A value as torch.save and torch.distributed.checkpoint keep it: dicts and lists of numbers, texts
// and tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "fovea/files/pickle.h"

namespace fovea::weights {

struct TorchObject;

struct TorchList {
  std::vector<TorchObject> items;
  bool is_tuple = false;
};

using TorchKey = std::variant<std::string, int64_t>;
std::string text_of(const TorchKey& key);

struct TorchDict {
  std::vector<TorchKey> keys;
  std::vector<TorchObject> values;  // in the order of the keys

  void add(TorchKey key, TorchObject value);
  const TorchObject* find(std::string_view key) const;
};

struct TorchObject {
  using Value = std::variant<std::monostate, bool, int64_t, double, std::string, at::Tensor,
                             TorchList, TorchDict>;
  Value value;  // monostate: None

  TorchObject() = default;
  template <class T>
  requires(!std::is_same_v<std::remove_cvref_t<T>, TorchObject>) TorchObject(T&& from)
      : value(std::forward<T>(from)) {}  // NOLINT: a value is written as it is

  const TorchDict* dict() const { return std::get_if<TorchDict>(&value); }
  const TorchList* list() const { return std::get_if<TorchList>(&value); }
  bool is_tensor() const { return std::holds_alternative<at::Tensor>(value); }
  // Whether a tensor is in it, at any depth.
  bool holds_tensors() const;
  // Of a number or a truth value.
  std::optional<double> number() const;
  // "(0.9, 0.999)", "None": as Python prints it, a tensor as its sizes; for messages and to compare
  // what holds no tensors.
  std::string text() const;
};

// A value without tensors, as a pickle has it; nothing where it holds anything else: objects,
// calls, tensors.
std::optional<TorchObject> plain_object(const PickleValue& value);

}  // namespace fovea::weights
