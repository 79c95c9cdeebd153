// fovea doctor: what this machine has, what is missing, how to get it.
#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/wait.h>
#include <torch/headeronly/version.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/output.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/core/machine_load.h"
#include "fovea/core/number_text.h"
#include "fovea/core/program_files.h"
#include "fovea/kernels/device.h"
#include "fovea/kernels/kernel_paths.h"
#include "fovea/kernels/linear/int8_products.h"
#include "fovea/parallel/host_backend.h"
#include "fovea/train/bench/machine.h"

extern char** environ;

namespace fovea::app {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLeastMemory = int64_t{1} << 30;
constexpr uintmax_t kLeastDisk = uintmax_t{256} << 20;
constexpr const char* kFashionMnist = "/usr/share/datasets/fashion-mnist";  // Debian's package

// kMissing: training cannot run without it; kOptional: it can, less well or without a part.
enum class State { kOk, kOptional, kMissing };

struct Finding {
  std::string name;
  State state = State::kOk;
  std::string found = {};
  std::string advice = {};             // what to do; empty: nothing
  std::vector<std::string> more = {};  // what was found besides, a line each
};

Finding check_processor(const train::Machine& machine) {
  return {.name = "processor",
          .found = fmt::format("{}, {} core{}", machine.cpu, machine.num_cores,
                               machine.num_cores == 1 ? "" : "s")};
}

// Over a quarter of a second, in which this process sleeps.
Finding check_load() {
  MachineLoadMeter meter;
  constexpr auto kTime = std::chrono::milliseconds(250);
  std::this_thread::sleep_for(kTime);
  const auto load = meter.read(kTime);
  Finding finding{.name = "load", .found = load ? load->text() : "unknown"};
  if (!load || load->others < 0.25 * static_cast<double>(load->cores)) return finding;
  finding.state = State::kOptional;
  finding.advice =
      "training is slower beside other programs; wait for them, or keep cores apart "
      "with taskset";
  return finding;
}

Finding check_simd(const train::Machine& machine) {
  const auto has = [&](const char* name) {
    return std::find(machine.simd.begin(), machine.simd.end(), name) != machine.simd.end();
  };
  Finding finding{.name = "instructions", .found = fmt::format("{}", fmt::join(machine.simd, " "))};
  if (!has("avx2")) {
    finding.state = State::kOptional;
    finding.advice = "without AVX2 training works, several times slower; use a newer processor";
  } else if (!has("avx512_bf16") && !has("amx_bf16")) {
    finding.advice = "no bfloat16 instructions: device.dtype=float32 is the faster choice here";
  }
  return finding;
}

// What computes each operation on the CPU.
Finding check_kernels() {
  Finding finding{.name = "kernels"};
  const auto& paths = kernels::kernel_paths();
  for (const auto op : kernels::kernel_ops()) {
    finding.more.push_back(fmt::format("{:<10} {}{}", kernels::kernel_op_name(op), paths.text(op),
                                       paths.is_forced(op) ? " (forced)" : ""));
  }
  finding.more.push_back(
      fmt::format("{:<10} {}", "int8", kernels::cpu::int8_form_name(kernels::int8_form())));
  const auto all = kernels::kernel_ops();
  const bool is_forced = std::any_of(all.begin(), all.end(),
                                     [&](kernels::KernelOp op) { return paths.is_forced(op); });
  finding.found = is_forced ? "some are forced by FOVEA_KERNELS, which is for tests: unset it"
                            : "by the processor";
  return finding;
}

Finding check_memory(const train::Machine& machine) {
  Finding finding{.name = "memory",
                  .found = format_bytes(static_cast<double>(machine.memory_bytes))};
  if (machine.memory_bytes < kLeastMemory) {
    finding.state = State::kMissing;
    finding.advice = "1 GiB is needed for the smallest recipe; raise the limit of this process";
  }
  return finding;
}

// Whether a run folder can be made here, and how much goes into it.
Finding check_disk() {
  std::error_code error;
  const auto here = fs::current_path(error);
  const auto space = fs::space(here, error);
  Finding finding{
      .name = "disk",
      .found = fmt::format("{} free in {}", format_bytes(static_cast<double>(space.available)),
                           here.string())};
  if (access(here.c_str(), W_OK) != 0) {
    finding.state = State::kMissing;
    finding.found += ", not writable";
    finding.advice = "run folders are made here; go to a folder of yours, or set run.dir";
  } else if (space.available < kLeastDisk) {
    finding.state = State::kMissing;
    finding.advice = "checkpoints need space; free some, or set run.dir to another disk";
  }
  return finding;
}

Finding check_torch() {
  Dl_info info{};
  std::string folder = "an unknown folder";
  if (dladdr(reinterpret_cast<void*>(&at::get_num_threads), &info) != 0 && info.dli_fname) {
    folder = fs::path(info.dli_fname).parent_path().string();
  }
  return {.name = "libtorch", .found = fmt::format("{} in {}", TORCH_VERSION, folder)};
}

Finding check_gpu(const train::Machine& machine) {
  const auto& backend = kernels::load_cuda_backend();
  Finding finding{.name = "GPU", .found = fmt::format("{}", fmt::join(machine.gpus, "; "))};
  if (machine.gpus.empty()) finding.found = "none";
  if (!machine.cuda_driver.empty()) {
    finding.found += fmt::format(" (driver for CUDA {})", machine.cuda_driver);
  }
  if (backend.is_loaded) {
    finding.found += "; " + backend.reason;
  } else {
    finding.state = State::kOptional;
    finding.advice = backend.reason;
  }
  return finding;
}

// What carries tensors between ranks of this machine.
Finding check_ranks() {
  const auto why_not = parallel::why_no_shared_memory();
  Finding finding{.name = "ranks", .found = "share memory"};
  if (!why_not.empty()) {
    finding.state = State::kOptional;
    finding.found = "exchange tensors by Gloo";
    finding.advice = fmt::format("they cannot share memory, which is faster: {}", why_not);
  }
  return finding;
}

// What a program prints on standard output; nothing where it cannot be started or fails. Its
// standard error is dropped.
std::optional<std::string> output_of(const std::vector<std::string>& words) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
  std::vector<char*> arguments;
  for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int failed =
      posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t count; !failed && (count = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<size_t>(count));
  }
  close(ends[0]);
  int status = 0;
  if (failed || waitpid(child, &status, 0) < 0 || status != 0) return std::nullopt;
  return text;
}

