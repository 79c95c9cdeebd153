#include "fovea/data/datasets/file_list_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/core/log.h"
#include "fovea/core/text.h"
#include "fovea/data/datasets/csv_columns.h"
#include "fovea/data/labels.h"
#include "fovea/files/file_endings.h"

namespace fovea::data {
namespace {

std::string_view without_mark(std::string_view text) {
  return text.starts_with("\xef\xbb\xbf") ? text.substr(3) : text;
}

// Fields of a CSV text, record after record.
class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& name) : rest_(text), name_(name) {}

  // False: the end. `line`: where the record begins.
  bool next(std::vector<std::string>& fields, int64_t& line) {
    fields.clear();
    if (rest_.empty()) return false;
    line = line_;
    do {
      fields.push_back(rest_.starts_with('"') ? quoted(line) : plain());
    } while (take(','));
    take('\r');
    if (!rest_.empty() && !take('\n')) {
      fail<DataError>("{}:{}: text after a closing quote; expected a comma or the end of the line",
                      name_, line_);
    }
    ++line_;
    return true;
  }

 private:
  bool take(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::string plain() {
    const size_t size = std::min(rest_.find_first_of(",\r\n"), rest_.size());
    std::string field(rest_.substr(0, size));
    rest_.remove_prefix(size);
    // A carriage return that does not end the line belongs to the field.
    if (rest_.starts_with('\r') && rest_.size() > 1 && rest_[1] != '\n') {
      fail<DataError>("{}:{}: a carriage return within a field; put the field in quotes", name_,
                      line_);
    }
    return field;
  }

  std::string quoted(int64_t first_line) {
    std::string field;
    rest_.remove_prefix(1);
    while (true) {
      const size_t size = rest_.find('"');
      if (size == std::string_view::npos) {
        fail<DataError>("{}:{}: a quote that does not close", name_, first_line);
      }
      const auto part = rest_.substr(0, size);
      line_ += std::count(part.begin(), part.end(), '\n');
      field += part;
      rest_.remove_prefix(size + 1);
      if (!take('"')) return field;
      field += '"';
    }
  }

  std::string_view rest_;
  const std::string& name_;
  int64_t line_ = 1;
};

std::optional<std::string> text_of(const nlohmann::json& object, const char* key,
                                   const std::string& place) {
  if (!object.contains(key) || object[key].is_null()) return std::nullopt;
  const auto& value = object[key];
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_integer()) return json_text(value);
  fail<DataError>("{}: \"{}\" is {}; expected text{}", place, key, value.type_name(),
                  std::string_view(key) == "label" ? " or an integer" : "");
}

}  // namespace

FileList parse_csv_list(std::string_view text, const std::string& name, const FileExists& exists) {
  FileList list;
  CsvReader reader(without_mark(text), name);
  std::vector<std::string> fields, first, second;
  int64_t line = 0, first_line = 0, second_line = 0;
  const auto next = [&](std::vector<std::string>& record) {
    bool is_there = reader.next(record, line);
    while (is_there && record.size() == 1 && record[0].empty())
      is_there = reader.next(record, line);
    return is_there;
  };
  if (!next(first)) return list;
  first_line = line;
  const bool has_second = next(second);
  second_line = line;
  const auto columns =
      choose_csv_columns(first, second, exists, fmt::format("{}:{}", name, first_line));
  list.note = columns.note;
  const size_t count = first.size();  // of fields in every record
  const auto add = [&](const std::vector<std::string>& record, int64_t at) {
    if (record.size() != count || (!columns.has_header && count > 3)) {
      fail<DataError>("{}:{}: {} fields; expected {}", name, at, record.size(),
                      !columns.has_header && count > 3
                          ? "path, label and mask at most, or a first line that names the columns"
                          : fmt::format("{}, as in the first line", count));
    }
    FileListRow row{.line = at, .path = record[columns.path]};
    if (row.path.empty()) fail<DataError>("{}:{}: the path is empty", name, at);
    if (columns.label < count) row.label = trimmed(record[columns.label]);
    if (columns.mask < count) row.mask = record[columns.mask];
    list.rows.push_back(std::move(row));
  };
  if (!columns.has_header) add(first, first_line);
  if (has_second) add(second, second_line);
  while (next(fields)) add(fields, line);
  return list;
}

std::vector<FileListRow> parse_jsonl_list(std::string_view text, const std::string& name) {
  std::vector<FileListRow> rows;
  text = without_mark(text);
  for (int64_t line = 1; !text.empty(); ++line) {
    const auto one = take_line(text);
    if (trimmed(one).empty()) continue;
    const std::string place = fmt::format("{}:{}", name, line);
    const auto object = parse_json(one);
    if (!object.is_object()) {
      fail<DataError>("{}: not a JSON object; expected {{\"path\": ..., \"label\": ...}}", place);
    }
    const auto path = text_of(object, "path", place);
    if (!path || path->empty()) fail<DataError>("{}: no \"path\"", place);
    rows.push_back({line, *path, text_of(object, "label", place), text_of(object, "mask", place)});
  }
  return rows;
}

std::vector<FileListRow> read_file_list(const std::string& path, uint64_t max_bytes,
                                        const FileExists& exists) {
  const std::string name = printable(path);
  const std::string text = read_file(path, max_bytes);
  if (lower_ending(path) == ".jsonl") return parse_jsonl_list(text, name);
  FileList list = parse_csv_list(text, name, exists);
  if (!list.note.empty()) log_info(list.note);
  return std::move(list.rows);
}

}  // namespace fovea::data
