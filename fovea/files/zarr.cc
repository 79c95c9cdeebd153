#include "fovea/files/zarr.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/core/printable.h"
#include "fovea/files/decompress.h"

namespace fovea {
namespace {

constexpr uint64_t kMaxZarrayBytes = 1 << 20;
constexpr uint64_t kMaxUnwrittenBytes = uint64_t{1} << 30;
constexpr uint64_t kMaxZarrChunks = 1 << 20;  // each is a file
constexpr size_t kMaxZarrDims = 32;

struct ZarrKind {
  std::string_view code;  // of .zarray, without the byte order
  std::string_view npy;
  int64_t bytes;
};
constexpr std::array<ZarrKind, 10> kZarrKinds = {{{"f8", "<f8", 8},
                                                  {"f4", "<f4", 4},
                                                  {"f2", "<f2", 2},
                                                  {"bfloat16", "|V2", 2},
                                                  {"i8", "<i8", 8},
                                                  {"i4", "<i4", 4},
                                                  {"i2", "<i2", 2},
                                                  {"i1", "|i1", 1},
                                                  {"u1", "|u1", 1},
                                                  {"b1", "|b1", 1}}};

void read_zarr_dtype(const JsonValue& value, ZarrHeader& header) {
  const auto code = value.text();
  const bool has_order =
      !code.empty() && (code[0] == '<' || code[0] == '>' || code[0] == '|' || code[0] == '=');
  for (const auto& kind : kZarrKinds) {
    if (code.substr(has_order ? 1 : 0) != kind.code) continue;
    if (has_order == (kind.code == "bfloat16")) break;
    header.dtype = kind.npy;
    header.item_bytes = kind.bytes;
    header.is_swapped = code[0] == '>';
    return;
  }
  value.refuse(
      "floats, whole numbers with a sign, bytes or flags: <f8, <f4, <f2, bfloat16, <i8, <i4, <i2, "
      "|i1, |u1 or |b1");
}

std::vector<int64_t> zarr_sizes(const JsonValue& value) {
  const auto sizes = value.integers();
  if (sizes.size() > kMaxZarrDims) value.refuse("at most 32 dimensions");
  for (const auto size : sizes) {
    if (size < 1 || static_cast<uint64_t>(size) > kMaxZarrBytes)
      value.refuse(fmt::format("sizes from 1 to {}", kMaxZarrBytes));
  }
  return sizes;
}

// Throws DataError where so many items take more.
void check_zarr_bytes(const std::vector<int64_t>& sizes, int64_t item, uint64_t max_bytes,
                      const JsonValue& value) {
  auto bytes = static_cast<uint64_t>(item);
  for (const auto size : sizes) {
    if (static_cast<uint64_t>(size) > max_bytes / bytes)
      value.refuse(fmt::format("at most {} bytes", max_bytes));
    bytes *= static_cast<uint64_t>(size);
  }
}

template <class T>
std::vector<uint8_t> number_bytes(T number) {
  std::vector<uint8_t> bytes(sizeof(T));
  std::memcpy(bytes.data(), &number, sizeof(T));
  return bytes;
}

// A number as an item of `header`; of half precision and bfloat16 only zero is there.
std::vector<uint8_t> fill_item(double number, const ZarrHeader& header, const JsonValue& value) {
  if (number == 0) return std::vector<uint8_t>(static_cast<size_t>(header.item_bytes), 0);
  if (header.dtype == "<f8") return number_bytes(number);
  if (header.dtype == "<f4") return number_bytes(static_cast<float>(number));
  const bool is_integer = header.dtype[1] == 'i' || header.dtype[1] == 'u';
  if (is_integer && number == std::floor(number) && std::abs(number) < 9e15) {
    auto bytes = number_bytes(static_cast<int64_t>(number));
    bytes.resize(static_cast<size_t>(header.item_bytes));
    return bytes;
  }
  value.refuse("0 or null");
}

void read_zarr_fill(const JsonValue& root, ZarrHeader& header) {
  const auto value = root.find("fill_value");
  header.fill.assign(static_cast<size_t>(header.item_bytes), 0);
  if (!value || value->raw().is_null()) return;
  double number = 0;
  if (value->raw().is_string()) {
    const auto word = value->text();
    const bool is_float = header.dtype == "<f4" || header.dtype == "<f8";
    if (is_float && word == "NaN") {
      number = std::numeric_limits<double>::quiet_NaN();
    } else if (is_float && (word == "Infinity" || word == "-Infinity")) {
      number = std::numeric_limits<double>::infinity() * (word[0] == '-' ? -1 : 1);
    } else {
      value->refuse("a number, null, NaN, Infinity or -Infinity");
    }
  } else {
    number = value->raw().is_boolean() ? value->boolean() : value->number();
  }
  header.fill =
      header.dtype == "|b1" ? std::vector<uint8_t>{number != 0} : fill_item(number, header, *value);
}

void read_zarr_compressor(const JsonValue& root, ZarrHeader& header) {
  if (const auto filters = root.find("filters");
      filters && !filters->raw().is_null() && !filters->raw().empty())
    filters->refuse("no filters");
  const auto compressor = root.at("compressor");
  if (compressor.raw().is_null()) return;
  const auto id = compressor.at("id");
  header.compressor = id.text();
  if (header.compressor != "gzip" && header.compressor != "zlib" && header.compressor != "zstd")
    id.refuse("gzip, zlib, zstd or none; write the arrays again with one of these");
}

uint64_t product_of(const std::vector<int64_t>& sizes) {
  uint64_t count = 1;
  for (const auto size : sizes) count *= static_cast<uint64_t>(size);
  return count;
}

// The chunks of an array, one after the other, into the values.
class ZarrReader {
 public:
  ZarrReader(const std::string& folder, const ZarrHeader& header)
      : folder_(folder), header_(header), dims_(header.shape.size()) {
    for (size_t d = 0; d < dims_; ++d)
      grid_.push_back((header.shape[d] + header.chunks[d] - 1) / header.chunks[d]);
    chunk_bytes_ = product_of(header.chunks) * static_cast<uint64_t>(header.item_bytes);
  }

