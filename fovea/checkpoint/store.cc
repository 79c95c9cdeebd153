#include "fovea/checkpoint/store.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <new>
#include <thread>

#include "fovea/checkpoint/durable.h"
#include "fovea/checkpoint/manifest.h"
#include "fovea/checkpoint/slice_reader.h"
#include "fovea/checkpoint/tensor_files.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/log.h"
#include "fovea/files/atomic_file.h"

namespace fovea::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxLineBytes = 4096;  // of files of one line: a folder's name, a message
constexpr std::chrono::seconds kPublishPatience{10};
constexpr std::chrono::milliseconds kPublishTick{50};
constexpr std::string_view kTemporaryPrefix = ".tmp-";
constexpr std::string_view kStepPrefix = "step_";

TensorMap copy_to_cpu(const TensorMap& tensors) {
  TensorMap copies;
  for (const auto& [name, tensor] : tensors) {
    auto copy = at::empty(tensor.sizes(), tensor.options().device(at::kCPU).requires_grad(false));
    copies[name] = copy.copy_(tensor.detach());
  }
  return copies;
}

std::optional<int64_t> step_of(const std::string& folder_name) {
  if (!folder_name.starts_with(kStepPrefix)) return {};
  const char* begin = folder_name.data() + kStepPrefix.size();
  const char* end = folder_name.data() + folder_name.size();
  int64_t step = 0;
  const auto [stop, error] = std::from_chars(begin, end, step);
  const bool is_whole = stop == end || *stop == '_';  // behind it, a label
  return error == std::errc() && is_whole && step >= 0 ? std::optional(step) : std::nullopt;
}

bool is_pointer(const std::string& which) { return which == "best" || which == "latest"; }

std::string folder_name(int64_t step, const std::string& label) {
  return fmt::format("{}{:08d}{}{}", kStepPrefix, step, label.empty() ? "" : "_", label);
}

std::string file_name(std::string_view part, int64_t writer) {
  return fmt::format("{}-{:05d}.safetensors", part, writer);
}

std::string failure_name_of(int64_t writer) { return fmt::format("failed-{}.txt", writer); }

std::string first_line_of(const fs::path& path) {
  const auto start = read_start(path.string(), kMaxLineBytes);
  return start.substr(0, start.find_first_of("\r\n"));
}

// The file that holds all of a part's tensors whole; empty: there are several.
std::string only_file_of(const Manifest& manifest, const std::string& part) {
  std::string only;
  for (const auto& [name, tensor] : manifest.tensors.at(part)) {
    if (tensor.slices.size() != 1 || tensor.slices[0].size != tensor.shape) return {};
    if (!only.empty() && only != tensor.slices[0].file) return {};
    only = tensor.slices[0].file;
  }
  return only;
}

// A part put together from what several processes wrote, as a file of its own.
std::string joined_file(const fs::path& folder, const std::string& part, const Manifest& manifest) {
  const auto name = part + ".safetensors";
  const auto temporary = fmt::format("{}.{}.tmp", name, ::getpid());
  Manifest unused;
  fs::remove(folder / temporary);
  write_tensors(folder, temporary, part, read_tensors(folder, part, manifest), unused);
  fs::rename(folder / temporary, folder / name);
  return (folder / name).string();
}

// Removes a folder that did not become a checkpoint.
class RemoveUnlessMoved {
 public:
  explicit RemoveUnlessMoved(const fs::path& path) : path_(path) {}
  ~RemoveUnlessMoved() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  RemoveUnlessMoved(const RemoveUnlessMoved&) = delete;
  RemoveUnlessMoved& operator=(const RemoveUnlessMoved&) = delete;

 private:
  const fs::path& path_;
};

State load_state(const fs::path& folder, const WantedParts& wanted) {
  const auto manifest = read_manifest(folder);
  State state;
  state.scalars = manifest.scalars;
  state.source = (folder / "manifest.json").string();
  const auto read = [&](const std::string& part) {
    const auto of = wanted.find(part);
    if (of == wanted.end()) return read_tensors(folder, part, manifest);
    const auto saved = manifest.tensors.find(part);
    for (const auto& [name, own] : of->second) {
      if (saved == manifest.tensors.end()) break;
      const auto tensor = saved->second.find(name);
      const bool fits = tensor != saved->second.end() && own.part.shape == tensor->second.shape;
      if (fits) state.parts[part][name] = own.part;
    }
    return read_tensors(folder, part, manifest, of->second);
  };
  state.model = read("model");
  state.optimizer = read("optimizer");
  if (manifest.tensors.contains("ema")) state.ema = read("ema");
  for (const auto& name : manifest.not_averaged) state.ema.erase(name);
  return state;
}

}  // namespace

