#include "fovea/data_tools/prepare/matlab.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "fovea/core/error.h"

namespace fovea::data {
namespace {

constexpr size_t kMatlabHeaderBytes = 128;
constexpr size_t kMaxUnpackedBytes = size_t{1} << 28;
constexpr int kMaxStructDepth = 8;
constexpr int64_t kMaxElements = int64_t{1} << 24;
constexpr size_t kMaxFields = 256;

// Types of data elements, and classes of arrays, by the numbers of the format.
enum : uint32_t {
  kInt8 = 1,
  kUint8 = 2,
  kInt16 = 3,
  kUint16 = 4,
  kInt32 = 5,
  kUint32 = 6,
  kSingle = 7,
  kDouble = 9,
  kInt64 = 12,
  kUint64 = 13,
  kMatrix = 14,
  kCompressed = 15,
  kUtf8 = 16,
  kUtf16 = 17
};
enum : uint32_t { kStructClass = 2, kCharClass = 4, kFirstNumberClass = 6, kLastNumberClass = 15 };

struct MatlabElement {
  uint32_t type = 0;
  std::span<const uint8_t> bytes;
};

class Parser {
 public:
  explicit Parser(const std::string& name) : name_(name) {}

  [[noreturn]] void fail_with(const char* what) const {
    fail<DataError>("{}: {}; expected a MAT-file of level 5, as MATLAB 5 to 7 write it", name_,
                    what);
  }

  // Takes the next element off the front: a tag of 8 bytes, or of 4 for up to 4 bytes of data.
  MatlabElement take(std::span<const uint8_t>& rest, bool is_padded = true) const {
    if (rest.size() < 8) fail_with("a data element is truncated");
    const uint32_t word = number<uint32_t>(rest);
    MatlabElement element;
    if (word >> 16 != 0) {
      element.type = word & 0xFFFF;
      const size_t count = word >> 16;
      if (count > 4) fail_with("a small data element of more than 4 bytes");
      element.bytes = rest.subspan(4, count);
      rest = rest.subspan(8);
      return element;
    }
    element.type = word;
    const size_t count = number<uint32_t>(rest.subspan(4));
    rest = rest.subspan(8);
    if (count > rest.size()) fail_with("a data element is truncated");
    element.bytes = rest.first(count);
    const size_t whole = is_padded ? (count + 7) / 8 * 8 : count;
    rest = rest.subspan(std::min(whole, rest.size()));
    return element;
  }

  MatlabArray parse_matrix(std::span<const uint8_t> rest, int depth) const {
    if (depth > kMaxStructDepth) fail_with("structs within structs without end");
    MatlabArray array;
    if (rest.empty()) return array;  // an empty cell
    const auto flags = take(rest);
    if (flags.type != kUint32 || flags.bytes.size() < 8) fail_with("an array without flags");
    const uint32_t array_class = flags.bytes[0];
    const auto sizes = take(rest);
    if (sizes.type != kInt32 || sizes.bytes.size() % 4 != 0 || sizes.bytes.size() > 4 * 32) {
      fail_with("an array without sizes");
    }
    for (size_t i = 0; i < sizes.bytes.size(); i += 4) {
      const int64_t size = number<int32_t>(sizes.bytes.subspan(i));
      if (size < 0) fail_with("an array of negative size");
      array.sizes.push_back(size);
      if (array.size() > kMaxElements) fail_with("an array of more elements than any annotation");
    }
    const auto name = take(rest);
    array.name.assign(name.bytes.begin(), name.bytes.end());
    if (array_class == kStructClass) {
      parse_struct(rest, array, depth);
    } else if (array_class == kCharClass) {
      parse_text(take(rest), array);
    } else if (array_class >= kFirstNumberClass && array_class <= kLastNumberClass) {
      parse_numbers(take(rest), array);
    }
    return array;
  }

