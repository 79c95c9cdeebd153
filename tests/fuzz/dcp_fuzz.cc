// Indexes of torch.distributed.checkpoint: any bytes as .metadata beside real files of parts are
// read as tensors, or refused.
#include <filesystem>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/weights/dcp_folder.h"
#include "tests/support/temp_dir.h"

// What libtorch makes at its start is never freed.
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }

namespace {

// A folder of its own for this process, with links to the parts of a golden checkpoint.
struct Checkpoint {
  Checkpoint() {
    namespace fs = std::filesystem;
    for (const auto& file : fs::directory_iterator(FOVEA_DCP_PARTS)) {
      const auto name = file.path().filename().string();
      if (name.ends_with(".distcp")) fs::create_symlink(file.path(), folder.file(name));
    }
  }
  fovea::support::TempDir folder;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const Checkpoint links;
  links.folder.write(".metadata", std::vector<uint8_t>(bytes, bytes + size));
  try {
    const fovea::weights::DcpFolder checkpoint(links.folder.path());
    for (const auto& stored : checkpoint.tensors()) {
      const auto tensor = checkpoint.read(stored);
      // Every byte is touched, so that one beyond the storage shows.
      volatile uint8_t sum = 0;
      const auto* data = static_cast<const uint8_t*>(tensor.const_data_ptr());
      for (size_t i = 0; i < tensor.nbytes(); ++i) sum = static_cast<uint8_t>(sum + data[i]);
    }
    for (const auto& name : checkpoint.other_names()) checkpoint.open_other(name);
  } catch (const fovea::DataError&) {
  } catch (const fovea::CheckpointError&) {
  }
  return 0;
}
