#include "fovea/files/msgpack.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <set>

#include "fovea/core/error.h"
#include "fovea/core/printable.h"
#include "fovea/files/byte_reader.h"

namespace fovea {
namespace {

constexpr int kMaxMsgpackDepth = 64;
constexpr uint64_t kMaxMsgpackValues = uint64_t{1} << 22;  // one byte takes a hundred here

class MsgpackReader {
 public:
  MsgpackReader(std::span<const uint8_t> bytes, const std::string& source)
      : in_(bytes, source, std::endian::big), source_(source) {}

  MsgpackValue read() {
    auto value = read_value(0);
    if (!in_.at_end()) {
      fail<DataError>("{}: {} bytes behind its one MessagePack value; the file is damaged", source_,
                      in_.left());
    }
    return value;
  }

 private:
  using Kind = MsgpackValue::Kind;

  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail<DataError>("{}: at offset {}: {}; expected MessagePack", source_, in_.position(),
                    fmt::format(format, std::forward<Args>(args)...));
  }

  MsgpackValue read_value(int depth) {
    if (depth > kMaxMsgpackDepth) refuse("values nested deeper than {}", kMaxMsgpackDepth);
    if (++values_ > kMaxMsgpackValues) refuse("more than {} values", kMaxMsgpackValues);
    const auto tag = in_.number<uint8_t>();
    MsgpackValue value;
    if (tag < 0x80 || tag >= 0xE0) {
      value.kind = Kind::kInt;
      value.integer = static_cast<int8_t>(tag);
    } else if (tag < 0x90) {
      read_map(tag & 0x0F, depth, value);
    } else if (tag < 0xA0) {
      read_list(tag & 0x0F, depth, value);
    } else if (tag < 0xC0) {
      read_bytes(Kind::kText, tag & 0x1F, value);
    } else {
      read_tagged(tag, depth, value);
    }
    return value;
  }

  // Tags that take up a byte of their own.
  void read_tagged(uint8_t tag, int depth, MsgpackValue& value) {
    if (tag >= 0xC4 && tag <= 0xC6) return read_bytes(Kind::kBytes, length(tag - 0xC4), value);
    if (tag >= 0xC7 && tag <= 0xC9) return read_extension(length(tag - 0xC7), value);
    if (tag >= 0xCC && tag <= 0xD3) return read_integer(tag, value);
    if (tag >= 0xD4 && tag <= 0xD8) return read_extension(uint64_t{1} << (tag - 0xD4), value);
    if (tag >= 0xD9 && tag <= 0xDB) return read_bytes(Kind::kText, length(tag - 0xD9), value);
    if (tag >= 0xDC && tag <= 0xDD) return read_list(length(tag - 0xDC + 1), depth, value);
    if (tag >= 0xDE) return read_map(length(tag - 0xDE + 1), depth, value);
    if (tag == 0xC2 || tag == 0xC3) {
      value.kind = Kind::kBool;
      value.integer = tag - 0xC2;
    } else if (tag == 0xCA || tag == 0xCB) {
      value.kind = Kind::kFloat;
      value.number = tag == 0xCA ? in_.number<float>() : in_.number<double>();
    } else if (tag != 0xC0) {
      refuse("the byte 0x{:02x}, which begins no value", tag);
    }
  }

  // In 1, 2 or 4 bytes.
  uint64_t length(int size) {
    if (size == 0) return in_.number<uint8_t>();
    return size == 1 ? in_.number<uint16_t>() : in_.number<uint32_t>();
  }

  void read_integer(uint8_t tag, MsgpackValue& value) {
    value.kind = Kind::kInt;
    switch (tag) {
      case 0xCC:
        value.integer = in_.number<uint8_t>();
        return;
      case 0xCD:
        value.integer = in_.number<uint16_t>();
        return;
      case 0xCE:
        value.integer = in_.number<uint32_t>();
        return;
      case 0xD0:
        value.integer = in_.number<int8_t>();
        return;
      case 0xD1:
        value.integer = in_.number<int16_t>();
        return;
      case 0xD2:
        value.integer = in_.number<int32_t>();
        return;
      case 0xD3:
        value.integer = in_.number<int64_t>();
        return;
      default:
        break;
    }
    const auto wide = in_.number<uint64_t>();
    if (wide > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      refuse("the number {}, beyond 64 bits with a sign", wide);
    value.integer = static_cast<int64_t>(wide);
  }

  void read_bytes(Kind kind, uint64_t count, MsgpackValue& value) {
    value.kind = kind;
    value.text = in_.text(count);
  }

  void read_extension(uint64_t count, MsgpackValue& value) {
    value.integer = in_.number<int8_t>();
    read_bytes(Kind::kExtension, count, value);
  }

  // Each value has a byte at least.
  void check_count(uint64_t count, std::string_view what) const {
    if (count > in_.left()) refuse("{} of {} where {} bytes are left", what, count, in_.left());
  }

  void read_list(uint64_t count, int depth, MsgpackValue& value) {
    check_count(count, "a list");
    value.kind = Kind::kList;
    for (uint64_t i = 0; i < count; ++i) value.items.push_back(read_value(depth + 1));
  }

  void read_map(uint64_t count, int depth, MsgpackValue& value) {
    check_count(2 * count, "a map");
    value.kind = Kind::kMap;
    std::set<std::string_view> seen;
    for (uint64_t i = 0; i < count; ++i) {
      const auto key = read_value(depth + 1);
      if (key.kind != Kind::kText) refuse("{} for a key; a text belongs there", name_of(key.kind));
      if (!seen.insert(key.text).second)
        refuse("the key \"{}\" twice in one map", printable_start(key.text));
      value.keys.push_back(key.text);
      value.items.push_back(read_value(depth + 1));
    }
  }

  ByteReader in_;
  const std::string& source_;
  uint64_t values_ = 0;
};

}  // namespace

const MsgpackValue* MsgpackValue::find(std::string_view key) const {
  const auto found = std::find(keys.begin(), keys.end(), key);
  return found == keys.end() ? nullptr : &items[static_cast<size_t>(found - keys.begin())];
}

std::string_view name_of(MsgpackValue::Kind kind) {
  constexpr std::array<std::string_view, 9> kNames = {"nil",     "a bool", "a whole number",
                                                      "a float", "a text", "bytes",
                                                      "a list",  "a map",  "an extension"};
  return kNames[static_cast<size_t>(kind)];
}

MsgpackValue parse_msgpack(std::span<const uint8_t> bytes, const std::string& source) {
  return MsgpackReader(bytes, source).read();
}

MsgpackValue parse_msgpack(std::string_view bytes, const std::string& source) {
  return parse_msgpack({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, source);
}

}  // namespace fovea
