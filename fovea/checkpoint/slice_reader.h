// Slices of tensors out of the files of a checkpoint, by themselves.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

#include "fovea/checkpoint/manifest.h"
#include "fovea/checkpoint/slice_source.h"
#include "fovea/core/input_file.h"

namespace fovea::checkpoint {

// Throws CheckpointError unless the file is there with the size and the checksum it should have;
// DataError where it cannot be read.
void verify_file(const std::filesystem::path& folder, const FileEntry& entry);

// Note [Checksums]
// The manifest has a checksum of each slice and of what stands before the first one, so that who
// reads some slices reads and checks those bytes alone; together the readers of all parts of a
// checkpoint check all of it. Files from before there were such checksums are read through once,
// and compared with the checksum of the whole file.
class SliceReader final : public SliceSource {
 public:
  // expected: all that the file holds, by key. Throws CheckpointError where the file is not as the
  // manifest has it.
  SliceReader(const std::filesystem::path& folder, const FileEntry& entry,
              const SavedSlices& expected);

  // Throws CheckpointError where its checksum does not fit.
  at::Tensor read(const std::string& key) override;
  uint64_t bytes_read() const override { return bytes_read_; }

 private:
  void read_preamble(const FileEntry& entry);

  std::string name_;
  const SavedSlices& expected_;
  uint64_t bytes_read_ = 0;
  InputFile file_;
  std::map<std::string, uint64_t> offsets_;  // in the file, by key
};

}  // namespace fovea::checkpoint