struct Store::Snapshot {
  int64_t step = 0;
  std::string name;  // of its folder
  State state;
  bool is_best = false;
};

Store::Store(std::string folder, StoreOptions options)
    : folder_(std::move(folder)), options_(std::move(options)) {
  FOVEA_CHECK(options_.keep >= 1, "checkpoint.keep={}; expected 1 or more", options_.keep);
  if (!options_.warn) {
    options_.warn = [](const std::string& message) { log_warning(message); };
  }
}

Store::~Store() {
  is_next_there_ = true;  // nothing waits for an answer any more
  try {
    wait();
  } catch (const std::exception& error) {
    options_.warn(error.what());
  }
}

std::map<int64_t, std::string> Store::folders() const {
  std::map<int64_t, std::string> result;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    const auto name = entry.path().filename().string();
    if (const auto step = step_of(name)) result[*step] = name;
  }
  if (error && error != std::errc::no_such_file_or_directory) {  // no reason to start from step 0
    fail<CheckpointError>("{}: cannot be looked through: {}", folder_.string(), error.message());
  }
  return result;
}

std::vector<int64_t> Store::steps() const {
  std::vector<int64_t> result;
  for (const auto& [step, name] : folders()) result.push_back(step);
  return result;
}

void Store::save(int64_t step, const State& state, bool is_best, const std::string& label) {
  is_next_there_ = true;
  wait();
  is_next_there_ = false;
  auto snapshot =
      std::make_shared<Snapshot>(Snapshot{step,
                                          folder_name(step, label),
                                          {copy_to_cpu(state.model), copy_to_cpu(state.optimizer),
                                           copy_to_cpu(state.ema), state.scalars, state.parts},
                                          is_best});
  refused_.erase(step);  // what stands there is about to be replaced
  if (options_.num_writers > 1) {
    if (options_.writer == 0) prepare(temporary_folder(snapshot->name));
    options_.barrier();
    if (options_.writer > 0) {
      writing_ = std::async(std::launch::async, [this, snapshot] { write_part(*snapshot); });
      if (!options_.async) wait();
      return;
    }
  }
  writing_ = std::async(std::launch::async, [this, snapshot] { write(*snapshot); });
  if (!options_.async) wait();
}

void Store::check() {
  using std::chrono::seconds;
  if (writing_.valid() && writing_.wait_for(seconds(0)) == std::future_status::ready) wait();
}

void Store::wait() {
  if (writing_.valid()) writing_.get();
}

fs::path Store::temporary_folder(const std::string& name) const {
  return folder_ / fmt::format("{}{}", kTemporaryPrefix, name);
}

void Store::prepare(const fs::path& temporary) const {
  try {
    fs::create_directories(folder_);
    remove_leftovers();
    fs::create_directory(temporary);
  } catch (const std::exception& error) {
    fail<CheckpointError>("{}: {}; the checkpoints before it are untouched", temporary.string(),
                          error.what());
  }
}

// What a process beside the first does: its files, then its manifest, which says that they are
// there.
void Store::write_part(const Snapshot& snapshot) const {
  const auto temporary = temporary_folder(snapshot.name);
  try {
    const auto manifest = write_files(snapshot, temporary);
    write_file_atomic(temporary / manifest_name_of(options_.writer), manifest.to_text());
  } catch (const std::exception& error) {
    try {
      write_file_atomic(temporary / failure_name_of(options_.writer), error.what());
    } catch (const std::exception&) {  // the first process will miss the manifest
    }
    fail<CheckpointError>("checkpoint of step {}, part {}: {}; the checkpoints before it are whole",
                          snapshot.step, options_.writer, error.what());
  }
}