// Python serves only what Fovea has no part of its own for: wandb's client, TensorBoard's viewer,
// comparisons with timm.
Finding check_python() {
  const auto python = python_program();
  const auto versions = output_of({python, "-c",
                                   "import sys, importlib.metadata as m\n"
                                   "print('.'.join(map(str, sys.version_info[:3])))\n"
                                   "for name in ('timm', 'tensorboard', 'wandb'):\n"
                                   "  try: print(name, m.version(name))\n"
                                   "  except m.PackageNotFoundError: pass\n"});
  Finding finding{.name = "Python"};
  if (!versions) {
    finding.state = State::kOptional;
    finding.found = python + " does not start";
    finding.advice = python != "python3" ? "set FOVEA_PYTHON to a Python 3"
                                         : "apt-get install python3, for wandb and TensorBoard";
    return finding;
  }
  auto words = *versions;
  while (words.ends_with('\n')) words.pop_back();
  for (size_t at = 0; (at = words.find('\n', at)) != std::string::npos;) words.replace(at, 1, ", ");
  finding.found = fmt::format("{} {}", python, words);
  std::vector<std::string> missing;
  for (const char* name : {"timm", "tensorboard", "wandb"}) {
    if (words.find(name) == std::string::npos) missing.emplace_back(name);
  }
  if (missing.empty()) return finding;
  finding.state = State::kOptional;
  finding.advice = fmt::format(
      "no {}; for log.wandb, the viewer of TensorBoard and comparisons with timm: "
      "tools/setup/python_env .venv && export FOVEA_PYTHON=$PWD/.venv/bin/python (or pip install "
      "{})",
      fmt::join(missing, ", "), fmt::join(missing, " "));
  return finding;
}

