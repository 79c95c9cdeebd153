#include "fovea/data/formats/file_list.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/data/names.h"

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

struct Columns {
  size_t path = 0, label = 1, mask = 2;
  size_t count = 0;  // of a named header; 0: there is none
};

// Nothing: the first record is data.
std::optional<Columns> named_columns(const std::vector<std::string>& fields) {
  if (std::find(fields.begin(), fields.end(), "path") == fields.end()) return std::nullopt;
  const auto place = [&](const char* name) {
    return static_cast<size_t>(std::find(fields.begin(), fields.end(), name) - fields.begin());
  };
  return Columns{place("path"), place("label"), place("mask"), fields.size()};
}

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

std::vector<FileListRow> parse_csv_list(std::string_view text, const std::string& name) {
  std::vector<FileListRow> rows;
  CsvReader reader(without_mark(text), name);
  std::vector<std::string> fields;
  Columns columns;
  size_t count = 0;  // of fields in every record
  bool is_first = true;
  for (int64_t line = 0; reader.next(fields, line);) {
    if (fields.size() == 1 && fields[0].empty()) continue;
    const auto named = is_first ? named_columns(fields) : std::nullopt;
    if (is_first) count = fields.size();
    is_first = false;
    if (named) {
      columns = *named;
      continue;
    }
    if (fields.size() != count || (columns.count == 0 && count > 3)) {
      fail<DataError>("{}:{}: {} fields; expected {}", name, line, fields.size(),
                      columns.count == 0 && count > 3
                          ? "path, label and mask at most, or a first line that names the columns"
                          : fmt::format("{}, as in the first line", count));
    }
    FileListRow row{.line = line, .path = fields[columns.path]};
    if (row.path.empty()) fail<DataError>("{}:{}: the path is empty", name, line);
    if (columns.label < count) row.label = fields[columns.label];
    if (columns.mask < count) row.mask = fields[columns.mask];
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<FileListRow> parse_jsonl_list(std::string_view text, const std::string& name) {
  std::vector<FileListRow> rows;
  text = without_mark(text);
  for (int64_t line = 1; !text.empty(); ++line) {
    const size_t size = std::min(text.find('\n'), text.size());
    const auto one = text.substr(0, size);
    text.remove_prefix(std::min(size + 1, text.size()));
    if (one.find_first_not_of(" \t\r") == std::string_view::npos) continue;
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

}  // namespace fovea::data
