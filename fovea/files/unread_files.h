// Files of a data set's folders that are of kinds that are not read: none vanishes without a word.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace fovea {

// Hidden files, what systems leave behind (Thumbs.db, desktop.ini), texts and tables: no samples.
bool is_clutter(std::string_view name);

// Whether the file holds the numbers of a header beside it: scan.raw, scan.zraw or scan.raw.gz of
// scan.mhd or scan.nhdr. It is read with that.
bool is_data_of_header(const std::string& path);

class UnreadFiles {
 public:
  // A file that is not read; clutter is not counted.
  void add(const std::string& path);
  // What is no file of some ending: kind is "links to folders".
  void add_kind(const std::string& kind, const std::string& path);
  // "12 files are not read (.webp 10, .tif 2), the first is a/b.webp"; empty:
  // there is none.
  std::string text() const;
  // Logs that as a warning on `place`, with what to do: convert them to `expected`.
  void warn(const std::string& place, std::string_view expected) const;

 private:
  std::map<std::string, int64_t> kinds_;  // by ending
  std::string first_;
  int64_t count_ = 0;
};

// Warns of the files right in `folder` for which is_read(name) is false.
void warn_of_unread_files(const std::string& folder, std::string_view expected,
                          const std::function<bool(const std::string& name)>& is_read);

}  // namespace fovea
