// Lines of files of any length, in memory for one of them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fovea/core/input_file.h"

namespace fovea {

class LineReader {
 public:
  // Throws DataError where the file cannot be read or is no regular file.
  LineReader(std::string path, uint64_t max_line_bytes);

  // The next line, without its end. False: there is none. Throws DataError, naming the line, for
  // one of more than max_line_bytes: it is none, and what follows is not looked at.
  bool next(std::string& line);
  // Whether the last line had its end; without it, whoever wrote it may have been stopped within.
  bool is_whole() const { return is_whole_; }

 private:
  InputFile file_;
  uint64_t max_line_bytes_;
  uint64_t position_ = 0;  // of what is read next
  int64_t number_ = 0;     // of the last line, from 1
  std::vector<uint8_t> block_;
  size_t begin_ = 0, end_ = 0;  // what of the block is not handed out yet
  bool is_whole_ = false;
};

// Calls take(line, "path:7") for each line that has its end, in their order; one without was cut
// off when its writer was stopped. Throws as LineReader.
void each_whole_line(
    const std::string& path, uint64_t max_line_bytes,
    const std::function<void(const std::string& line, const std::string& source)>& take);

}  // namespace fovea
