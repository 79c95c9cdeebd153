// What earlier runs have found out about files, so that this one opens none of them for it: sizes
// (known_sizes.h) and ranges of values (known_ranges.h). It is kept beside the data set, in a list
// of text, and holds as long as the file is the same by its size and the time of its last change;
// of a folder, all files in it.
#pragma once

#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/file_lock.h"
#include "fovea/core/printable.h"

namespace fovea::data {

// What tells a file from another one of its name.
struct FileState {
  uint64_t bytes = 0;
  uint64_t stamp = 0;  // time of the last change; of a folder, a checksum of its files' names,
                       // sizes and times
  bool operator==(const FileState&) const = default;
};

struct FoundState {
  FileState state;
  uint64_t changed = 0;  // the last time, in nanoseconds

  // False: it changed within the last seconds, and could change again and look the same.
  bool is_settled() const;
};

// Of a file or folder, before it is read: one that changes meanwhile has another state the next
// time. Nothing: it cannot be looked at; who opens it says why.
std::optional<FoundState> state_of(const std::string& path);

template <class Value>
struct KnownFile {
  FileState state;
  Value value;
  bool operator==(const KnownFile&) const = default;
};

// By how files are opened ("nifti-canonical": it swaps axes) and the path below the data set's.
using KnownKey = std::pair<std::string, std::string>;
template <class Value>
using KnownFiles = std::map<KnownKey, KnownFile<Value>>;

// The path below `root`, or whole where it lies elsewhere; nothing: a name that no line can hold.
std::optional<KnownKey> known_key(const std::string& known_as, const std::string& root,
                                  const std::string& path);

// Of each kind of value: the list's name and first line, its columns, and one as text:
//   static constexpr std::string_view kFile, kFirstLine, kColumns;
//   static std::string format(const Value& value);
//   static bool take(std::string_view& line, Value& value);  // false: it is damaged
template <class Value>
struct KnownFormat;

// The number before the next space; false: there is none.
template <class T>
bool take_number(std::string_view& line, T& value) {
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  const auto size = static_cast<size_t>(end - line.data());
  if (error != std::errc() || size >= line.size() || line[size] != ' ') return false;
  line.remove_prefix(size + 1);
  return true;
}

// A first line with the version, then one a file: "VALUE BYTES STAMP HOW PATH". Throws DataError
// naming `name` and the line.
template <class Value>
KnownFiles<Value> parse_known(std::string_view text, const std::string& name) {
  using Format = KnownFormat<Value>;
  const auto parse_line = [](std::string_view line, KnownFiles<Value>& known) {
    KnownFile<Value> entry;
    if (!Format::take(line, entry.value) || !take_number(line, entry.state.bytes) ||
        !take_number(line, entry.state.stamp)) {
      return false;
    }
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || space == 0 || space + 1 == line.size()) return false;
    known[{std::string(line.substr(0, space)), std::string(line.substr(space + 1))}] = entry;
    return true;
  };
  KnownFiles<Value> known;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) fail<DataError>("{}:{}: the line is cut off", name, number);
    const auto line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (number == 1 ? line == Format::kFirstLine : parse_line(line, known)) continue;
    fail<DataError>("{}:{}: expected {}", name, number,
                    number == 1 ? fmt::format("\"{}\"", Format::kFirstLine)
                                : fmt::format("{} BYTES STAMP HOW PATH", Format::kColumns));
  }
  return known;
}

template <class Value>
std::string format_known(const KnownFiles<Value>& known) {
  std::string text = fmt::format("{}\n", KnownFormat<Value>::kFirstLine);
  for (const auto& [key, entry] : known) {
    fmt::format_to(std::back_inserter(text), "{} {} {} {} {}\n",
                   KnownFormat<Value>::format(entry.value), entry.state.bytes, entry.state.stamp,
                   key.first, key.second);
  }
  return text;
}

// The list with a checksum of it as its last line, for a number that a fault of the disk changed
// would be believed. Empty: there is no list. Throws DataError: it is damaged.
std::string load_known_text(const std::string& path);
// As a whole or not at all. False: the folder is only read.
bool save_known_text(const std::string& path, std::string text);
bool is_known_there(const std::string& root, const KnownKey& key);
std::string known_path(const std::string& root, std::string_view name);
void log_damaged_list(const DataError& error);

// The processes of a run save what each has found: one at a time, waited for a second. Where the
// file system knows no locks, what another one saves at the same moment may be lost, and is found
// again.
class KnownListLock {
 public:
  explicit KnownListLock(const std::string& root);

 private:
  FileLock folder_;
};

template <class Value>
KnownFiles<Value> read_known(const std::string& root) {
  const std::string path = known_path(root, KnownFormat<Value>::kFile);
  return parse_known<Value>(load_known_text(path), printable(path));
}

template <class Value>
KnownFiles<Value> load_known(const std::string& root) {
  try {
    return read_known<Value>(root);
  } catch (const DataError& error) {
    log_damaged_list(error);
    return {};
  }
}

// Adds to the list what this process has found, and drops files that are gone. -> all that is known
// now.
template <class Value>
KnownFiles<Value> save_known(const std::string& root, const KnownFiles<Value>& news) {
  const KnownListLock lock(root);
  KnownFiles<Value> known;
  try {
    known = read_known<Value>(root);
  } catch (const DataError&) {  // which was said when it was loaded
  }
  for (const auto& [key, entry] : news) known[key] = entry;
  std::erase_if(known, [&](const auto& entry) { return !is_known_there(root, entry.first); });
  save_known_text(known_path(root, KnownFormat<Value>::kFile), format_known(known));
  return known;
}

}  // namespace fovea::data
