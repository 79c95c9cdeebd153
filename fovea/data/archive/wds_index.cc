#include "fovea/data/archive/wds_index.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "fovea/core/error.h"
#include "fovea/core/log.h"
#include "fovea/core/parse_number.h"
#include "fovea/core/text.h"
#include "fovea/data/archive/tar.h"
#include "fovea/data/labels.h"
#include "fovea/files/file_endings.h"
#include "fovea/files/unread_files.h"

namespace fovea::data {
namespace {

constexpr size_t kMaxEndings = 256;  // each is looked up among the others for every file

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

bool has_space(std::string_view text) {
  return text.find_first_of(" \t\r\n\v\f") != std::string_view::npos;
}

// Below a folder such as __meta__, or so named itself: webdataset's readers pass it over.
bool is_metadata_name(std::string_view path) {
  const auto top = path.substr(0, path.find('/'));
  return top.size() >= 4 && top.starts_with("__") && top.ends_with("__");
}

std::optional<uint64_t> number_of(std::string_view word) { return parse_number<uint64_t>(word); }

struct IndexParser {
  const std::string& name;
  uint64_t tar_size;
  bool has_names = false;
  WdsIndex index = {};

  void read_line(std::string_view line, size_t number) {
    bool is_new_sample = true;
    for (auto ending = take_word(line); !ending.empty(); ending = take_word(line)) {
      const auto offset = number_of(take_word(line)), size = number_of(take_word(line));
      if (!offset || !size) {
        fail<DataError>(
            "{}:{}: expected ENDING OFFSET SIZE{} for each file of the sample; make the "
            "index again (fovea data index)",
            name, number, has_names ? " NAME" : "");
      }
      if (*offset % kTarBlock != 0 || *offset < kTarBlock || *offset > tar_size ||
          *size > tar_size - *offset) {
        fail<DataError>(
            "{}:{}: {} bytes from byte {} do not lie in the tar of {} bytes; the index "
            "is of another file: make it again (fovea data index)",
            name, number, *size, *offset, tar_size);
      }
      std::string_view key;
      if (has_names) {
        const auto split = split_wds_name(take_word(line));
        if (!split) fail<DataError>("{}:{}: a name without key and ending", name, number);
        key = split->first;
      }
      index.add(is_new_sample, key, ending, *offset, *size);
      is_new_sample = false;
    }
    if (is_new_sample) fail<DataError>("{}:{}: a sample without files", name, number);
  }
};

}  // namespace

std::string_view WdsIndex::key(int64_t sample) const {
  if (key_ends.empty()) return {};
  const uint32_t first = sample == 0 ? 0 : key_ends[static_cast<size_t>(sample) - 1];
  return std::string_view(keys).substr(first, key_ends[static_cast<size_t>(sample)] - first);
}

std::pair<uint32_t, uint32_t> WdsIndex::range(int64_t sample) const {
  return {sample == 0 ? 0 : ends[static_cast<size_t>(sample) - 1],
          ends[static_cast<size_t>(sample)]};
}

std::optional<uint32_t> WdsIndex::find(int64_t sample, std::string_view ending) const {
  const auto [first, last] = range(sample);
  for (uint32_t i = first; i < last; ++i) {
    if (equal_ignoring_case(endings[parts[i].ending], ending)) return i;
  }
  return std::nullopt;
}

void WdsIndex::add(bool is_new_sample, std::string_view key, std::string_view ending,
                   uint64_t offset, uint64_t size) {
  const auto known = std::find(endings.begin(), endings.end(), ending);
  const auto number = static_cast<uint32_t>(known - endings.begin());
  if (known == endings.end()) {
    if (endings.size() == kMaxEndings) {
      fail<DataError>("more than {} different endings: not a WebDataset", kMaxEndings);
    }
    endings.emplace_back(ending);
  }
  if (keys.size() + key.size() > std::numeric_limits<uint32_t>::max() ||
      parts.size() == std::numeric_limits<uint32_t>::max()) {
    fail<DataError>("more samples than one tar can have here; split it into shards");
  }
  parts.push_back({offset, size, number});
  if (!is_new_sample) {
    ends.back() = static_cast<uint32_t>(parts.size());
    return;
  }
  ends.push_back(static_cast<uint32_t>(parts.size()));
  if (key.empty()) return;
  keys += key;
  key_ends.push_back(static_cast<uint32_t>(keys.size()));
}

std::optional<std::pair<std::string_view, std::string_view>> split_wds_name(std::string_view path) {
  const size_t base = path.rfind('/') == std::string_view::npos ? 0 : path.rfind('/') + 1;
  const size_t dot = path.find('.', base);
  if (dot == std::string_view::npos || dot == base) return std::nullopt;
  if (is_metadata_name(path)) return std::nullopt;
  return std::pair(path.substr(0, dot), path.substr(dot + 1));
}

WdsIndex build_wds_index(const ByteSource& tar) {
  WdsIndex index;
  TarReader reader(tar);
  int64_t num_unnamed = 0;
  std::string first_unnamed;
  while (const auto entry = reader.next_file()) {
    const auto split = split_wds_name(entry->name);
    if (!split) {
      const bool is_expected = is_metadata_name(entry->name) || is_clutter(entry->name);
      if (!is_expected && num_unnamed++ == 0) first_unnamed = entry->name;
      continue;
    }
    const auto [key, ending] = *split;
    const int64_t last = index.size() - 1;
    const bool is_new = last < 0 || index.key(last) != key;
    if (!is_new && index.find(last, ending)) {
      fail<DataError>("{}: \"{}\" stands twice in the sample \"{}\"; write the archive again",
                      tar.name(), printable(entry->name), printable(key));
    }
    index.add(is_new, key, ending, entry->offset, entry->size);
  }
  if (reader.num_skipped() > 0) {
    log_warning(fmt::format("{}: {} links or devices are left out, the first is \"{}\"", tar.name(),
                            reader.num_skipped(), printable(reader.first_skipped())));
  }
  if (num_unnamed > 0) {
    log_warning(fmt::format(
        "{}: files without an ending belong to no sample: {}, the first is \"{}\"; name them as "
        "000001.jpg, or leave them out of the archive",
        tar.name(), num_unnamed, printable(first_unnamed)));
  }
  if (index.size() == 0) {
    fail<DataError>("{}: no samples; expected files such as 000001.jpg and 000001.cls", tar.name());
  }
  return index;
}

WdsIndex parse_wds_index(std::string_view text, const std::string& name, uint64_t tar_size) {
  IndexParser parser{name, tar_size};
  auto title = take_line(text);
  const auto version = take_word(title);
  if (version != "v1.1" && version != "v1.2") {
    fail<DataError>(
        "{}: starts with \"{}\"; expected v1.1 or v1.2, as DALI's wds2idx and `fovea data "
        "index` write it",
        name, printable(version.substr(0, 16)));
  }
  const auto count = number_of(take_word(title));
  if (!count || *count == 0 || *count > text.size()) {
    fail<DataError>("{}:1: expected the number of samples after {}, above 0 and as many lines",
                    name, version);
  }
  parser.has_names = version == "v1.2";
  size_t number = 1;
  while (!text.empty()) {
    const auto line = take_line(text);
    ++number;
    if (text.empty() && trimmed(line).empty()) break;
    parser.read_line(line, number);
  }
  if (static_cast<uint64_t>(parser.index.size()) != *count) {
    fail<DataError>(
        "{}: {} samples are announced, {} are listed; it is truncated: make the index "
        "again (fovea data index)",
        name, *count, parser.index.size());
  }
  return std::move(parser.index);
}

std::string format_wds_index(const WdsIndex& index) {
  for (const auto& ending : index.endings) {
    if (ending.empty() || has_space(ending)) {
      fail<DataError>("the ending \"{}\" cannot stand in an index file; rename those files",
                      printable(ending));
    }
  }
  const bool has_names = !index.key_ends.empty() && !has_space(index.keys);
  std::string text = fmt::format("v1.{} {}\n", has_names ? 2 : 1, index.size());
  for (int64_t i = 0; i < index.size(); ++i) {
    const auto [first, last] = index.range(i);
    for (uint32_t p = first; p < last; ++p) {
      const auto& part = index.parts[p];
      const auto& ending = index.endings[part.ending];
      text += fmt::format("{}{} {} {}", p == first ? "" : " ", ending, part.offset, part.size);
      if (has_names) text += fmt::format(" {}.{}", index.key(i), ending);
    }
    text += '\n';
  }
  return text;
}

std::string wds_index_path(const std::string& tar_path) {
  const bool has_ending = tar_path.ends_with(".tar");
  return (has_ending ? tar_path.substr(0, tar_path.size() - 4) : tar_path) + ".idx";
}

void check_wds_keys(const std::vector<WdsIndex>& indices, const std::vector<std::string>& names) {
  std::vector<std::tuple<std::string_view, size_t, int64_t>> keys;  // key, tar, sample
  for (size_t t = 0; t < indices.size(); ++t) {
    for (int64_t i = 0; i < static_cast<int64_t>(indices[t].key_ends.size()); ++i) {
      keys.emplace_back(indices[t].key(i), t, i);
    }
  }
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end(), [](const auto& a, const auto& b) {
    return std::get<0>(a) == std::get<0>(b);
  });
  if (twice == keys.end()) return;
  int64_t count = 0;
  for (size_t i = 1; i < keys.size(); ++i)
    count += std::get<0>(keys[i]) == std::get<0>(keys[i - 1]) ? 1 : 0;
  const auto place = [&](const auto& entry) {
    return fmt::format("{}[{}]", names[std::get<1>(entry)], std::get<2>(entry));
  };
  fail<DataError>(
      "two samples have the key \"{}\": {} and {} ({} of {} samples repeat a key); keep the files "
      "of a sample together and its key unique, or set unique_keys: false",
      printable(std::get<0>(*twice)), place(twice[0]), place(twice[1]), count, keys.size());
}

}  // namespace fovea::data
