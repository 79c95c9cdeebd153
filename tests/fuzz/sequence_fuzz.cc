// Saved sequences of patches: any bytes are read or refused with a DataError; what is read lies in
// the image.
#include <cstdlib>

#include "fovea/core/error.h"
#include "fovea/data/adaptive/sequence_file.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const fovea::fuzz::MemoryFile file(bytes, size);
  try {
    const auto saved = fovea::data::load_sequence(file.path());
    for (const auto& tree : saved.sequence.trees) {
      int64_t pixels = 0;
      for (const auto& leaf : tree.leaves) {
        if (leaf.y < 0 || leaf.x < 0 || leaf.y + leaf.height > tree.size.height ||
            leaf.x + leaf.width > tree.size.width) {
          std::abort();
        }
        pixels += leaf.voxels();
      }
      if (pixels != tree.size.height * tree.size.width) std::abort();
    }
  } catch (const fovea::DataError&) {
  }
  return 0;
}
