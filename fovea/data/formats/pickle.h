// Python pickles of plain data: numbers, text, bytes, lists, tuples, dicts and NumPy arrays of
// numbers. A pickle is a program; this reader runs none of it. It knows the few opcodes that such
// data needs and the four names that NumPy arrays are made of, and refuses every other by name.
// Opcodes: CPython's Lib/pickletools.py; protocols 2 to 5.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/data/formats/scalar_type.h"

namespace fovea::data {

struct PickleValue {
  enum class Kind {
    kNone,
    kBool,
    kInt,
    kFloat,
    kText,   // str
    kBytes,  // bytes, or str of Python 2
    kList,
    kTuple,
    kDict,
    kArray,     // NumPy array
    kCallable,  // one of the known names; within arrays only
    kType,      // NumPy dtype; within arrays only
  };
  Kind kind = Kind::kNone;
  int64_t integer = 0;              // kInt, kBool
  double number = 0;                // kFloat
  std::string_view text;            // kText, kBytes, kCallable; kArray: its numbers
  std::vector<PickleValue*> items;  // kList, kTuple; kDict: key, value, key, value
  std::vector<int64_t> shape;       // kArray
  NumpyType type;                   // kArray, kType

  // The value of a dict's key (text or bytes); null: there is none, or this is no dict.
  const PickleValue* find(std::string_view key) const;
  bool is_text() const { return kind == Kind::kText || kind == Kind::kBytes; }
};
// "a dict", "an int": for messages.
std::string_view name_of(PickleValue::Kind kind);

class Pickle {
 public:
  // Throws DataError naming `source`: another opcode or name, damaged, truncated, deeper or larger
  // than a file of this size can be.
  Pickle(std::vector<uint8_t> bytes, const std::string& source);

  const PickleValue& root() const { return *root_; }

 private:
  friend class PickleReader;
  std::vector<uint8_t> bytes_;
  std::deque<PickleValue> values_;  // own what the pointers between them point to
  std::deque<std::string> texts_;   // those that do not lie in bytes_ as they are
  const PickleValue* root_ = nullptr;
};

}  // namespace fovea::data