  NpyArray read() {
    NpyArray array{header_.dtype, header_.shape, {}};
    const auto bytes = product_of(header_.shape) * static_cast<uint64_t>(header_.item_bytes);
    check_missing(bytes);
    array.bytes.resize(bytes);
    std::vector<int64_t> at(dims_, 0);
    do {
      read_chunk(at, array.bytes);
    } while (next(at, grid_));
    if (header_.is_swapped) swap(array.bytes);
    return array;
  }

 private:
  std::string file_of(const std::vector<int64_t>& at) const {
    if (dims_ == 0) return folder_ + "/0";
    return fmt::format("{}/{}", folder_, fmt::join(at, std::string(1, header_.separator)));
  }

  // The next index of a grid of such sizes, the last one fastest; false: it was the last.
  static bool next(std::vector<int64_t>& at, const std::vector<int64_t>& sizes) {
    for (size_t d = at.size(); d-- > 0;) {
      if (++at[d] < sizes[d]) return true;
      at[d] = 0;
    }
    return false;
  }

  // A few bytes of JSON must not make a machine's memory full.
  void check_missing(uint64_t bytes) const {
    uint64_t missing = 0;
    std::vector<int64_t> at(dims_, 0);
    do {
      if (!is_there(file_of(at))) missing += chunk_bytes_;
    } while (next(at, grid_));
    missing = std::min(missing, bytes);
    if (missing <= kMaxUnwrittenBytes) return;
    fail<DataError>("{}: {} of its {} bytes have no chunk; expected its files, such as {}",
                    printable(folder_), missing, bytes,
                    file_of(std::vector<int64_t>(dims_, 0)).substr(folder_.size() + 1));
  }

  void read_chunk(const std::vector<int64_t>& at, std::vector<std::byte>& values) const {
    const auto file = file_of(at);
    std::string chunk;
    if (is_there(file)) {
      chunk = decompressed(read_file(file, kMaxZarrBytes), printable(file));
    } else {
      chunk.resize(chunk_bytes_);
      for (size_t i = 0; i < chunk.size(); ++i)
        chunk[i] = static_cast<char>(header_.fill[i % header_.fill.size()]);
      // As it would stand in a file.
      if (header_.is_swapped) swap(std::as_writable_bytes(std::span(chunk)));
    }
    place(at, chunk, values);
  }

  std::string decompressed(std::string bytes, const std::string& what) const {
    if (header_.compressor == "zstd") return unzstd_all(bytes, chunk_bytes_, what);
    if (!header_.compressor.empty())
      return inflate_all(bytes, chunk_bytes_, DeflateKind::kHeader, what);
    if (bytes.size() != chunk_bytes_) {
      fail<DataError>("{}: {} bytes, but a chunk of the array has {}; the file is truncated", what,
                      bytes.size(), chunk_bytes_);
    }
    return bytes;
  }

