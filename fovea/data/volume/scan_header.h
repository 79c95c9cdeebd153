// Headers of lines of text, which numbers follow in the same file or in one beside it: those of
// NRRD and MetaImage.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/files/byte_source.h"

namespace fovea::data {

class HeaderLines {
 public:
  explicit HeaderLines(const ByteSource& file) : file_(file) {}

  // The next line without its end, \n or \r\n; nothing: the file ends here. Throws DataError where
  // the header is longer than any is.
  std::optional<std::string> next();
  // Of the byte behind the last line.
  uint64_t position() const { return position_; }

 private:
  const ByteSource& file_;
  std::string buffer_;  // from position_ on
  uint64_t position_ = 0;
};

// The fields of a header by their names, each given once.
class HeaderFields {
 public:
  // source: the file, for messages.
  explicit HeaderFields(std::string source) : source_(std::move(source)) {}

  // Throws DataError where there is one of this name.
  void add(std::string_view name, std::string_view value);
  // Null: there is none.
  const std::string* find(std::string_view name) const;
  // The first that there is of several names of one thing.
  const std::string* find_any(std::initializer_list<std::string_view> names) const;
  // Throws DataError where there is none.
  const std::string& get(std::string_view name) const;
  // `missing` where there is none; throws DataError where it is no such number.
  int64_t whole(std::string_view name, int64_t missing) const;
  double decimal(std::string_view name, double missing) const;
  const std::string& source() const { return source_; }

 private:
  std::string source_;
  std::map<std::string, std::string, std::less<>> fields_;
};

// Divided by blanks.
std::vector<std::string_view> words_of(std::string_view text);

// All of `text`; nothing: it is no such number, or not finite.
std::optional<int64_t> whole_number(std::string_view text);
std::optional<double> decimal_number(std::string_view text);
// One for each word. Throws DataError naming `source` and `field`: fewer or more than `count`.
std::vector<int64_t> whole_numbers(std::string_view text, size_t count, std::string_view field,
                                   const std::string& source);
std::vector<double> decimal_numbers(std::string_view text, size_t count, std::string_view field,
                                    const std::string& source);

// The file `name` that the header `path` says holds its numbers: in its folder or below. Throws
// DataError for a name that leads elsewhere, and for several files.
std::shared_ptr<const ByteSource> open_detached(const std::string& path, std::string_view name);

}  // namespace fovea::data
