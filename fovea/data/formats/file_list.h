// Lists of files as text: CSV with the columns path, label and mask, or JSON lines with those keys.
#pragma once

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

// CSV after RFC 4180: commas, quoted fields with doubled quotes, LF or CRLF, an optional byte order
// mark. A first line with the word "path" names the columns (others are left out); without one they
// are path, label, mask. Empty lines are passed over. Throws DataError as "name:line".
std::vector<FileListRow> parse_csv_list(std::string_view text, const std::string& name);

// An object a line: {"path": "a.jpg", "label": 3 or "cat", "mask": "a.png"}; other keys are left
// out. Throws DataError as "name:line".
std::vector<FileListRow> parse_jsonl_list(std::string_view text, const std::string& name);

}  // namespace fovea::data
