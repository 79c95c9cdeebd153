#include "fovea/data/archive/tar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "fovea/core/error.h"
#include "fovea/core/parse_number.h"
#include "fovea/files/file_endings.h"

namespace fovea::data {
namespace {

using TarBlock = std::array<uint8_t, kTarBlock>;

constexpr uint64_t kMaxNameBytes = 1 << 16;
constexpr uint64_t kMaxPaxBytes = 1 << 20;
constexpr uint64_t kMaxPadding = 1 << 20;  // zeros after the end: archives end on a record of tapes
constexpr uint64_t kMaxEntryBytes = uint64_t{1} << 62;

// Text of a header's field: up to its first zero byte.
std::string_view text_of(std::span<const uint8_t> block, size_t offset, size_t size) {
  const auto* first = reinterpret_cast<const char*>(block.data()) + offset;
  return {first, static_cast<size_t>(std::find(first, first + size, '\0') - first)};
}

// Octal digits, with spaces or zero bytes around them; or GNU's base 256, big-endian, where the
// first bit is set. Nothing: neither, or a negative number.
std::optional<uint64_t> number_of(std::span<const uint8_t> block, size_t offset, size_t size) {
  const auto field = block.subspan(offset, size);
  uint64_t value = 0;
  if (field[0] & 0x80) {
    if (field[0] != 0x80) return std::nullopt;
    for (const uint8_t byte : field.subspan(1)) {
      if (value >> 56 != 0) return std::nullopt;
      value = value << 8 | byte;
    }
    return value;
  }
  size_t i = 0;
  while (i < size && field[i] == ' ') ++i;
  const size_t first = i;
  for (; i < size && field[i] >= '0' && field[i] <= '7'; ++i) {
    if (value >> 60 != 0) return std::nullopt;
    value = value << 3 | static_cast<uint64_t>(field[i] - '0');
  }
  const bool is_ended = std::all_of(field.begin() + static_cast<ptrdiff_t>(i), field.end(),
                                    [](uint8_t byte) { return byte == ' ' || byte == 0; });
  const bool is_blank = i == first && is_ended;  // some writers leave unused fields empty
  return (i > first && is_ended) || is_blank ? std::optional(value) : std::nullopt;
}

bool is_zero(std::span<const uint8_t> block) {
  return std::all_of(block.begin(), block.end(), [](uint8_t byte) { return byte == 0; });
}

// The sum of the header's bytes, its own field counted as spaces. Old writers added signed bytes.
bool has_checksum(std::span<const uint8_t> block) {
  constexpr size_t kField = 148, kSize = 8;
  uint64_t plain = 0;
  int64_t with_signs = 0;
  for (size_t i = 0; i < block.size(); ++i) {
    const uint8_t byte = i >= kField && i < kField + kSize ? ' ' : block[i];
    plain += byte;
    with_signs += static_cast<int8_t>(byte);
  }
  const auto stored = number_of(block, kField, kSize);
  return stored && (*stored == plain || static_cast<int64_t>(*stored) == with_signs);
}

// ustar splits long names into a prefix and a name; GNU's and older archives use that place
// otherwise.
std::string name_of(std::span<const uint8_t> block) {
  const std::string name(text_of(block, 0, 100));
  const bool is_ustar = text_of(block, 257, 6) == "ustar" && block[262] == 0;
  const auto prefix = is_ustar ? text_of(block, 345, 155) : std::string_view();
  return prefix.empty() ? name : std::string(prefix) + "/" + name;
}

std::optional<TarKind> kind_of(char type) {
  switch (type) {
    case '\0':
    case '0':
    case '7':
      return TarKind::kFile;
    case '5':
      return TarKind::kFolder;
    case '1':
    case '2':
      return TarKind::kLink;
    case '3':
    case '4':
    case '6':
      return TarKind::kDevice;
    default:
      return std::nullopt;
  }
}

// Without "." parts and doubled slashes. Nothing: absolute, empty, with ".." or a zero byte.
std::optional<std::string> safe_name(std::string_view name) {
  if (name.empty() || name[0] == '/' || name.find('\0') != std::string_view::npos) {
    return std::nullopt;
  }
  std::string result;
  while (!name.empty()) {
    const size_t slash = std::min(name.find('/'), name.size());
    const auto part = name.substr(0, slash);
    name.remove_prefix(std::min(slash + 1, name.size()));
    if (part == "..") return std::nullopt;
    if (part.empty() || part == ".") continue;
    if (!result.empty()) result += '/';
    result += part;
  }
  return result.empty() ? "." : result;
}

}  // namespace

// What records in front of an entry say about it.
struct TarReader::Extension {
  std::optional<std::string> name;
  std::optional<uint64_t> size;
};

void TarReader::fail_at(uint64_t offset, const std::string& message) const {
  fail<DataError>("{}: byte {}: {}", source_.name(), offset, message);
}

// `offset`: after the block of zeros that ends the archive.
void TarReader::check_end(uint64_t offset) const {
  if (source_.size() - offset > kMaxPadding) {
    fail_at(offset,
            "the archive ends here, but the file goes on; archives that are joined are not "
            "read: list them one by one");
  }
  std::vector<uint8_t> rest(source_.size() - offset);
  source_.read(offset, rest);
  if (!is_zero(rest)) {
    fail_at(offset,
            "bytes after the end of the archive; archives that are joined are not read: "
            "list them one by one");
  }
}

std::string TarReader::read_text(uint64_t offset, uint64_t size, uint64_t max_bytes) const {
  if (size > max_bytes) {
    fail_at(offset, fmt::format("a record of {} bytes; expected at most {}", size, max_bytes));
  }
  std::string text(size, '\0');
  source_.read(offset, {reinterpret_cast<uint8_t*>(text.data()), text.size()});
  return text;
}

// pax: lines of "LENGTH KEY=VALUE\n", LENGTH counting the whole line.
void TarReader::read_extension(char type, uint64_t header, uint64_t size,
                               Extension& extension) const {
  const uint64_t offset = header + kTarBlock;
  if (type == 'L' || type == 'K') {
    std::string text = read_text(offset, size, kMaxNameBytes);
    if (type == 'L') extension.name = text.substr(0, text.find('\0'));
    return;
  }
  const std::string text = read_text(offset, size, kMaxPaxBytes);
  std::string_view rest = text;
  while (!rest.empty()) {
    size_t length = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), length);
    const size_t digits = static_cast<size_t>(end - rest.data());
    if (error != std::errc() || length > rest.size() || length < digits + 3 ||
        rest[digits] != ' ' || rest[length - 1] != '\n') {
      fail_at(header, "a pax record that is not \"LENGTH KEY=VALUE\"; write the archive again");
    }
    const auto line = rest.substr(digits + 1, length - digits - 2);
    rest.remove_prefix(length);
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) fail_at(header, "a pax record without \"=\"");
    const auto key = line.substr(0, equals), value = line.substr(equals + 1);
    if (key.starts_with("GNU.sparse.")) fail_at(header, "a sparse file; write it whole");
    if (key != "path" && key != "size") continue;
    if (type == 'g') fail_at(header, "a global pax record that renames or resizes every file");
    if (key == "path") {
      extension.name = std::string(value);
    } else {
      extension.size = parse_number<uint64_t>(value);
      if (!extension.size) {
        fail_at(header, fmt::format("pax size \"{}\"; expected a number", printable(value)));
      }
    }
  }
}

