#include "fovea/core/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "fovea/core/atomic_file.h"
#include "fovea/core/error.h"

// Note [Safetensors checks]. Before a byte is allocated for it, the header's length is held against
// the format's cap and the size of the file. The JSON may nest no deeper than the format does, and
// no name may come twice (parsers disagree on which one counts). Every shape times its dtype must
// be the length of its byte range, without overflow; the ranges must cover the data from end to
// end, without gap or overlap.
namespace fovea {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own cap
constexpr size_t kMaxNameBytes = 4096;
constexpr int kMaxDepth = 4;  // {tensor: {shape: [ ... ]}}
constexpr uint64_t kAlignment = 8;

constexpr std::array<std::pair<std::string_view, int64_t>, 15> kDtypes = {{{"F64", 8},
                                                                           {"F32", 4},
                                                                           {"F16", 2},
                                                                           {"BF16", 2},
                                                                           {"I64", 8},
                                                                           {"I32", 4},
                                                                           {"I16", 2},
                                                                           {"I8", 1},
                                                                           {"U64", 8},
                                                                           {"U32", 4},
                                                                           {"U16", 2},
                                                                           {"U8", 1},
                                                                           {"BOOL", 1},
                                                                           {"F8_E4M3", 1},
                                                                           {"F8_E5M2", 1}}};

// Builds the JSON with a callback that refuses depth and repeated keys, which the parser alone lets
// pass.
json parse_strictly(std::string_view text, const std::string& source) {
  std::vector<std::set<std::string>> keys;
  const json::parser_callback_t check = [&](int depth, json::parse_event_t event, json& value) {
    if (depth > kMaxDepth)
      fail<DataError>("{}: the header nests deeper than {} levels", source, kMaxDepth);
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second) {
      fail<DataError>("{}: the header names '{}' twice", source, value.get<std::string>());
    }
    return true;
  };
  try {
    return json::parse(text, check);
  } catch (const json::exception& error) {
    fail<DataError>("{}: the header is not JSON ({}); expected a safetensors file", source,
                    error.what());
  }
}

std::vector<int64_t> read_shape(const json& value, const std::string& source,
                                const std::string& name) {
  if (!value.is_array() || value.size() > 64)
    fail<DataError>("{}: {}: shape is not a list of sizes", source, name);
  std::vector<int64_t> shape;
  for (const auto& size : value) {
    if (!size.is_number_unsigned() || size.get<uint64_t>() > uint64_t{INT64_MAX}) {
      fail<DataError>("{}: {}: shape holds {}, expected whole numbers from 0", source, name,
                      size.dump());
    }
    shape.push_back(size.get<int64_t>());
  }
  return shape;
}

uint64_t checked_bytes(const SafetensorsEntry& entry, const std::string& source) {
  uint64_t bytes = static_cast<uint64_t>(safetensors_element_bytes(entry.dtype));
  for (const int64_t size : entry.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) {
      fail<DataError>("{}: {}: the product of its shape overflows", source, entry.name);
    }
  }
  return bytes;
}

struct Range {
  uint64_t begin, end;
};

Range read_range(const json& tensor, uint64_t data_bytes, const std::string& source,
                 const std::string& name) {
  const auto& offsets = tensor.at("data_offsets");
  const bool is_pair = offsets.is_array() && offsets.size() == 2 &&
                       offsets[0].is_number_unsigned() && offsets[1].is_number_unsigned();
  if (!is_pair) fail<DataError>("{}: {}: data_offsets is not a pair of offsets", source, name);
  const Range range{offsets[0].get<uint64_t>(), offsets[1].get<uint64_t>()};
  if (range.begin > range.end || range.end > data_bytes) {
    fail<DataError>("{}: {}: bytes {} to {} of {} there are; the file is truncated or damaged",
                    source, name, range.begin, range.end, data_bytes);
  }
  return range;
}

std::pair<SafetensorsEntry, uint64_t> read_entry(const std::string& name, const json& tensor,
                                                 uint64_t data_bytes, const std::string& source) {
  if (name.empty() || name.size() > kMaxNameBytes) {
    fail<DataError>("{}: a tensor's name has {} bytes; expected 1 to {}", source, name.size(),
                    kMaxNameBytes);
  }
  if (!tensor.is_object() || tensor.size() != 3 || !tensor.contains("dtype") ||
      !tensor.contains("shape") || !tensor.contains("data_offsets") ||
      !tensor.at("dtype").is_string()) {
    fail<DataError>("{}: {}: expected dtype, shape and data_offsets, and nothing else", source,
                    name);
  }
  SafetensorsEntry entry{name,
                         tensor.at("dtype").get<std::string>(),
                         read_shape(tensor.at("shape"), source, name),
                         {}};
  const auto range = read_range(tensor, data_bytes, source, name);
  const uint64_t expected = checked_bytes(entry, source);
  if (range.end - range.begin != expected) {
    fail<DataError>("{}: {}: {} bytes in the file, but its shape and dtype need {}", source, name,
                    range.end - range.begin, expected);
  }
  return {std::move(entry), range.begin};
}

std::map<std::string, std::string> read_metadata(const json& value, const std::string& source) {
  if (!value.is_object()) fail<DataError>("{}: __metadata__ is not an object of strings", source);
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) fail<DataError>("{}: __metadata__.{} is not a string", source, key);
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