  std::vector<uint8_t> unpack(std::span<const uint8_t> packed) const {
    z_stream stream{};
    if (inflateInit(&stream) != Z_OK) fail_with("out of memory");
    stream.next_in = const_cast<uint8_t*>(packed.data());
    stream.avail_in = static_cast<unsigned>(packed.size());
    std::vector<uint8_t> bytes;
    int code = Z_OK;
    while (code == Z_OK && bytes.size() < kMaxUnpackedBytes) {
      const size_t before = bytes.size();
      bytes.resize(before + std::max<size_t>(4 * packed.size(), 1 << 12));
      stream.next_out = bytes.data() + before;
      stream.avail_out = static_cast<unsigned>(bytes.size() - before);
      code = inflate(&stream, Z_NO_FLUSH);
      bytes.resize(bytes.size() - stream.avail_out);
      if (code == Z_OK && stream.avail_in == 0 && stream.avail_out > 0) code = Z_BUF_ERROR;
    }
    inflateEnd(&stream);
    if (code != Z_STREAM_END) fail_with("a compressed variable is damaged, or too large");
    return bytes;
  }

 private:
  template <class T>
  T number(std::span<const uint8_t> bytes) const {
    if (bytes.size() < sizeof(T)) fail_with("a data element is truncated");
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }

  template <class T>
  void append(std::span<const uint8_t> bytes, std::vector<double>& out) const {
    if (bytes.size() % sizeof(T) != 0) fail_with("an array with part of a number");
    for (size_t i = 0; i < bytes.size(); i += sizeof(T)) {
      out.push_back(static_cast<double>(number<T>(bytes.subspan(i))));
    }
  }

  std::vector<double> numbers_of(const MatlabElement& element) const {
    std::vector<double> out;
    switch (element.type) {
      case kInt8:
        append<int8_t>(element.bytes, out);
        break;
      case kUint8:
      case kUtf8:
        append<uint8_t>(element.bytes, out);
        break;
      case kInt16:
        append<int16_t>(element.bytes, out);
        break;
      case kUint16:
      case kUtf16:
        append<uint16_t>(element.bytes, out);
        break;
      case kInt32:
        append<int32_t>(element.bytes, out);
        break;
      case kUint32:
        append<uint32_t>(element.bytes, out);
        break;
      case kSingle:
        append<float>(element.bytes, out);
        break;
      case kDouble:
        append<double>(element.bytes, out);
        break;
      case kInt64:
        append<int64_t>(element.bytes, out);
        break;
      case kUint64:
        append<uint64_t>(element.bytes, out);
        break;
      default:
        fail_with("numbers of an unknown type");
    }
    return out;
  }

  void parse_numbers(const MatlabElement& element, MatlabArray& array) const {
    array.kind = MatlabArray::Kind::kNumbers;
    array.numbers = numbers_of(element);
    if (static_cast<int64_t>(array.numbers.size()) != array.size()) {
      fail_with("an array with another number of elements than its sizes say");
    }
  }

  // Characters are UTF-8 bytes or 16-bit units; those outside the basic plane come as two.
  void parse_text(const MatlabElement& element, MatlabArray& array) const {
    array.kind = MatlabArray::Kind::kText;
    if (element.type == kUtf8) {
      array.text.assign(element.bytes.begin(), element.bytes.end());
      return;
    }
    const auto units = numbers_of(element);
    for (size_t i = 0; i < units.size(); ++i) {
      if (!(units[i] >= 0 && units[i] <= 0xFFFF)) fail_with("text with a character that is none");
      auto code = static_cast<uint32_t>(units[i]);
      const bool is_high = code >= 0xD800 && code < 0xDC00;
      if (is_high && i + 1 < units.size() && units[i + 1] >= 0xDC00 && units[i + 1] < 0xE000) {
        code = 0x10000 + ((code - 0xD800) << 10) + (static_cast<uint32_t>(units[++i]) - 0xDC00);
      }
      append_utf8(code, array.text);
    }
  }

