#include "fovea/kernels/device.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <atomic>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "fovea/core/error.h"
#include "fovea/core/parse_number.h"
#include "fovea/core/program_files.h"
#include "fovea/kernels/cuda/module.h"
#include "fovea/kernels/gpu_facts.h"
#include "fovea/kernels/linear/product_choices.h"
#include "fovea/kernels/loaded_function.h"

namespace fovea::kernels {
namespace {

namespace fs = std::filesystem;

// An error text, or nothing. Libraries stay loaded for the life of the process.
std::optional<std::string> open_library(const std::string& path) {
  if (dlopen(path.c_str(), RTLD_LAZY | RTLD_GLOBAL)) return std::nullopt;
  const char* message = dlerror();
  return message ? message : "unknown error";
}

// The folder of libtorch_cpu.so, from the address of one of its functions.
fs::path torch_folder() {
  Dl_info info{};
  if (!dladdr(reinterpret_cast<void*>(&at::get_num_threads), &info) || !info.dli_fname) return {};
  return fs::path(info.dli_fname).parent_path();
}

std::atomic<int> default_gpu{0};

// What is missing of it, or nothing.
std::optional<std::string> open_driver(const fs::path& driver) {
  if (!driver.is_absolute()) return open_library(driver.string());
  std::error_code fault;
  if (fs::exists(driver, fault)) return std::nullopt;
  return fmt::format("{} is not there", driver.string());
}

CudaBackend load() {
  const auto& stack = gpu_stack_of(torch_folder());
  if (const auto error = open_driver(stack.driver)) {
    return {.reason = fmt::format("no {} driver ({}); computing on the CPU", stack.vendor, *error)};
  }
  const auto torch_gpu = torch_folder() / stack.torch;
  const auto error = open_library(torch_gpu.string());
  if (auto mixed = why_two_torch(loaded_torch_libraries()); !mixed.empty()) {
    return {.reason = std::move(mixed)};
  }
  if (error) {
    return {.reason =
                fmt::format("a driver is there, but {} does not load: {}. Install the {} "
                            "libraries that it names, or put their folder into LD_LIBRARY_PATH",
                            torch_gpu.string(), *error, stack.platform)};
  }
  // Beside the program when installed; above it in a build folder (build/apps/fovea, build/tests).
  const auto module = find_near_program({stack.module, fmt::format("lib/{}", stack.module)},
                                        /*num_folders=*/3);
  if (!module) {
    return {.reason = fmt::format(
                "a driver is there, but {} is not beside the program or in the folders above it; "
                "build {}",
                stack.module, stack.how_to_build)};
  }
  if (const auto error = open_library(module->string())) {
    return {.reason = fmt::format("{} does not load: {}", module->string(), *error)};
  }
  const auto facts = find_gpu_facts(module->string());
  if (auto why_not = why_no_gpu(facts, FOVEA_VERSION); !why_not.empty()) {
    return {.reason = std::move(why_not)};
  }
  const int num_devices = static_cast<int>(facts.capabilities.size());
  const auto use =
      loaded_function<decltype(&fovea_use_product_choices)>("fovea_use_product_choices");
  if (use != nullptr) {
    use(&product_choices());
  }
  return {.is_loaded = true,
          .num_devices = num_devices,
          .reason = fmt::format("{} GPU(s), {}", num_devices, module->string())};
}

// The n of "cuda:n"; nothing if it is not a number.
std::optional<int> parse_index(std::string_view text) {
  const auto index = parse_number<int>(text);
  return index && *index >= 0 ? index : std::nullopt;
}

}  // namespace

const CudaBackend& load_cuda_backend() {
  static const CudaBackend backend = load();
  return backend;
}

void set_default_gpu(int index) {
  default_gpu = index;
  if (!load_cuda_backend().is_loaded || index >= load_cuda_backend().num_devices) return;
  // What names no GPU, libtorch's own scratch memory among it, is this thread's current one.
  const c10::Device gpu(c10::kCUDA, static_cast<c10::DeviceIndex>(index));
  c10::impl::VirtualGuardImpl(c10::kCUDA).setDevice(gpu);
}

c10::Device resolve_device(const std::string& name) {
  if (name == "cpu") return c10::Device(c10::kCPU);
  if (name == "auto") {
    if (!load_cuda_backend().is_loaded) return c10::Device(c10::kCPU);
    return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(default_gpu.load()));
  }
  std::optional<int> index;
  if (name == "cuda") index = default_gpu;
  if (name.rfind("cuda:", 0) == 0) index = parse_index(std::string_view(name).substr(5));
  if (!index) {
    fail<ConfigError>("device '{}' is unknown; expected auto, cpu, cuda or cuda:N with N from 0",
                      name);
  }
  const auto& backend = load_cuda_backend();
  if (!backend.is_loaded) {
    fail<ConfigError>(
        "device '{}' cannot be used: {}. Use device.type=cpu or auto to go on "
        "without a GPU",
        name, backend.reason);
  }
  if (*index >= backend.num_devices) {
    fail<ConfigError>("device '{}' is not there: this machine shows {} GPU(s), numbered from 0",
                      name, backend.num_devices);
  }
  return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(*index));
}

void synchronize(c10::Device device) {
  if (device.is_cpu()) return;
  c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

}  // namespace fovea::kernels