void Store::join_parts(Manifest& manifest, const fs::path& temporary) const {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  for (int64_t writer = 1; writer < options_.num_writers; ++writer) {
    const auto name = manifest_name_of(writer);
    while (!is_there(temporary / name)) {
      const auto failure = temporary / failure_name_of(writer);
      if (is_there(failure)) {
        fail<CheckpointError>("process {} of {} could not write its part: {}", writer,
                              options_.num_writers, first_line_of(failure));
      }
      if (options_.others_are_lost && options_.others_are_lost()) {
        fail<CheckpointError>(
            "it is dropped, as process {} of {} was lost before it had written "
            "its part, or another one was",
            writer, options_.num_writers);
      }
      if (std::chrono::duration<double>(Clock::now() - start).count() > options_.patience) {
        fail<CheckpointError>("process {} of {} did not write its part within {} s", writer,
                              options_.num_writers, options_.patience);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    join(manifest, read_manifest(temporary, name));
    fs::remove(temporary / name);
  }
}

bool Store::may_publish() const {
  using Clock = std::chrono::steady_clock;
  if (!options_.may_publish) return true;
  for (const auto end = Clock::now() + kPublishPatience;;) {
    const auto answer = options_.may_publish();
    if (answer != Publishing::kUnknown) return answer == Publishing::kYes;
    if (is_next_there_ || Clock::now() > end) return false;
    std::this_thread::sleep_for(kPublishTick);
  }
}

void Store::write(const Snapshot& snapshot) const {
  try {
    const auto temporary = temporary_folder(snapshot.name);
    if (options_.num_writers == 1) prepare(temporary);
    const RemoveUnlessMoved cleaner(temporary);
    const auto before = folders();
    auto manifest = write_files(snapshot, temporary);
    join_parts(manifest, temporary);
    const auto text = manifest.to_text();
    DurableFile file(temporary / "manifest.json");
    file.write(text.data(), text.size());
    const auto sum = file.finish();
    sync_folder(temporary);
    if (!may_publish()) {
      options_.warn(fmt::format(
          "checkpoint of step {}: it is dropped, as this process may not publish it; the "
          "checkpoints before it are untouched",
          snapshot.step));
      return;
    }
    move_folder(temporary, folder_ / snapshot.name);
    if (options_.published) {
      options_.published({snapshot.step, snapshot.name, sum, snapshot.state.scalars});
    }
    const auto old = before.find(snapshot.step);
    const bool was_best = old != before.end() && old->second == pointer("best");
    write_file_atomic(folder_ / "latest", snapshot.name + "\n");
    if (snapshot.is_best || was_best) write_file_atomic(folder_ / "best", snapshot.name + "\n");
    if (old != before.end() && old->second != snapshot.name) remove(old->second);
    prune();
  } catch (const CheckpointError&) {
    throw;
  } catch (const std::bad_alloc&) {  // no fault of the disk, and another exit code
    throw;
  } catch (const std::exception& error) {
    fail<CheckpointError>("checkpoint of step {}: {}; the checkpoints before it are untouched",
                          snapshot.step, error.what());
  }
}

Manifest Store::write_files(const Snapshot& snapshot, const fs::path& temporary) const {
  const auto& state = snapshot.state;
  Manifest manifest;
  manifest.step = snapshot.step;
  manifest.scalars = state.scalars;
  const auto write_one = [&](const std::string& part, const TensorMap& tensors) {
    const auto parts = state.parts.find(part);
    write_tensors(
        temporary, file_name(part, options_.writer), part, tensors, manifest,
        parts == state.parts.end() ? std::map<std::string, kernels::TensorPart>() : parts->second);
  };
  write_one("model", state.model);
  write_one("optimizer", state.optimizer);
  if (!state.ema.empty()) {
    // The files hold all weights of a model, so that they can be used as they are.
    TensorMap weights = state.ema;
    for (const auto& [name, tensor] : state.model) {
      if (weights.emplace(name, tensor).second) manifest.not_averaged.push_back(name);
    }
    write_one("ema", weights);
  }
  return manifest;
}

void Store::remove_leftovers() const {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const auto name = entry.path().filename().string();
    const bool is_leftover = name.starts_with(kTemporaryPrefix) || name.starts_with("latest.") ||
                             name.starts_with("best.");
    if (is_leftover) fs::remove_all(entry.path(), ignored);
  }
}

void Store::prune() const {
  const std::set<std::string> pointed = {pointer("latest"), pointer("best")};
  const auto all = folders();
  int64_t kept = 0;
  for (auto item = all.rbegin(); item != all.rend(); ++item) {
    const auto& [step, name] = *item;
    if (refused_.contains(step) || kept++ < options_.keep) continue;
    if (!pointed.contains(name)) remove(name);
  }
}

void Store::remove(const std::string& name) const {
  // Renamed first: a deletion cut short must not leave half a checkpoint under its name.
  const auto doomed = folder_ / fmt::format("{}old-{}", kTemporaryPrefix, name);
  fs::rename(folder_ / name, doomed);
  fs::remove_all(doomed);
}

std::string Store::pointer(const std::string& which) const {
  std::string name;
  try {
    if (is_there(folder_ / which)) name = first_line_of(folder_ / which);
  } catch (const DataError& error) {  // the checkpoints are found without it
    options_.warn(error.what());
  }
  return step_of(name) && name.find('/') == name.npos ? name : std::string();
}

std::optional<State> Store::load_latest(const WantedParts& wanted, const Agreement& agreement) {
  wait();
  for (;;) {
    const auto step = agreement.newest(agreement.is_first ? newest().value_or(-1) : -1);
    if (step < 0) return {};
    std::optional<State> found;
    std::string own;
    try {
      found = load(step, wanted);
    } catch (const CheckpointError& error) {
      own = error.what();
    }
    const auto fault = agreement.fault(own);
    if (fault.empty()) return found;
    if (agreement.is_first) refuse(step, fault);
  }
}

std::optional<int64_t> Store::newest() const {
  const auto all = folders();
  for (auto item = all.rbegin(); item != all.rend(); ++item) {
    if (!refused_.contains(item->first)) return item->first;
  }
  if (all.empty()) return {};
  std::string faults;
  for (auto item = all.rbegin(); item != all.rend(); ++item) {
    faults +=
        fmt::format("\n  {}: {}", (folder_ / item->second).string(), refused_.at(item->first));
  }
  fail<CheckpointError>(
      "{}: none of the {} checkpoints is whole:{}\nRestore one from a backup, or start again in "
      "another run.dir",
      folder_.string(), all.size(), faults);
}

void Store::refuse(int64_t step, const std::string& fault) {
  const auto all = folders();
  const auto found = all.find(step);
  const auto name = found == all.end() ? folder_name(step, "") : found->second;
  options_.warn(fmt::format("damaged checkpoint {}: {}; using the one before it",
                            (folder_ / name).string(), fault));
  refused_[step] = fault;
}

State Store::load(int64_t step, const WantedParts& wanted) const {
  const auto all = folders();
  const auto found = all.find(step);
  if (found == all.end()) {
    fail<CheckpointError>(
        "{}: no checkpoint of step {} here; expected a run folder that all processes see",
        folder_.string(), step);
  }
  try {
    return load_state(folder_ / found->second, wanted);
  } catch (const DataError& error) {
    throw CheckpointError(error.what());
  }
}

std::optional<int64_t> Store::step_named(const std::string& which) const {
  const auto step = step_of(is_pointer(which) ? pointer(which) : which);
  return step && folders().contains(*step) ? step : std::nullopt;
}

std::string Store::weights_file(const std::string& which) const {
  FOVEA_CHECK(is_pointer(which) || step_of(which), "checkpoint '{}'; expected best or latest",
              which);
  const auto name = is_pointer(which) ? pointer(which) : which;
  if (name.empty()) {
    fail<CheckpointError>("{}: no {} checkpoint yet", folder_.string(), which);
  }
  const auto path = folder_ / name;
  if (!is_folder(path)) {
    fail<CheckpointError>(
        "{}: found {}, which is not there; expected the name of a folder beside it",
        (folder_ / which).string(), name);
  }
  try {
    const auto manifest = read_manifest(path);
    const std::string part = manifest.tensors.contains("ema") ? "ema" : "model";
    const auto only = only_file_of(manifest, part);
    if (only.empty()) return joined_file(path, part, manifest);
    for (const auto& entry : manifest.files) {
      if (entry.name == only) {
        verify_file(path, entry);
        return (path / entry.name).string();
      }
    }
    fail<CheckpointError>("no file {} in it", only);
  } catch (const Error& error) {
    fail<CheckpointError>("damaged checkpoint {}: {}; use another one", path.string(),
                          error.what());
  }
}

}  // namespace fovea::checkpoint
