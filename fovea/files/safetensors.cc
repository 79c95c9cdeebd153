#include "fovea/files/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/core/printable.h"
#include "fovea/core/utf8.h"
#include "fovea/files/atomic_file.h"

// Note [Safetensors checks]. Before a byte is allocated for it, the header's length is held against
// the format's cap and the size of the file. The JSON may nest no deeper than the format does, and
// no name may come twice (parsers disagree on which one counts). Every shape times its dtype must
// be the length of its byte range, without overflow; the ranges must cover the data from end to
// end, without gap or overlap.
namespace fovea {
namespace {

using nlohmann::json;

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

std::vector<int64_t> read_shape(const json& value, const std::string& source,
                                const std::string& name) {
  if (!value.is_array() || value.size() > 64)
    fail<DataError>("{}: {}: shape is not a list of sizes", source, printable_start(name));
  std::vector<int64_t> shape;
  for (const auto& size : value) {
    if (!size.is_number_unsigned() || size.get<uint64_t>() > uint64_t{INT64_MAX}) {
      fail<DataError>("{}: {}: shape holds {}, expected whole numbers from 0", source,
                      printable_start(name), printable_start(json_text(size)));
    }
    shape.push_back(size.get<int64_t>());
  }
  return shape;
}

// 0: no dtype of the format.
int64_t bytes_of_dtype(std::string_view dtype) {
  for (const auto& [name, bytes] : kDtypes) {
    if (name == dtype) return bytes;
  }
  return 0;
}

uint64_t checked_bytes(const SafetensorsEntry& entry, const std::string& source) {
  uint64_t bytes = static_cast<uint64_t>(bytes_of_dtype(entry.dtype));
  if (bytes == 0) {
    fail<DataError>("{}: {}: dtype '{}' is none of safetensors", source,
                    printable_start(entry.name), printable_start(entry.dtype));
  }
  for (const int64_t size : entry.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) {
      fail<DataError>("{}: {}: the product of its shape overflows", source,
                      printable_start(entry.name));
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
  if (!is_pair)
    fail<DataError>("{}: {}: data_offsets is not a pair of offsets", source, printable_start(name));
  const Range range{offsets[0].get<uint64_t>(), offsets[1].get<uint64_t>()};
  if (range.begin > range.end || range.end > data_bytes) {
    fail<DataError>("{}: {}: bytes {} to {} of {} there are; the file is truncated or damaged",
                    source, printable_start(name), range.begin, range.end, data_bytes);
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
                    printable_start(name));
  }
  SafetensorsEntry entry{name,
                         tensor.at("dtype").get<std::string>(),
                         read_shape(tensor.at("shape"), source, name),
                         {}};
  const auto range = read_range(tensor, data_bytes, source, name);
  const uint64_t expected = checked_bytes(entry, source);
  if (range.end - range.begin != expected) {
    fail<DataError>("{}: {}: {} bytes in the file, but its shape and dtype need {}", source,
                    printable_start(name), range.end - range.begin, expected);
  }
  return {std::move(entry), range.begin};
}

std::map<std::string, std::string> read_metadata(const json& value, const std::string& source) {
  if (!value.is_object()) fail<DataError>("{}: __metadata__ is not an object of strings", source);
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string())
      fail<DataError>("{}: __metadata__.{} is not a string", source, printable_start(key));
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
          source, printable_start(entry.name), offset, next);
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

}  // namespace

int64_t safetensors_element_bytes(std::string_view dtype) {
  if (const auto bytes = bytes_of_dtype(dtype); bytes > 0) return bytes;
  fail<DataError>("safetensors dtype '{}' is unknown", printable_start(dtype));
}

SafetensorsHeader parse_safetensors_header(std::string_view text, uint64_t data_bytes,
                                           const std::string& source) {
  const auto root = parse_json(text, source + ": the header", kMaxDepth, RepeatedNames::kRefused);
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
  SafetensorsFile file;
  file.mapping_ = std::make_shared<const MappedFile>(path);
  const auto& mapping = *file.mapping_;
  const auto& source = mapping.name();
  uint64_t header_bytes = 0;
  if (mapping.size() < sizeof(header_bytes))
    fail<DataError>("{}: {} bytes are no safetensors file", source, mapping.size());
  const MappedReads reads;
  std::memcpy(&header_bytes, mapping.ready(0, sizeof(header_bytes)).data(), sizeof(header_bytes));
  const uint64_t rest = mapping.size() - sizeof(header_bytes);
  if (header_bytes > kMaxSafetensorsHeader || header_bytes > rest) {
    fail<DataError>(
        "{}: a header of {} bytes in a file of {}; it is truncated, or no safetensors file", source,
        header_bytes, mapping.size());
  }
  const auto text = mapping.ready(sizeof(header_bytes), header_bytes);
  auto header = parse_safetensors_header({reinterpret_cast<const char*>(text.data()), text.size()},
                                         rest - header_bytes, source);
  reads.check([&] { return source; });
  file.metadata_ = std::move(header.metadata);
  file.entries_ = std::move(header.entries);
  const auto data = std::as_bytes(mapping.bytes()).subspan(sizeof(header_bytes) + header_bytes);
  for (size_t i = 0; i < file.entries_.size(); ++i) {
    auto& entry = file.entries_[i];
    entry.bytes = data.subspan(header.offsets[i], checked_bytes(entry, source));
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
  std::string text;
  // One after the other, for an object that keeps an order looks through all its members each time.
  const auto add = [&](const std::string& name, const nlohmann::ordered_json& value) {
    text +=
        fmt::format("{}{}:{}", text.empty() ? '{' : ',', json_text(json(name)), json_text(value));
  };
  if (!metadata.empty()) add("__metadata__", metadata);
  std::set<std::string_view> names;
  uint64_t offset = 0;
  for (const auto& entry : entries) {
    if (!is_utf8(entry.name)) {
      fail<DataError>(
          "'{}': a name that is not UTF-8 text, which a safetensors file cannot hold; rename the "
          "tensor",
          printable_start(entry.name));
    }
    FOVEA_CHECK(checked_bytes(entry, "write_safetensors") == entry.bytes.size() &&
                    names.insert(entry.name).second,
                "write_safetensors: tensor '{}' of {} bytes does not fit its shape, or comes twice",
                printable_start(entry.name), entry.bytes.size());
    add(entry.name, {{"dtype", entry.dtype},
                     {"shape", entry.shape},
                     {"data_offsets", {offset, offset + entry.bytes.size()}}});
    offset += entry.bytes.size();
  }
  text += text.empty() ? "{}" : "}";
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  const uint64_t length = text.size();
  std::string preamble(sizeof(length), '\0');
  std::memcpy(preamble.data(), &length, sizeof(length));
  return preamble + text;
}

void write_safetensors(const std::string& path, std::span<const SafetensorsEntry> entries,
                       const std::map<std::string, std::string>& metadata,
                       const std::function<void()>& before_commit) {
  try {
    AtomicFile file(path);
    file.write(safetensors_preamble(entries, metadata));
    for (const auto& entry : entries) file.write(entry.bytes);
    if (before_commit) before_commit();
    file.commit();
  } catch (const Error& error) {
    throw CheckpointError(error.what());
  }
}

}  // namespace fovea
