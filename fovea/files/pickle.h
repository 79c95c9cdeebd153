// Python pickles. A pickle is a program; this reader runs none of it. It knows the few opcodes that
// plain data needs and the names that its caller knows, and refuses every other by name. A call of
// a known name stays what it is, a name with arguments: what NumPy arrays or tensors are made of is
// read from there. Opcodes: CPython's Lib/pickletools.py; protocols 2 to 5.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fovea {

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
    kName,        // one of the known names
    kCall,        // of one of them, never made
    kPersistent,  // an object outside of the pickle
  };
  Kind kind = Kind::kNone;
  int64_t integer = 0;    // kInt, kBool
  double number = 0;      // kFloat
  std::string_view text;  // kText, kBytes; kName and kCall: "torch._utils._rebuild_tensor_v2"
  std::vector<PickleValue*> items;         // kList, kTuple; kDict and kCall: key, value, key, value
  const PickleValue* arguments = nullptr;  // kCall: a tuple; kPersistent: its id
  const PickleValue* state = nullptr;      // kCall: what was set on it afterwards; null: nothing

  // The value of a key (text or bytes) of a dict, or of a call with items, such as an OrderedDict;
  // null: there is none.
  const PickleValue* find(std::string_view key) const;
  bool is_text() const { return kind == Kind::kText || kind == Kind::kBytes; }
  bool is_call(std::string_view name) const { return kind == Kind::kCall && text == name; }
};
// "a dict", "an int": for messages.
std::string_view name_of(PickleValue::Kind kind);
// Text of a foreign file as it may stand in a message.
std::string shown(std::string_view text);

struct PickleOptions {
  std::span<const std::string_view> names = {};  // "module.name", static
  bool has_persistent_ids = false;               // as torch's files
  bool may_go_on = false;                        // bytes may follow: see Pickle::end()
};

class Pickle {
 public:
  // Throws DataError naming `source`: another opcode or name, damaged, truncated, deeper or larger
  // than a file of this size can be.
  Pickle(std::vector<uint8_t> bytes, const std::string& source, const PickleOptions& options = {});
  // The bytes outlive it.
  Pickle(std::span<const uint8_t> bytes, const std::string& source,
         const PickleOptions& options = {});
  Pickle(const Pickle&) = delete;
  Pickle& operator=(const Pickle&) = delete;

  const PickleValue& root() const { return *root_; }
  // Offset of the first byte behind it.
  size_t end() const { return end_; }

 private:
  friend class PickleReader;
  std::vector<uint8_t> owned_;
  std::span<const uint8_t> bytes_;
  std::deque<PickleValue> values_;  // own what the pointers between them point to
  std::deque<std::string> texts_;   // those that do not lie in bytes_ as they are
  const PickleValue* root_ = nullptr;
  size_t end_ = 0;
};

}  // namespace fovea