// Entries in the order of their bytes, which must be covered from end to end.
void sort_and_check_cover(SafetensorsHeader& header,
                          std::vector<std::pair<SafetensorsEntry, uint64_t>> found,
                          uint64_t data_bytes, const std::string& source) {
  std::stable_sort(found.begin(), found.end(), [&](const auto& a, const auto& b) {
    return std::pair(a.second, checked_bytes(a.first, source)) <
           std::pair(b.second, checked_bytes(b.first, source));
  });
  uint64_t next = 0;
  for (auto& [entry, offset] : found) {
    if (offset != next) {
      fail<DataError>(
          "{}: {}: starts at byte {}, where {} is expected; the tensors leave a gap or overlap",
          source, entry.name, offset, next);
    }
    next += checked_bytes(entry, source);
    header.offsets.push_back(offset);
    header.entries.push_back(std::move(entry));
  }
  if (next != data_bytes) {
    fail<DataError>(
        "{}: {} bytes of tensors, but the header describes {}; the file is truncated or damaged",
        source, data_bytes, next);
  }
}

// A read-only mapping of a whole file.
struct Mapping {
  const std::byte* data = nullptr;
  uint64_t size = 0;
  std::shared_ptr<const void> owner;
};

Mapping map_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) fail<DataError>("{}: cannot be opened: {}", path, std::strerror(errno));
  struct stat status {};
  const bool is_file = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  const auto size = static_cast<uint64_t>(is_file ? status.st_size : 0);
  void* data =
      is_file && size > 0 ? mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
  close(file);
  if (!is_file) fail<DataError>("{}: not a file; expected a safetensors file", path);
  if (size == 0) fail<DataError>("{}: the file is empty; expected a safetensors file", path);
  if (data == MAP_FAILED)
    fail<DataError>("{}: cannot be mapped into memory: {}", path, std::strerror(errno));
  return {static_cast<const std::byte*>(data), size,
          std::shared_ptr<const void>(
              data, [size](const void* start) { munmap(const_cast<void*>(start), size); })};
}

}  // namespace

int64_t safetensors_element_bytes(std::string_view dtype) {
  for (const auto& [name, bytes] : kDtypes) {
    if (name == dtype) return bytes;
  }
  fail<DataError>("safetensors dtype '{}' is unknown", dtype);
}

SafetensorsHeader parse_safetensors_header(std::string_view text, uint64_t data_bytes,
                                           const std::string& source) {
  const auto root = parse_strictly(text, source);
  if (!root.is_object())
    fail<DataError>("{}: the header is not a JSON object; expected a safetensors file", source);
  SafetensorsHeader header;
  std::vector<std::pair<SafetensorsEntry, uint64_t>> found;
  for (const auto& [name, value] : root.items()) {
    if (name == "__metadata__") {
      header.metadata = read_metadata(value, source);
    } else {
      found.push_back(read_entry(name, value, data_bytes, source));
    }
  }
  sort_and_check_cover(header, std::move(found), data_bytes, source);
  return header;
}

SafetensorsFile SafetensorsFile::open(const std::string& path) {
  const auto mapping = map_file(path);
  uint64_t header_bytes = 0;
  if (mapping.size < sizeof(header_bytes))
    fail<DataError>("{}: {} bytes are no safetensors file", path, mapping.size);
  std::memcpy(&header_bytes, mapping.data, sizeof(header_bytes));
  if (header_bytes > kMaxHeaderBytes || header_bytes > mapping.size - sizeof(header_bytes)) {
    fail<DataError>(
        "{}: a header of {} bytes in a file of {}; it is truncated, or no safetensors file", path,
        header_bytes, mapping.size);
  }
  const auto* text = reinterpret_cast<const char*>(mapping.data + sizeof(header_bytes));
  const auto* data = mapping.data + sizeof(header_bytes) + header_bytes;
  const uint64_t data_bytes = mapping.size - sizeof(header_bytes) - header_bytes;
  auto header = parse_safetensors_header({text, header_bytes}, data_bytes, path);
  SafetensorsFile file;
  file.mapping_ = mapping.owner;
  file.metadata_ = std::move(header.metadata);
  file.entries_ = std::move(header.entries);
  for (size_t i = 0; i < file.entries_.size(); ++i) {
    auto& entry = file.entries_[i];
    entry.bytes = {data + header.offsets[i], checked_bytes(entry, path)};
    file.by_name_[entry.name] = i;
  }
  return file;
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

std::string safetensors_preamble(std::span<const SafetensorsEntry> entries,
                                 const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (const auto& entry : entries) {
    FOVEA_CHECK(checked_bytes(entry, "write_safetensors") == entry.bytes.size() &&
                    !header.contains(entry.name),
                "write_safetensors: tensor '{}' of {} bytes does not fit its shape, or comes twice",
                entry.name, entry.bytes.size());
    header[entry.name] = {{"dtype", entry.dtype},
                          {"shape", entry.shape},
                          {"data_offsets", {offset, offset + entry.bytes.size()}}};
    offset += entry.bytes.size();
  }
  auto text = header.dump();
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  const uint64_t length = text.size();
  std::string preamble(sizeof(length), '\0');
  std::memcpy(preamble.data(), &length, sizeof(length));
  return preamble + text;
}

void write_safetensors(const std::string& path, std::span<const SafetensorsEntry> entries,
                       const std::map<std::string, std::string>& metadata) {
  try {
    AtomicFile file(path);
    file.write(safetensors_preamble(entries, metadata));
    for (const auto& entry : entries) file.write(entry.bytes);
    file.commit();
  } catch (const Error& error) {
    throw CheckpointError(error.what());
  }
}

}  // namespace fovea
