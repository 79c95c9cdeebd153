#include "apps/fovea/scratch_folder.h"

#include <cstdlib>
#include <system_error>

#include "fovea/core/error.h"

namespace fovea::app {

ScratchFolder::ScratchFolder(const std::string& purpose) {
  namespace fs = std::filesystem;
  std::string name = (fs::temp_directory_path() / ("fovea_" + purpose + "_XXXXXX")).string();
  if (mkdtemp(name.data()) == nullptr) {
    fail<DataError>("{}: cannot be made; set TMPDIR to a folder that can be written", name);
  }
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace fovea::app
