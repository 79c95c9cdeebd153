// MessagePack, read strictly: plain values, lists, maps with texts for keys, and extension types as
// the bytes that they are. Sizes are held against what is left before memory is taken. Format:
// msgpack's spec.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fovea {

struct MsgpackValue {
  enum class Kind { kNil, kBool, kInt, kFloat, kText, kBytes, kList, kMap, kExtension };
  Kind kind = Kind::kNil;
  int64_t integer = 0;                 // kInt, kBool; kExtension: its type
  double number = 0;                   // kFloat
  std::string_view text;               // kText, kBytes, kExtension: of the bytes that were read
  std::vector<MsgpackValue> items;     // kList; kMap: the value of each key
  std::vector<std::string_view> keys;  // kMap, as they stand there

  // The value of a key of a map; null: there is none.
  const MsgpackValue* find(std::string_view key) const;
};

// "a map": for messages.
std::string_view name_of(MsgpackValue::Kind kind);

// The one value that `bytes`, which outlive it, are. Throws DataError naming `source`: bytes that
// end too early or go on, nested deeper than 64, more than four million values, keys that are no
// texts or stand there twice, whole numbers beyond 64 bits with a sign.
MsgpackValue parse_msgpack(std::span<const uint8_t> bytes, const std::string& source);
MsgpackValue parse_msgpack(std::string_view bytes, const std::string& source);

}  // namespace fovea
