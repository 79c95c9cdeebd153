// Structs that list their fields once (visit), out of JSON and into it. A key that is unknown or
// missing is refused by name, with the file (DataError).
#pragma once

#include <algorithm>
#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/core/nearest.h"
#include "fovea/core/printable.h"

namespace fovea {

template <class T>
nlohmann::ordered_json record_json(const T& value);
// about_unknown: ends what is said of an unknown key, as "; it is of another version".
template <class T>
void read_record_json(const JsonValue& value, T& out, const char* about_unknown = "");

namespace detail {

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

struct RecordWriter {
  template <class T>
  void field(const char* key, const T& value) {
    out[key] = record_json(value);
  }
  template <class T>
  void optional_field(const char* key, const T& value) {
    out[key] = record_json(value);
  }
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
};

class RecordReader {
 public:
  RecordReader(const JsonValue& object, const char* about_unknown)
      : object_(object), about_unknown_(about_unknown) {}

  template <class T>
  void field(const char* key, T& value) {
    known_.emplace_back(key);
    read_record_json(object_.at(key), value, about_unknown_);
  }
  // Keeps its value where the object has none.
  template <class T>
  void optional_field(const char* key, T& value) {
    known_.emplace_back(key);
    if (const auto found = object_.find(key)) read_record_json(*found, value, about_unknown_);
  }
  void check_all_known() const {
    for (const auto& member : object_.members()) {
      if (std::find(known_.begin(), known_.end(), member.first) != known_.end()) continue;
      fail<DataError>("{}: unknown key \"{}\"{}{}", object_.where(), printable_start(member.first),
                      or_did_you_mean(member.first, known_), about_unknown_);
    }
  }

 private:
  const JsonValue& object_;
  const char* about_unknown_;
  std::vector<std::string> known_;
};

}  // namespace detail

template <class T>
nlohmann::ordered_json record_json(const T& value) {
  if constexpr (detail::IsVector<T>::value) {
    auto list = nlohmann::ordered_json::array();
    for (const auto& item : value) list.push_back(record_json(item));
    return list;
  } else if constexpr (std::is_class_v<T> && !std::is_same_v<T, std::string>) {
    detail::RecordWriter writer;
    T::visit(writer, value);
    return writer.out;
  } else {
    return value;
  }
}

template <class T>
void read_record_json(const JsonValue& value, T& out, const char* about_unknown) {
  if constexpr (std::is_same_v<T, int64_t>) {
    out = value.integer();
  } else if constexpr (std::is_same_v<T, double>) {
    out = value.number();
  } else if constexpr (std::is_same_v<T, bool>) {
    out = value.boolean();
  } else if constexpr (std::is_same_v<T, std::string>) {
    out = value.text();
  } else if constexpr (detail::IsVector<T>::value) {
    out.clear();
    for (const auto& item : value.items()) {
      out.emplace_back();
      read_record_json(item, out.back(), about_unknown);
    }
  } else {
    detail::RecordReader reader(value, about_unknown);
    T::visit(reader, out);
    reader.check_all_known();
  }
}

}  // namespace fovea
