// Headers of lines of text, which numbers follow in the same file or in one beside it: those of
// NRRD and MetaImage.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
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