  // The part of a chunk that lies within the array.
  void place(const std::vector<int64_t>& at, const std::string& chunk,
             std::vector<std::byte>& values) const {
    const auto item = header_.item_bytes;
    std::vector<int64_t> sizes(dims_), from(dims_), to(dims_);
    int64_t from_step = item, to_step = item;
    for (size_t i = 0; i < dims_; ++i) {
      const auto d = dims_ - 1 - i;  // C order: the last index runs fastest
      const auto c = header_.is_fortran ? i : d;
      sizes[d] = std::min(header_.chunks[d], header_.shape[d] - at[d] * header_.chunks[d]);
      from[c] = from_step;
      to[d] = to_step;
      from_step *= header_.chunks[c];
      to_step *= header_.shape[d];
    }
    // Whole rows where the last index runs fastest in the chunk too.
    const bool has_rows = dims_ > 0 && from[dims_ - 1] == item;
    const auto row = has_rows ? sizes.back() * item : item;
    if (has_rows) sizes.back() = 1;
    std::vector<int64_t> index(dims_, 0);
    do {
      int64_t source = 0, target = 0;
      for (size_t d = 0; d < dims_; ++d) {
        source += index[d] * from[d];
        target += (at[d] * header_.chunks[d] + index[d]) * to[d];
      }
      std::memcpy(values.data() + target, chunk.data() + source, static_cast<size_t>(row));
    } while (next(index, sizes));
  }

  void swap(std::span<std::byte> bytes) const {
    const auto item = static_cast<size_t>(header_.item_bytes);
    for (size_t i = 0; i + item <= bytes.size(); i += item)
      std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(i),
                   bytes.begin() + static_cast<std::ptrdiff_t>(i + item));
  }

  const std::string& folder_;
  const ZarrHeader& header_;
  size_t dims_;
  std::vector<int64_t> grid_;
  uint64_t chunk_bytes_ = 0;
};

}  // namespace

ZarrHeader parse_zarr_header(const std::string& text, const std::string& source,
                             uint64_t max_bytes) {
  const auto json = parse_json(text, source, 16, RepeatedNames::kRefused);
  const JsonValue root(json, source);
  if (root.at("zarr_format").integer() != 2) root.at("zarr_format").refuse("format 2 of zarr");
  ZarrHeader header;
  read_zarr_dtype(root.at("dtype"), header);
  const auto shape = root.at("shape"), chunks = root.at("chunks");
  header.shape = zarr_sizes(shape);
  header.chunks = zarr_sizes(chunks);
  if (header.chunks.size() != header.shape.size())
    chunks.refuse(fmt::format("{} numbers, as many as in shape", header.shape.size()));
  check_zarr_bytes(header.shape, header.item_bytes, max_bytes, shape);
  check_zarr_bytes(header.chunks, header.item_bytes, max_bytes, chunks);
  uint64_t count = 1;
  for (size_t d = 0; d < header.shape.size(); ++d) {
    const auto parts =
        static_cast<uint64_t>((header.shape[d] + header.chunks[d] - 1) / header.chunks[d]);
    if (parts > kMaxZarrChunks / count)
      chunks.refuse(fmt::format("at most {} chunks", kMaxZarrChunks));
    count *= parts;
  }
  const auto order = root.at("order");
  if (order.text() != "C" && order.text() != "F") order.refuse("C or F");
  header.is_fortran = order.text() == "F";
  std::string separator = ".";
  root.read("dimension_separator", separator);
  if (separator != "." && separator != "/") root.at("dimension_separator").refuse("\".\" or \"/\"");
  header.separator = separator[0];
  read_zarr_compressor(root, header);
  read_zarr_fill(root, header);
  return header;
}

ZarrHeader read_zarr_header(const std::string& folder, uint64_t max_bytes) {
  const auto file = folder + "/.zarray";
  if (!is_there(file) && is_there(folder + "/zarr.json")) {
    fail<DataError>("{}/zarr.json: an array of zarr's format 3; expected format 2, .zarray",
                    printable(folder));
  }
  return parse_zarr_header(read_file(file, kMaxZarrayBytes), printable(file), max_bytes);
}

NpyArray read_zarr(const std::string& folder, const ZarrHeader& header) {
  return ZarrReader(folder, header).read();
}

}  // namespace fovea
