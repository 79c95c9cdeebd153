// Lists of files as text: CSV with the columns path, label and mask, or JSON lines with those keys.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::data {

struct FileListRow {
  int64_t line = 0;  // where it begins, from 1
  std::string path;
  std::optional<std::string> label = {};  // as written
  std::optional<std::string> mask = {};
};

struct FileList {
  std::vector<FileListRow> rows;
  std::string note = {};  // how a first line was taken that names the columns in other words
};

// Whether a path of the list is a file; nothing: not to be asked.
using FileExists = std::function<bool(const std::string& path)>;

// CSV after RFC 4180: commas, quoted fields with doubled quotes, LF or CRLF, an optional byte order
// mark; blanks around labels are left out, empty lines passed over. The columns are path, label and
// mask, unless the first line names them: path, label, mask, or one of the usual words for each
// (file, image, filename ...; class, target ...; segmentation ...), in any case; others are left
// out. A first line of other words is a header too where it names no file and the second does.
// Throws DataError as "name:line": also for a first line that can be both, with what to do.
FileList parse_csv_list(std::string_view text, const std::string& name,
                        const FileExists& exists = {});

// An object a line: {"path": "a.jpg", "label": 3 or "cat", "mask": "a.png"}; other keys are left
// out. Throws DataError as "name:line".
std::vector<FileListRow> parse_jsonl_list(std::string_view text, const std::string& name);

// Reads a list of either form, told by its ending. A header in other words is logged. Throws
// DataError: see above; a file that cannot be read or is larger than max_bytes.
std::vector<FileListRow> read_file_list(const std::string& path, uint64_t max_bytes,
                                        const FileExists& exists);

}  // namespace fovea::data
