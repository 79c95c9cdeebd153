// Files of torch.save, in both forms: any bytes are read as tensors, and as the state of an
// optimizer, or refused.
#include "fovea/core/error.h"
#include "fovea/weights/optimizer_state.h"
#include "fovea/weights/torch_file.h"
#include "tests/fuzz/memory_file.h"

// What libtorch makes at its start is never freed.
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const fovea::fuzz::MemoryFile memory(bytes, size);
  try {
    fovea::weights::TorchFile file(memory.path());
    for (const auto& stored : file.tensors()) {
      const auto tensor = file.read(stored).contiguous();
      // Every byte is touched, so that one beyond the storage shows.
      volatile uint8_t sum = 0;
      const auto* data = static_cast<const uint8_t*>(tensor.const_data_ptr());
      for (size_t i = 0; i < tensor.nbytes(); ++i) sum = static_cast<uint8_t>(sum + data[i]);
    }
    fovea::weights::read_optimizer_state(memory.path());
  } catch (const fovea::DataError&) {
  } catch (const fovea::CheckpointError&) {
  }
  return 0;
}
