#include "fovea/files/npy.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "fovea/core/error.h"
#include "fovea/files/atomic_file.h"

namespace fovea {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr uint64_t kMaxNpyHeader = 1 << 16;
constexpr size_t kMaxDims = 32;

// Reads the header, a Python dict literal of three known keys: {'descr': '<f4', 'fortran_order':
// False, 'shape': (2,)}.
class DictReader {
 public:
  DictReader(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  NpyHeader read() {
    NpyHeader header;
    bool has_descr = false, has_order = false, has_shape = false;
    expect('{');
    while (!accept('}')) {
      const auto key = string();
      expect(':');
      if (key == "descr" && !has_descr) {
        header.dtype = dtype();
        has_descr = true;
      } else if (key == "fortran_order" && !has_order) {
        if (boolean())
          refuse(
              "its values are in Fortran order; expected C order: save numpy.ascontiguousarray(x)");
        has_order = true;
      } else if (key == "shape" && !has_shape) {
        header.shape = shape();
        has_shape = true;
      } else {
        refuse(fmt::format("its header has the key '{}' once too often", key));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (!has_descr || !has_order || !has_shape)
      refuse("its header lacks one of descr, fortran_order, shape");
    return header;
  }

 private:
  [[noreturn]] void refuse(const std::string& reason) const {
    fail<DataError>("{}: {}", source_, reason);
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool accept(char wanted) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  void expect(char wanted) {
    if (!accept(wanted)) refuse(fmt::format("its header has no '{}' where one belongs", wanted));
  }
  std::string string() {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : ' ';
    if (quote != '\'' && quote != '"')
      refuse("its header holds something other than text in quotes");
    const auto end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) refuse("its header ends within a text");
    const auto value = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return std::string(value);
  }
  std::string dtype() {
    skip_space();
    if (at_ < text_.size() && text_[at_] == '[')
      refuse("it holds records; expected an array of plain numbers");
    const auto code = string();
    if (code.find('O') != std::string::npos)
      refuse("it holds pickled objects, which are never read");
    return code;
  }
  bool boolean() {
    skip_space();
    for (const auto& [word, value] :
         {std::pair<std::string_view, bool>{"True", true}, {"False", false}}) {
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    }
    refuse("its fortran_order is neither True nor False");
  }
  std::vector<int64_t> shape() {
    std::vector<int64_t> sizes;
    expect('(');
    while (!accept(')')) {
      skip_space();
      int64_t size = -1;
      const auto* end = text_.data() + text_.size();
      const auto [next, error] = std::from_chars(text_.data() + at_, end, size);
      if (error != std::errc() || size < 0 || sizes.size() == kMaxDims)
        refuse("its shape is not a list of sizes");
      at_ = static_cast<size_t>(next - text_.data());
      sizes.push_back(size);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return sizes;
  }

  std::string_view text_;
  const std::string& source_;
  size_t at_ = 0;
};

// Bytes of one element of "<f4", "|u1" ...; 0 for what is not a little-endian number, bool or
// "|V2".
uint64_t element_bytes(const std::string& dtype) {
  if (dtype.size() != 3 || (dtype[0] != '<' && dtype[0] != '|')) return 0;
  const auto size = static_cast<uint64_t>(dtype[2] - '0');
  const bool is_known = (dtype[1] == 'f' && (size == 2 || size == 4 || size == 8)) ||
                        ((dtype[1] == 'i' || dtype[1] == 'u') &&
                         (size == 1 || size == 2 || size == 4 || size == 8)) ||
                        (dtype[1] == 'b' && size == 1);
  if (dtype == "|V2") return 2;  // bfloat16, as JAX's arrays are saved
  return is_known && (size == 1 || dtype[0] == '<') ? size : 0;
}

// Where the data begins, by the length in the first bytes; 0: there are too few of them.
uint64_t data_offset_of(std::string_view file) {
  if (file.size() < 12) return 0;
  const size_t length_bytes = file[6] == 1 ? 2 : 4;
  uint32_t length = 0;
  std::memcpy(&length, file.data() + 8, length_bytes);
  return 8 + length_bytes + uint64_t{length};
}

}  // namespace

NpyHeader parse_npy_header(std::string_view file, const std::string& source) {
  if (file.size() < 10 || !file.starts_with(kMagic))
    fail<DataError>("{}: not a .npy file (wrong magic)", source);
  const int version = static_cast<uint8_t>(file[6]);
  if (version < 1 || version > 3)
    fail<DataError>("{}: .npy version {}; expected 1 to 3", source, version);
  const size_t length_bytes = version == 1 ? 2 : 4, start = 8 + length_bytes;
  uint32_t length = 0;
  if (file.size() < start) fail<DataError>("{}: the .npy header is cut off", source);
  std::memcpy(&length, file.data() + 8, length_bytes);
  if (length > kMaxNpyHeader || length > file.size() - start) {
    fail<DataError>(
        "{}: a .npy header of {} bytes in a file of {}; the file is truncated or damaged", source,
        length, file.size());
  }
  auto header = DictReader(file.substr(start, length), source).read();
  header.data_offset = start + length;
  header.data_bytes = element_bytes(header.dtype);
  if (header.data_bytes == 0) {
    fail<DataError>("{}: dtype '{}'; expected little-endian numbers, such as <f4", source,
                    header.dtype);
  }
  for (const int64_t size : header.shape) {
    if (__builtin_mul_overflow(header.data_bytes, static_cast<uint64_t>(size),
                               &header.data_bytes)) {
      fail<DataError>("{}: the product of its shape overflows", source);
    }
  }
  return header;
}

NpyHeader read_npy_header(const InputFile& file) {
  constexpr uint64_t kMostBytes = 12 + kMaxNpyHeader;  // up to the data, at most
  constexpr uint64_t kUsualBytes = 1024;
  std::string start(std::min(file.size(), kUsualBytes), '\0');
  const auto read_start = [&] {
    file.read(0, {reinterpret_cast<uint8_t*>(start.data()), start.size()});
  };
  read_start();
  if (start.size() < file.size() && data_offset_of(start) > start.size()) {
    start.resize(std::min(file.size(), kMostBytes));
    read_start();
  }
  auto header = parse_npy_header(start, file.name());
  const uint64_t held = file.size() - header.data_offset;
  if (held == header.data_bytes) return header;
  fail<DataError>(
      "{}: {} bytes of data, but its header describes {}; the file is truncated or damaged",
      file.name(), held, header.data_bytes);
}

NpyArray read_npy(const std::string& path) {
  const InputFile file(path);
  auto header = read_npy_header(file);
  if (header.data_bytes > kMaxNpyBytes) {
    fail<DataError>("{}: {} bytes of values; expected at most {}, one batch of a model",
                    file.name(), header.data_bytes, kMaxNpyBytes);
  }
  NpyArray array{std::move(header.dtype), std::move(header.shape), {}};
  array.bytes.resize(header.data_bytes);
  file.read(header.data_offset,
            {reinterpret_cast<uint8_t*>(array.bytes.data()), array.bytes.size()});
  return array;
}

void write_npy(const std::string& path, const std::string& dtype, const std::vector<int64_t>& shape,
               std::span<const std::byte> bytes) {
  constexpr size_t kAlignment = 64;
  auto text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", dtype,
                          fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  text.append(kAlignment - (10 + text.size() + 1) % kAlignment, ' ');
  text += '\n';
  const auto length = static_cast<uint16_t>(text.size());
  std::string preamble(kMagic);
  preamble += {'\x01', '\x00', static_cast<char>(length & 0xFF), static_cast<char>(length >> 8)};
  AtomicFile file(path);
  file.write(preamble + text);
  file.write(bytes);
  file.commit();
}

}  // namespace fovea
