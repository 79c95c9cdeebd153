// Checkpoints of t5x: any bytes as the tree, and as .zarray and chunk of the one array beside it,
// are read as tensors, or refused. The input is the three, with 0xFF 0xFE between them.
#include <filesystem>
#include <string>

#include "fovea/core/error.h"
#include "fovea/files/zarr.h"
#include "fovea/weights/t5x_folder.h"
#include "tests/support/temp_dir.h"

// What libtorch makes at its start is never freed.
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }

namespace {

// Takes what stands before the next mark off `rest`.
std::string part_of(std::string& rest) {
  const auto end = std::min(rest.find("\xFF\xFE"), rest.size());
  auto part = rest.substr(0, end);
  rest.erase(0, std::min(end + 2, rest.size()));
  return part;
}

// Every byte is touched, so that one beyond the storage shows.
template <class Bytes>
void touch(const Bytes* bytes, size_t count) {
  volatile uint8_t sum = 0;
  for (size_t i = 0; i < count; ++i)
    sum = static_cast<uint8_t>(sum + static_cast<uint8_t>(bytes[i]));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const fovea::support::TempDir folder;
  std::string rest(reinterpret_cast<const char*>(bytes), size);
  folder.write("checkpoint", part_of(rest));
  const auto zarray = part_of(rest);
  folder.write("a/.zarray", zarray);
  for (const auto* name : {"a/0", "a/0.0"}) folder.write(name, rest);
  try {
    constexpr uint64_t kMaxBytes = 1 << 22;  // memory that is asked for is no fault here
    const auto header = fovea::parse_zarr_header(zarray, "fuzz", kMaxBytes);
    const auto array = fovea::read_zarr(folder.file("a"), header);
    touch(array.bytes.data(), array.bytes.size());
  } catch (const fovea::DataError&) {
    folder.write("a/.zarray", std::string());  // nor in the tree
  }
  try {
    const fovea::weights::T5xFolder checkpoint(folder.path());
    for (const auto& stored : checkpoint.arrays()) {
      const auto tensor = checkpoint.read(stored);
      touch(static_cast<const uint8_t*>(tensor.const_data_ptr()), tensor.nbytes());
    }
  } catch (const fovea::DataError&) {
  } catch (const fovea::CheckpointError&) {
  }
  return 0;
}
