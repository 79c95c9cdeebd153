// Tensors to and from the safetensors files of a checkpoint.
#pragma once

#include <filesystem>
#include <string>

#include "fovea/checkpoint/manifest.h"
#include "fovea/checkpoint/state.h"

namespace fovea::checkpoint {

// Writes CPU tensors into a new file, durable when it returns, and enters file and tensors under
// `part` in the manifest. parts: those that are parts of whole ones (State::parts); they are
// written as boxes, under slice_key. Throws CheckpointError where the system refuses.
void write_tensors(const std::filesystem::path& folder, const std::string& file_name,
                   const std::string& part, const TensorMap& tensors, Manifest& manifest,
                   const std::map<std::string, nn::TensorPart>& parts = {});

// The tensors of one part, whole and on the CPU, put together from their slices after a check of
// sizes and checksums. Throws CheckpointError where anything differs from the manifest or is
// missing.
TensorMap read_tensors(const std::filesystem::path& folder, const std::string& part,
                       const Manifest& manifest);

// Throws CheckpointError unless the file is there with the size and the checksum it should have.
void verify_file(const std::filesystem::path& folder, const FileEntry& entry);

}  // namespace fovea::checkpoint
