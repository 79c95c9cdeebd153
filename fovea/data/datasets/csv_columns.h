// What the columns of a CSV list of files are: whether its first line names them, and how.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "fovea/data/datasets/file_list_text.h"

namespace fovea::data {

struct CsvColumns {
  size_t path = 0, label = 1, mask = 2;  // past the last: there is none
  bool has_header = false;               // the first record names them and is no data
  std::string note = {};                 // see FileList
};

// first, second: the first two records; `second` is empty where there is one alone. place: of the
// first, for messages. Throws DataError where the first can be a header as well as data, or names
// one thing twice, or no path.
CsvColumns choose_csv_columns(const std::vector<std::string>& first,
                              const std::vector<std::string>& second, const FileExists& exists,
                              const std::string& place);

}  // namespace fovea::data
