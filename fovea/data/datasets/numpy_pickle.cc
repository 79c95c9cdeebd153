#include "fovea/data/datasets/numpy_pickle.h"

#include <fmt/ranges.h>

#include <array>

#include "fovea/core/error.h"
#include "fovea/data/volume/stored_volume.h"

namespace fovea::data {
namespace {

using Kind = PickleValue::Kind;

constexpr std::array<std::string_view, 6> kNumpyNames = {"numpy.core.multiarray._reconstruct",
                                                         "numpy._core.multiarray._reconstruct",
                                                         "numpy.core.numeric._frombuffer",
                                                         "numpy._core.numeric._frombuffer",
                                                         "numpy.ndarray",
                                                         "numpy.dtype"};

[[noreturn]] void refuse_array(const std::string& source, const std::string& reason) {
  fail<DataError>("{}: {}; only arrays of numbers are read from pickles", source, reason);
}

// dtype('u1', False, True) with the state (version, byte order, ...): of plain numbers only the
// order matters.
NumpyType type_of(const PickleValue& value, const std::string& source) {
  const bool is_type = value.is_call("numpy.dtype") && !value.arguments->items.empty() &&
                       value.arguments->items[0]->is_text();
  if (!is_type) refuse_array(source, "a NumPy array of other things than numbers");
  auto type = numpy_type(value.arguments->items[0]->text, source);
  if (value.state == nullptr) return type;
  const auto& items = value.state->items;
  const bool has_order = value.state->kind == Kind::kTuple && items.size() >= 2 &&
                         items[1]->is_text() && items[1]->text.size() == 1;
  if (!has_order) refuse_array(source, "a NumPy type with an unknown state");
  type.order = items[1]->text == ">" ? std::endian::big : std::endian::little;
  return type;
}

StoredArray make_array(const PickleValue& shape, const PickleValue& type, bool is_row_major,
                       const PickleValue& data, const std::string& source) {
  if (shape.kind != Kind::kTuple || data.kind != Kind::kBytes)
    refuse_array(source, "a NumPy array of other things than numbers");
  if (!is_row_major && shape.items.size() > 1)
    refuse_array(source, "a NumPy array in Fortran order");
  StoredArray array{source, type_of(type, source), {}};
  array.bytes = {reinterpret_cast<const uint8_t*>(data.text.data()), data.text.size()};
  for (const auto* size : shape.items) {
    if (size->kind != Kind::kInt || array.shape.size() == 32)
      refuse_array(source, "a shape that is no list of sizes");
    array.shape.push_back(size->integer);
  }
  const int64_t values = checked_voxels(array.shape);
  if (values < 0 || static_cast<uint64_t>(values * bytes_of(array.type.type)) != data.text.size()) {
    refuse_array(source, fmt::format("a NumPy array of sizes {} with {} bytes",
                                     fmt::join(array.shape, " x "), data.text.size()));
  }
  return array;
}

}  // namespace

std::span<const std::string_view> numpy_pickle_names() { return kNumpyNames; }

StoredArray numpy_array(const PickleValue& value, const std::string& source) {
  if (value.kind == Kind::kCall && value.text.ends_with("._reconstruct") &&
      value.state != nullptr) {
    const auto& items = value.state->items;  // version, shape, type, is in Fortran order, bytes
    if (value.state->kind == Kind::kTuple && items.size() == 5 && items[3]->kind == Kind::kBool)
      return make_array(*items[1], *items[2], items[3]->integer == 0, *items[4], source);
  }
  if (value.kind == Kind::kCall && value.text.ends_with("._frombuffer")) {
    const auto& items = value.arguments->items;  // bytes, type, shape, order
    if (items.size() == 4) {
      const bool is_row_major = items[3]->is_text() && items[3]->text == "C";
      return make_array(*items[2], *items[1], is_row_major, *items[0], source);
    }
  }
  refuse_array(source, fmt::format("{} where a NumPy array belongs", name_of(value.kind)));
}

}  // namespace fovea::data
