#include "fovea/kernels/gpu_facts.h"

#include <ATen/Context.h>
#include <fmt/format.h>
#include <link.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "fovea/kernels/amd_architecture.h"
#include "fovea/kernels/cuda/module.h"
#include "fovea/kernels/loaded_function.h"

namespace fovea::kernels {
namespace {

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

bool is_of_amd(const GpuFacts& facts) { return facts.module_code.starts_with("gfx"); }

std::string no_code_for(size_t gpu, const GpuFacts& facts) {
  const int capability = facts.capabilities[gpu];
  if (is_of_amd(facts)) {
    return fmt::format(
        "{} has code for {}, none for GPU {}, a gfx{:x}; build with -DFOVEA_HIP_ARCHITECTURES="
        "gfx{:x}, or leave the GPU out of HIP_VISIBLE_DEVICES",
        facts.module_path, facts.module_code, gpu, capability, capability);
  }
  return fmt::format(
      "{} has code for {}, none for GPU {} of capability {}.{}; build with "
      "-DCMAKE_CUDA_ARCHITECTURES={}, or leave the GPU out of CUDA_VISIBLE_DEVICES",
      facts.module_path, facts.module_code, gpu, capability / 10, capability % 10, capability);
}

int driver_version() {
  const auto get = loaded_function<int (*)(int*)>("cuDriverGetVersion");
  int version = 0;
  return get && get(&version) == 0 ? version : 0;
}

}  // namespace

const GpuStack& gpu_stack_of(const std::filesystem::path& torch_folder) {
  static constexpr GpuStack kNvidia = {.vendor = "NVIDIA",
                                       .driver = "libcuda.so.1",
                                       .torch = "libtorch_cuda.so",
                                       .module = "libfovea_cuda.so",
                                       .platform = "CUDA 13",
                                       .how_to_build = "where nvcc is found (cmake --preset cuda)"};
  static constexpr GpuStack kAmd = {.vendor = "AMD",
                                    .driver = "/dev/kfd",
                                    .torch = "libtorch_hip.so",
                                    .module = "libfovea_hip.so",
                                    .platform = "ROCm",
                                    .how_to_build = "where hipcc is found (cmake -DFOVEA_HIP=ON)"};
  std::error_code fault;
  return std::filesystem::exists(torch_folder / kAmd.torch, fault) ? kAmd : kNvidia;
}

std::string why_no_gpu(const GpuFacts& facts, const std::string& program_version) {
  if (facts.module_version != program_version) {
    return fmt::format(
        "{} is of Fovea {}, and this program is {}; expected both of one build: install them "
        "together, or take the module away to go on without a GPU",
        facts.module_path, facts.module_version.empty() ? "before 0.1" : facts.module_version,
        program_version);
  }
  if (facts.capabilities.empty()) {
    const bool is_old =
        facts.driver_version > 0 && facts.driver_version / 1000 < facts.runtime_version / 1000;
    if (is_old) {
      return fmt::format(
          "the NVIDIA driver is for CUDA {} at most, and libtorch for {}; install a newer driver",
          version_text(facts.driver_version), version_text(facts.runtime_version));
    }
    return fmt::format("{} is loaded, but libtorch sees no GPU; check {}", facts.module_path,
                       is_of_amd(facts) ? "rocm-smi, HIP_VISIBLE_DEVICES and whether you may "
                                          "open /dev/kfd (groups render and video)"
                                        : "nvidia-smi and CUDA_VISIBLE_DEVICES");
  }
  for (size_t i = 0; i < facts.capabilities.size(); ++i) {
    const int capability = facts.capabilities[i];
    if (capability == 0 || has_code_for(capability, facts.module_code)) continue;
    return no_code_for(i, facts);
  }
  return {};
}

std::vector<std::string> loaded_torch_libraries() {
  std::vector<std::string> found;
  const auto add = [](dl_phdr_info* library, size_t /*size*/, void* to) {
    std::error_code fault;
    const std::filesystem::path path(library->dlpi_name);
    const auto name = path.filename().string();
    if (!name.starts_with("libtorch") && !name.starts_with("libc10")) return 0;
    const auto file = std::filesystem::canonical(path, fault);
    static_cast<std::vector<std::string>*>(to)->push_back((fault ? path : file).string());
    return 0;
  };
  dl_iterate_phdr(add, &found);
  return found;
}

std::string why_two_torch(const std::vector<std::string>& libraries) {
  const auto folder = [](const std::string& path) {
    return std::filesystem::path(path).parent_path().string();
  };
  for (const auto& library : libraries) {
    if (folder(library) == folder(libraries.front())) continue;
    return fmt::format(
        "two libtorch are mixed, {} and {}; expected one: take the other one out of "
        "LD_LIBRARY_PATH and LD_PRELOAD",
        libraries.front(), library);
  }
  return {};
}

bool has_code_for(int capability, const std::string& architectures) {
  std::istringstream entries(architectures);
  std::string entry;
  while (std::getline(entries, entry, ',')) {
    if (const int amd = amd_architecture(entry); amd != 0) {
      if (amd == capability) return true;
      continue;
    }
    const auto dash = entry.find('-');
    const auto kind = dash == std::string::npos ? "" : entry.substr(dash + 1);
    const int code = std::atoi(entry.c_str());
    const bool has_machine_code = kind != "virtual", has_ptx = kind != "real";
    if (has_machine_code && code / 10 == capability / 10 && code <= capability) return true;
    if (has_ptx && code > 0 && code <= capability) return true;
  }
  return false;
}

GpuFacts find_gpu_facts(const std::string& module_path) {
  GpuFacts facts{.driver_version = driver_version(),
                 .runtime_version = 0,
                 .module_path = module_path,
                 .module_version = {},
                 .module_code = {},
                 .capabilities = {}};
  const auto tell = loaded_function<decltype(&fovea_tell_of_module)>("fovea_tell_of_module");
  if (!tell) return facts;
  const auto told = tell();
  facts.module_version = told.version;
  facts.module_code = told.architectures;
  facts.runtime_version = told.runtime_version;
  const int count = at::globalContext().hasCUDA() ? at::detail::getCUDAHooks().getNumGPUs() : 0;
  for (int i = 0; i < count; ++i) facts.capabilities.push_back(told.capability_of(i));
  return facts;
}

}  // namespace fovea::kernels
