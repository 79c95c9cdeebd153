// The machine a run is on: what machine.json of a run folder says, and what `fovea doctor` shows.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace fovea::train {

struct Machine {
  std::string hostname;
  std::string cpu;                // "AMD EPYC 9654 96-Core Processor"
  std::vector<std::string> simd;  // of avx2, fma, avx512f, avx512_bf16, amx_bf16 ...: what is there
  int64_t num_cores = 0;          // that this process may use
  int64_t memory_bytes = 0;  // that this process may use: of the machine, or its cgroup's limit
  std::string os;            // "Debian GNU/Linux 12 (bookworm)"
  std::string kernel;
  std::vector<std::string> gpus;  // "NVIDIA H200, 139.7 GiB"
  std::string cuda_driver;        // "13.0"; empty: no driver
};

// Asks the machine; the CUDA driver, where one is installed, by loading libcuda at run time.
Machine this_machine();

// Of a device of this machine: "AMD EPYC 9654 96-Core Processor, avx512_bf16, 8 threads, 62 GiB",
// "NVIDIA H200, 139.7 GiB": what makes passes take other times, and nothing of the host. threads:
// of the CPU.
std::string fingerprint_of(c10::Device device, int64_t threads);

// machine.json: the machine, and the run's own facts.
struct MachineFile {
  Machine machine;
  std::string version;        // of Fovea
  std::string torch_version;  // "2.11.0"
  std::string command;        // the command line
  std::string device;         // "cpu", "cuda:0"
  std::string dtype;          // of the activations
  int64_t threads = 0;
  std::string started;  // "2026-11-21T09:00:00Z"
  std::string ended;    // empty: still running, or killed
};

// "2026-11-21T09:00:00Z" of now.
std::string timestamp_now();
// Seconds since 1970 of such a text; NaN where it is none.
double seconds_of_timestamp(const std::string& timestamp);

std::string machine_to_json(const MachineFile& file);
MachineFile machine_from_json(const std::string& json, const std::string& source);

// Atomic. Throws Error when the folder cannot be written.
void write_machine_file(const std::filesystem::path& path, const MachineFile& file);
// Throws DataError for a file that is not one.
MachineFile read_machine_file(const std::filesystem::path& path);

}  // namespace fovea::train
