// Tensors to and from the safetensors files of a checkpoint.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "fovea/checkpoint/manifest.h"
#include "fovea/checkpoint/slices.h"
#include "fovea/checkpoint/state.h"

namespace fovea::checkpoint {

// Writes CPU tensors into a new file, durable when it returns, and enters file and tensors under
// `part` in the manifest. parts: those that are parts of whole ones (State::parts); they are
// written as boxes, under slice_key. Throws CheckpointError where the system refuses.
void write_tensors(const std::filesystem::path& folder, const std::string& file_name,
                   const std::string& part, const TensorMap& tensors, Manifest& manifest,
                   const std::map<std::string, kernels::TensorPart>& parts = {});

// The tensors of one part on the CPU, put together from their slices after a check of sizes and
// checksums. wanted: by name, what is needed of a tensor, where that is not the whole; only the
// slices that it touches are read. Of a tensor that was saved with another shape all is read.
// Throws CheckpointError where anything that is read differs from the manifest or is missing.
TensorMap read_tensors(const std::filesystem::path& folder, const std::string& part,
                       const Manifest& manifest,
                       const std::map<std::string, WantedPart>& wanted = {});

// Reads those slices of one part that are wanted, and checks them. -> their bytes. Throws as
// read_tensors.
struct SliceVisitor {
  std::function<bool(const std::string& name, const Box& slice)> wants;
  std::function<void(const std::string& name, const Box& slice, const at::Tensor& values)> take;
};
uint64_t read_slices(const std::filesystem::path& folder, const std::string& part,
                     const Manifest& manifest, const SliceVisitor& visitor);

}  // namespace fovea::checkpoint
