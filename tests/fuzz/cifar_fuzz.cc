// CIFAR's binary files and lists of class names: any bytes are read or refused with a DataError.
// The first byte says which file the rest is.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "fovea/core/error.h"
#include "fovea/data/datasets/cifar.h"

namespace {

// One folder for the whole run, removed at its end.
struct Folder {
  std::string path;

  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "cifar_fuzz_XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    path = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  void write(const char* name, const char* bytes, size_t size) const {
    std::ofstream(path + "/" + name, std::ios::binary)
        .write(bytes, static_cast<std::streamsize>(size));
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const Folder folder;
  if (size == 0) return 0;
  const auto* text = reinterpret_cast<const char*>(bytes + 1);
  const std::string record(3073, '\1');
  folder.write("test_batch.bin", bytes[0] % 3 == 0 ? text : record.data(),
               bytes[0] % 3 == 0 ? size - 1 : 3073);
  folder.write("batches.meta.txt", text, bytes[0] % 3 == 1 ? size - 1 : 0);
  folder.write("test.bin", text, bytes[0] % 3 == 2 ? size - 1 : 0);
  if (bytes[0] % 3 != 1) std::filesystem::remove(folder.path + "/batches.meta.txt");
  try {
    fovea::data::CifarConfig config;
    config.path = folder.path;
    config.split = "test";
    config.variant = bytes[0] % 3 == 2 ? "cifar100" : "cifar10";
    const auto dataset = fovea::data::build_cifar_dataset(config);
    fovea::data::Sample sample;
    dataset->read(0, sample);
    dataset->read(dataset->size() - 1, sample);
    if (sample.label < 0 || sample.label >= dataset->num_classes()) __builtin_trap();
  } catch (const fovea::DataError&) {
  }
  return 0;
}
