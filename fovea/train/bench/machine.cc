#include "fovea/train/bench/machine.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "fovea/core/files.h"
#include "fovea/core/host_name.h"
#include "fovea/core/json.h"
#include "fovea/core/loaded_library.h"
#include "fovea/core/memory.h"
#include "fovea/core/number_text.h"
#include "fovea/files/atomic_file.h"

namespace fovea::train {
namespace {

constexpr uint64_t kMaxMachineBytes = 1 << 20;  // some lines, one for each GPU
constexpr int kMaxMachineDepth = 4;

constexpr std::array<std::string_view, 9> kSimd = {"avx2",        "fma",      "f16c",
                                                   "avx512f",     "avx512bw", "avx512_vnni",
                                                   "avx512_bf16", "avx_vnni", "amx_bf16"};

// The value of the first line "key<spaces>:value" of a file of /proc.
std::string proc_value(const char* path, std::string_view key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    const auto colon = line.find(':');
    if (colon == std::string::npos || !line.starts_with(key)) continue;
    if (line.find_first_not_of(" \t", key.size()) != colon) continue;
    const auto value = line.find_first_not_of(" \t", colon + 1);
    return value == std::string::npos ? "" : line.substr(value);
  }
  return "";
}

std::vector<std::string> simd_of(const std::string& flags) {
  std::vector<std::string> found;
  std::istringstream words(flags);
  std::vector<std::string> all{std::istream_iterator<std::string>(words), {}};
  for (const auto& name : kSimd) {
    if (std::find(all.begin(), all.end(), name) != all.end()) found.emplace_back(name);
  }
  return found;
}

std::string os_name() {
  std::ifstream file("/etc/os-release");
  std::string line;
  while (std::getline(file, line)) {
    constexpr std::string_view kKey = "PRETTY_NAME=";
    if (!line.starts_with(kKey)) continue;
    auto name = line.substr(kKey.size());
    std::erase(name, '"');
    return name;
  }
  return "";
}

int64_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return sysconf(_SC_NPROCESSORS_ONLN);
}

// The few calls of the CUDA driver that tell its version and its devices, without CUDA's headers.
class CudaDriver {
 public:
  CudaDriver() {
    const auto init = library_.find<int (*)(unsigned)>("cuInit");
    is_ready_ = init && init(0) == 0;
  }

  std::string version() const {
    const auto get = library_.find<int (*)(int*)>("cuDriverGetVersion");
    int number = 0;
    if (!get || get(&number) != 0) return "";
    return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
  }

  std::vector<std::string> devices() const {
    const auto count_of = library_.find<int (*)(int*)>("cuDeviceGetCount");
    const auto name_of = library_.find<int (*)(char*, int, int)>("cuDeviceGetName");
    const auto memory_of = library_.find<int (*)(size_t*, int)>("cuDeviceTotalMem_v2");
    int count = 0;
    if (!is_ready_ || !count_of || !name_of || !memory_of || count_of(&count) != 0) return {};
    std::vector<std::string> out;
    for (int i = 0; i < count; ++i) {
      std::array<char, 128> name{};
      size_t bytes = 0;
      if (name_of(name.data(), name.size() - 1, i) != 0 || memory_of(&bytes, i) != 0) continue;
      out.push_back(fmt::format("{}, {}", name.data(), format_bytes(static_cast<double>(bytes))));
    }
    return out;
  }

 private:
  LoadedLibrary library_{"libcuda.so.1"};
  bool is_ready_ = false;
};

// The widest vectors there are.
std::string instruction_set(const Machine& machine) {
  for (const char* name : {"amx_bf16", "avx512_bf16", "avx512f", "avx2"}) {
    const auto& there = machine.simd;
    if (std::find(there.begin(), there.end(), name) != there.end()) return name;
  }
  return "no avx2";
}

}  // namespace

Machine this_machine() {
  Machine machine;
  machine.hostname = host_name("");
  machine.cpu = proc_value("/proc/cpuinfo", "model name");
  machine.simd = simd_of(proc_value("/proc/cpuinfo", "flags"));
  machine.num_cores = usable_cores();
  machine.memory_bytes = usable_memory_bytes();
  machine.os = os_name();
  utsname names{};
  if (uname(&names) == 0) machine.kernel = names.release;
  const CudaDriver driver;
  machine.cuda_driver = driver.version();
  machine.gpus = driver.devices();
  return machine;
}

std::string timestamp_now() {
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now));
}

double seconds_of_timestamp(const std::string& timestamp) {
  std::tm time{};
  const char* end = strptime(timestamp.c_str(), "%Y-%m-%dT%H:%M:%SZ", &time);
  if (!end || *end) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(timegm(&time));
}

std::string fingerprint_of(c10::Device device, int64_t threads) {
  const auto machine = this_machine();
  if (!device.is_cpu()) {
    const auto index = static_cast<size_t>(std::max<int>(0, device.index()));
    if (index < machine.gpus.size()) return machine.gpus[index];
    return device.str();
  }
  return fmt::format(
      "{}, {}, {} thread{}, {:.0f} GiB", machine.cpu.empty() ? "CPU" : machine.cpu,
      instruction_set(machine), threads, threads == 1 ? "" : "s",
      static_cast<double>(machine.memory_bytes) / static_cast<double>(int64_t{1} << 30));
}

std::string machine_to_json(const MachineFile& file) {
  const auto& machine = file.machine;
  const nlohmann::json out = {{"hostname", machine.hostname},
                              {"cpu", machine.cpu},
                              {"simd", machine.simd},
                              {"cores", machine.num_cores},
                              {"memory_bytes", machine.memory_bytes},
                              {"os", machine.os},
                              {"kernel", machine.kernel},
                              {"gpus", machine.gpus},
                              {"cuda_driver", machine.cuda_driver},
                              {"version", file.version},
                              {"torch_version", file.torch_version},
                              {"command", file.command},
                              {"device", file.device},
                              {"dtype", file.dtype},
                              {"threads", file.threads},
                              {"started", file.started},
                              {"ended", file.ended}};
  return json_text(out, 2) + "\n";
}

MachineFile machine_from_json(const std::string& text, const std::string& source) {
  const auto parsed = parse_json(text, source, kMaxMachineDepth);
  const JsonValue value(parsed, source);
  MachineFile file;
  auto& machine = file.machine;
  value.read("hostname", machine.hostname);
  value.read("cpu", machine.cpu);
  value.read("simd", machine.simd);
  value.read("cores", machine.num_cores);
  value.read("memory_bytes", machine.memory_bytes);
  value.read("os", machine.os);
  value.read("kernel", machine.kernel);
  value.read("gpus", machine.gpus);
  value.read("cuda_driver", machine.cuda_driver);
  value.read("version", file.version);
  value.read("torch_version", file.torch_version);
  value.read("command", file.command);
  value.read("device", file.device);
  value.read("dtype", file.dtype);
  value.read("threads", file.threads);
  value.read("started", file.started);
  value.read("ended", file.ended);
  return file;
}

void write_machine_file(const std::filesystem::path& path, const MachineFile& file) {
  write_file_atomic(path.string(), machine_to_json(file));
}

MachineFile read_machine_file(const std::filesystem::path& path) {
  return machine_from_json(read_file(path.string(), kMaxMachineBytes), path.string());
}

}  // namespace fovea::train
