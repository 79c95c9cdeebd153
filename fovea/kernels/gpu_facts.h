// What stands between this process and its GPUs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace fovea::kernels {

// What computing on a vendor's GPUs stands on, by name.
struct GpuStack {
  const char* vendor;
  const char* driver;    // its library, or its device: a path
  const char* torch;     // libtorch's library
  const char* module;    // ours
  const char* platform;  // what `torch` names further libraries of
  const char* how_to_build;
};

// That of the GPUs which the libtorch in a folder is for: AMD's, of a libtorch for ROCm, or
// NVIDIA's.
const GpuStack& gpu_stack_of(const std::filesystem::path& torch_folder);

// Of CUDA, versions are 1000 major + 10 minor, as in CUDA; 0: not known.
struct GpuFacts {
  int driver_version = 0;   // the newest CUDA that the driver runs
  int runtime_version = 0;  // that of libtorch_cuda
  std::string module_path, module_version;
  std::string module_code;  // as CMAKE_CUDA_ARCHITECTURES, "80-real,90", or "gfx90a,gfx942"
  // Of each GPU that libtorch sees, 10 major + minor or amd_architecture(); 0: not known.
  std::vector<int> capabilities;
};

// Whether code that was built for `architectures` runs on a GPU of a capability: machine code of
// the same major number and no later minor one, or PTX of no later capability. "80-real": machine
// code alone, "90-virtual": PTX alone, "90": both. "gfx90a": machine code for that one of AMD's.
bool has_code_for(int capability, const std::string& architectures);

// Why no GPU can be used, with what to do; empty: all of them can. program_version: of this
// program.
std::string why_no_gpu(const GpuFacts& facts, const std::string& program_version);

// Files of the libraries of libtorch that this process has loaded, links followed.
std::vector<std::string> loaded_torch_libraries();

// Why these cannot work together: they are of two libtorch. Empty: they are of one.
std::string why_two_torch(const std::vector<std::string>& libraries);

// As far as libraries that are loaded tell them. module_path: of the CUDA module.
GpuFacts find_gpu_facts(const std::string& module_path);

}  // namespace fovea::kernels