std::optional<TarEntry> TarReader::next() {
  Extension extension;
  while (!is_done_) {
    const uint64_t header = offset_;
    if (source_.size() - header < kTarBlock) {
      fail_at(header, "the archive has no end: it is truncated; fetch or write it again");
    }
    TarBlock block;
    source_.read(header, block);
    if (is_zero(block)) {
      is_done_ = true;
      check_end(header + kTarBlock);
      if (extension.name || extension.size) fail_at(header, "the archive ends within an entry");
      return std::nullopt;
    }
    if (!has_checksum(block)) {
      fail_at(header, header == 0 ? "not a tar archive (or compressed: unpack it first)"
                                  : "no tar header: its checksum is wrong; the archive is damaged");
    }
    const char type = static_cast<char>(block[156]);
    const bool is_extension = type == 'x' || type == 'g' || type == 'L' || type == 'K';
    const auto stored = number_of(block, 124, 12);
    if (!stored) fail_at(header, "the size of an entry is no number; the archive is damaged");
    const auto kind = kind_of(type);
    uint64_t size = !is_extension && extension.size ? *extension.size : *stored;
    // Links may announce the size of what they lead to; nothing of it follows.
    if (kind && *kind != TarKind::kFile) size = 0;
    const uint64_t left = source_.size() - header - kTarBlock;
    if (size > std::min(left, kMaxEntryBytes)) {
      const std::string name = printable(extension.name.value_or(name_of(block)));
      fail_at(header, fmt::format("\"{}\" has {} bytes, but only {} follow: the archive is "
                                  "truncated; fetch or write it again",
                                  name, size, left));
    }
    offset_ = header + kTarBlock + std::min(left, (size + kTarBlock - 1) / kTarBlock * kTarBlock);
    if (is_extension) {
      read_extension(type, header, size, extension);
      continue;
    }
    if (type == 'V') continue;  // the label of a tape
    const std::string raw = extension.name.value_or(name_of(block));
    if (!kind) {
      fail_at(header, fmt::format("\"{}\" is an entry of type {}; expected files and folders",
                                  printable(raw), printable(std::string(1, type))));
    }
    const auto name = safe_name(raw);
    if (!name) {
      fail_at(header,
              fmt::format("the name \"{}\" leads out of the archive's folder; such archives "
                          "are refused",
                          printable(raw)));
    }
    const bool is_old_folder = type == '\0' && raw.ends_with('/');
    return TarEntry{*name, header + kTarBlock, size, is_old_folder ? TarKind::kFolder : *kind};
  }
  return std::nullopt;
}

std::optional<TarEntry> TarReader::next_file() {
  while (auto entry = next()) {
    if (entry->kind == TarKind::kFile) return entry;
    if (entry->kind == TarKind::kFolder) continue;
    if (num_skipped_++ == 0) first_skipped_ = entry->name;
  }
  return std::nullopt;
}

bool is_tar_header_of(std::span<const uint8_t> block, uint64_t size) {
  return block.size() == kTarBlock && has_checksum(block) && number_of(block, 124, 12) == size;
}

}  // namespace fovea::data
