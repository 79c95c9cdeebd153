// Slices of tensors out of the files of a checkpoint, by themselves.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

#include "fovea/checkpoint/manifest.h"
#include "fovea/core/input_file.h"

namespace fovea::checkpoint {

// Throws CheckpointError unless the file is there with the size and the checksum it should have;
// DataError where it cannot be read.
void verify_file(const std::filesystem::path& folder, const FileEntry& entry);

// A slice that a file holds under slice_key.
struct SavedSlice {
  const TensorEntry* tensor = nullptr;
  const Slice* slice = nullptr;
  std::string name;  // of the tensor
};

// Note [Checksums]
// The manifest has a checksum of each slice and of what stands before the first one, so that who
// reads some slices reads and checks those bytes alone; together the readers of all parts of a
// checkpoint check all of it. Files from before there were such checksums are read through once,
// and compared with the checksum of the whole file.
class SliceReader {
 public:
  // expected: all that the file holds, by key. Throws CheckpointError where the file is not as the
  // manifest has it.
  SliceReader(const std::filesystem::path& folder, const FileEntry& entry,
              const std::map<std::string, SavedSlice>& expected);

  // [slice.size], on the CPU. Throws CheckpointError where its checksum does not fit.
  at::Tensor read(const std::string& key);

 private:
  void read_preamble(const FileEntry& entry);

  std::string name_;
  const std::map<std::string, SavedSlice>& expected_;
  InputFile file_;
  std::map<std::string, uint64_t> offsets_;  // in the file, by key
};

}  // namespace fovea::checkpoint