Finding check_data() {
  std::vector<std::string> missing;
  for (const char* part : {"train", "t10k"}) {
    for (const char* kind : {"images-idx3", "labels-idx1"}) {
      const auto name = fmt::format("{}-{}-ubyte", part, kind);
      const auto path = fs::path(kFashionMnist) / name;
      if (!fs::exists(path) && !fs::exists(path.string() + ".gz")) missing.push_back(name);
    }
  }
  Finding finding{.name = "first data", .found = fmt::format("Fashion-MNIST in {}", kFashionMnist)};
  if (!missing.empty()) {
    finding.state = State::kOptional;
    finding.found = "no Fashion-MNIST";
    finding.advice = "for the first run: apt-get install dataset-fashion-mnist";
  }
  return finding;
}

std::vector<Finding> examine() {
  const auto machine = train::this_machine();
  std::vector<Finding> findings = {
      {.name = "fovea", .found = FOVEA_VERSION},
      {.name = "system", .found = fmt::format("{}, Linux {}", machine.os, machine.kernel)}};
  for (auto&& finding : {check_processor(machine), check_load(), check_simd(machine),
                         check_kernels(), check_memory(machine), check_disk(), check_torch(),
                         check_gpu(machine), check_ranks(), check_python(), check_data()}) {
    findings.push_back(finding);
  }
  return findings;
}

const char* word_of(State state) {
  return state == State::kOk ? "ok" : state == State::kOptional ? "optional" : "missing";
}

void print_text(const std::vector<Finding>& findings, bool can_train) {
  for (const auto& [name, state, found, advice, more] : findings) {
    const char* mark = state == State::kOk ? "ok" : state == State::kOptional ? "--" : "NO";
    say("{:<3} {:<13} {}\n", mark, name, found);
    for (const auto& line : more) say("                  {}\n", line);
    if (!advice.empty()) say("                  {}\n", advice);
  }
  say("\n{}\n", can_train ? "Training can run on this machine."
                          : "Training cannot run here: see the lines marked NO.");
}

// {"linear": {"float32": "onednn", "bfloat16": "avx512_bf16", "forced": false}, ...}
nlohmann::ordered_json kernels_json() {
  auto json = nlohmann::ordered_json::object();
  const auto& paths = kernels::kernel_paths();
  for (const auto op : kernels::kernel_ops()) {
    const auto name_of = [&](at::ScalarType dtype) {
      const auto& [path, is_as_float] = paths.of(op, dtype);
      return fmt::format("{}{}", is_as_float ? "float32 " : "", kernels::kernel_path_name(path));
    };
    json[kernels::kernel_op_name(op)] = {{"float32", name_of(at::kFloat)},
                                         {"bfloat16", name_of(at::kBFloat16)},
                                         {"forced", paths.is_forced(op)}};
  }
  return json;
}

void print_json(const std::vector<Finding>& findings, bool can_train) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& [name, state, found, advice, more] : findings) {
    list.push_back(
        {{"name", name}, {"state", word_of(state)}, {"found", found}, {"advice", advice}});
  }
  const nlohmann::ordered_json out = {
      {"can_train", can_train}, {"findings", list}, {"kernels", kernels_json()}};
  say_as_is("{}\n", json_text(out));
}

void run(bool json) {
  const auto findings = examine();
  const bool can_train = std::none_of(findings.begin(), findings.end(), [](const auto& finding) {
    return finding.state == State::kMissing;
  });
  if (json) {
    print_json(findings, can_train);
  } else {
    print_text(findings, can_train);
  }
  if (!can_train) throw ExitRequest{static_cast<int>(ExitCode::kUsage)};
}

}  // namespace

void add_doctor(Command app) {
  auto command = app.add_command("doctor", "What this machine has, what is missing, how to get it");
  auto json = std::make_shared<bool>(false);
  command.add_flag("--json", *json,
                   "print one JSON object on standard output and nothing else there");
  command.examples({"fovea doctor", "fovea doctor --json"});
  command.callback([json] { run(*json); });
}

}  // namespace fovea::app