  static void append_utf8(uint32_t code, std::string& text) {
    const auto low = [&](int shift) { text += static_cast<char>(0x80 | (code >> shift & 0x3F)); };
    if (code < 0x80) {
      text += static_cast<char>(code);
    } else if (code < 0x800) {
      text += static_cast<char>(0xC0 | code >> 6);
      low(0);
    } else if (code < 0x10000) {
      text += static_cast<char>(0xE0 | code >> 12);
      low(6), low(0);
    } else {
      text += static_cast<char>(0xF0 | code >> 18);
      low(12), low(6), low(0);
    }
  }

  void parse_struct(std::span<const uint8_t> rest, MatlabArray& array, int depth) const {
    array.kind = MatlabArray::Kind::kStruct;
    const auto width_element = take(rest);
    const auto names = take(rest);
    const size_t width =
        width_element.type == kInt32 && width_element.bytes.size() == 4
            ? static_cast<size_t>(std::max<int32_t>(number<int32_t>(width_element.bytes), 0))
            : 0;
    if (width == 0 || names.bytes.size() % width != 0 || names.bytes.size() / width > kMaxFields) {
      fail_with("a struct without names of fields");
    }
    for (size_t i = 0; i < names.bytes.size(); i += width) {
      const auto* first = reinterpret_cast<const char*>(names.bytes.data() + i);
      array.fields.emplace_back(first, std::find(first, first + width, '\0'));
    }
    const auto members = array.size() * static_cast<int64_t>(array.fields.size());
    for (int64_t i = 0; i < members;
         ++i) {  // each takes at least a tag, so this ends with the bytes
      const auto member = take(rest);
      if (member.type != kMatrix) fail_with("a field that is no array");
      array.members.push_back(parse_matrix(member.bytes, depth + 1));
    }
  }

  const std::string& name_;
};

}  // namespace

int64_t MatlabArray::size() const {
  int64_t count = 1;
  for (const int64_t size : sizes) {
    if (size != 0 && count > std::numeric_limits<int64_t>::max() / size) {
      return std::numeric_limits<int64_t>::max();
    }
    count *= size;
  }
  return count;
}

const MatlabArray& MatlabArray::field(int64_t element, std::string_view field_name) const {
  const auto found = std::find(fields.begin(), fields.end(), field_name);
  if (kind != Kind::kStruct || found == fields.end()) {
    fail<DataError>("\"{}\" has no field \"{}\"; is this the right file?", name, field_name);
  }
  const auto place = element * static_cast<int64_t>(fields.size()) + (found - fields.begin());
  return members.at(static_cast<size_t>(place));
}

double MatlabArray::number() const {
  if (kind != Kind::kNumbers || numbers.size() != 1) {
    fail<DataError>("a field with {} numbers; expected one", numbers.size());
  }
  return numbers[0];
}

std::vector<MatlabArray> parse_matlab(std::span<const uint8_t> bytes, const std::string& name) {
  const Parser parser(name);
  if (bytes.size() < kMatlabHeaderBytes) parser.fail_with("fewer bytes than a header");
  // Version 0x0100 and "MI" as 16-bit words: their bytes are swapped in a little-endian file.
  if (bytes[124] != 0x00 || bytes[125] != 0x01 || bytes[126] != 'I' || bytes[127] != 'M') {
    parser.fail_with("another version, or big-endian");
  }
  std::vector<MatlabArray> variables;
  auto rest = bytes.subspan(kMatlabHeaderBytes);
  while (!rest.empty()) {
    // Compressed elements follow each other without padding.
    const bool is_packed = rest[0] == kCompressed;
    const auto element = parser.take(rest, !is_packed);
    if (element.type == kCompressed) {
      const auto unpacked = parser.unpack(element.bytes);
      std::span<const uint8_t> inner = unpacked;
      const auto matrix = parser.take(inner);
      if (matrix.type == kMatrix) variables.push_back(parser.parse_matrix(matrix.bytes, 0));
    } else if (element.type == kMatrix) {
      variables.push_back(parser.parse_matrix(element.bytes, 0));
    }
  }
  return variables;
}

}  // namespace fovea::data
