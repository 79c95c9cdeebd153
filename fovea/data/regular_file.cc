#include "fovea/data/regular_file.h"

#include <sys/stat.h>

#include "fovea/core/error.h"
#include "fovea/data/names.h"

namespace fovea::data {

void check_regular_file(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode)) return;
  fail<DataError>("{}: {}; expected a file", printable(path),
                  S_ISDIR(status.st_mode) ? "a folder" : "not a regular file");
}

}  // namespace fovea::data
