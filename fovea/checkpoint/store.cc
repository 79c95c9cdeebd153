#include "fovea/checkpoint/store.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <fstream>

#include "fovea/checkpoint/durable.h"
#include "fovea/checkpoint/manifest.h"
#include "fovea/checkpoint/tensor_files.h"
#include "fovea/core/atomic_file.h"
#include "fovea/core/error.h"
#include "fovea/core/log.h"

namespace fovea::checkpoint {
namespace {

namespace fs = std::filesystem;

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

std::string folder_name(int64_t step, const std::string& label) {
  return fmt::format("{}{:08d}{}{}", kStepPrefix, step, label.empty() ? "" : "_", label);
}

std::string file_name(std::string_view part) { return fmt::format("{}-00000.safetensors", part); }

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

State load_state(const fs::path& folder) {
  const auto manifest = read_manifest(folder);
  State state;
  state.scalars = manifest.scalars;
  state.model = read_tensors(folder, "model", manifest);
  state.optimizer = read_tensors(folder, "optimizer", manifest);
  state.ema = read_tensors(folder, "ema", manifest);
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
  return result;
}

std::vector<int64_t> Store::steps() const {
  std::vector<int64_t> result;
  for (const auto& [step, name] : folders()) result.push_back(step);
  return result;
}

void Store::save(int64_t step, const State& state, bool is_best, const std::string& label) {
  wait();
  auto snapshot =
      std::make_shared<Snapshot>(Snapshot{step,
                                          folder_name(step, label),
                                          {copy_to_cpu(state.model), copy_to_cpu(state.optimizer),
                                           copy_to_cpu(state.ema), state.scalars},
                                          is_best});
  refused_.erase(step);  // what stands there is about to be replaced
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

void Store::write(const Snapshot& snapshot) const {
  try {
    fs::create_directories(folder_);
    remove_leftovers();
    const auto before = folders();
    const auto temporary = folder_ / fmt::format("{}{}", kTemporaryPrefix, snapshot.name);
    const RemoveUnlessMoved cleaner(temporary);
    fs::create_directory(temporary);
    write_files(snapshot, temporary);
    move_folder(temporary, folder_ / snapshot.name);
    const auto old = before.find(snapshot.step);
    const bool was_best = old != before.end() && old->second == pointer("best");
    write_file_atomic(folder_ / "latest", snapshot.name + "\n");
    if (snapshot.is_best || was_best) write_file_atomic(folder_ / "best", snapshot.name + "\n");
    if (old != before.end() && old->second != snapshot.name) remove(old->second);
    prune();
  } catch (const CheckpointError&) {
    throw;
  } catch (const std::exception& error) {
    fail<CheckpointError>("checkpoint of step {}: {}; the checkpoints before it are untouched",
                          snapshot.step, error.what());
  }
}

void Store::write_files(const Snapshot& snapshot, const fs::path& temporary) const {
  Manifest manifest;
  manifest.step = snapshot.step;
  manifest.scalars = snapshot.state.scalars;
  write_tensors(temporary, file_name("model"), "model", snapshot.state.model, manifest);
  write_tensors(temporary, file_name("optimizer"), "optimizer", snapshot.state.optimizer, manifest);
  if (!snapshot.state.ema.empty()) {
    // The file holds all weights of a model, so that it can be used as they are.
    TensorMap weights = snapshot.state.ema;
    for (const auto& [name, tensor] : snapshot.state.model) {
      if (weights.emplace(name, tensor).second) manifest.not_averaged.push_back(name);
    }
    write_tensors(temporary, file_name("ema"), "ema", weights, manifest);
  }
  const auto text = manifest.to_text();
  DurableFile file(temporary / "manifest.json");
  file.write(text.data(), text.size());
  file.finish();
  sync_folder(temporary);
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
  std::ifstream(folder_ / which) >> name;
  return step_of(name) ? name : std::string();
}

std::optional<State> Store::load_latest() {
  wait();
  const auto all = folders();
  std::string faults;
  for (auto item = all.rbegin(); item != all.rend(); ++item) {
    const auto path = folder_ / item->second;
    try {
      return load_state(path);
    } catch (const CheckpointError& error) {
      const auto fault = fmt::format("{}: {}", path.string(), error.what());
      options_.warn("damaged checkpoint " + fault + "; using the one before it");
      faults += "\n  " + fault;
      refused_.insert(item->first);
    }
  }
  if (all.empty()) return {};
  fail<CheckpointError>(
      "{}: none of the {} checkpoints is whole:{}\nRestore one from a backup, or start again in "
      "another run.dir",
      folder_.string(), all.size(), faults);
}

State Store::load(int64_t step) const {
  const auto all = folders();
  const auto found = all.find(step);
  if (found == all.end()) {
    fail<CheckpointError>(
        "{}: no checkpoint of step {} here; expected a run folder that all processes see",
        folder_.string(), step);
  }
  return load_state(folder_ / found->second);
}

std::string Store::weights_file(const std::string& which) const {
  FOVEA_CHECK(which == "best" || which == "latest", "checkpoint '{}'; expected best or latest",
              which);
  const auto name = pointer(which);
  if (name.empty()) {
    fail<CheckpointError>("{}: no {} checkpoint yet", folder_.string(), which);
  }
  const auto path = folder_ / name;
  try {
    const auto manifest = read_manifest(path);
    const std::string part = manifest.tensors.contains("ema") ? "ema" : "model";
    for (const auto& entry : manifest.files) {
      if (entry.name == file_name(part)) {
        verify_file(path, entry);
        return (path / entry.name).string();
      }
    }
    fail<CheckpointError>("no file {} in it", file_name(part));
  } catch (const CheckpointError& error) {
    fail<CheckpointError>("damaged checkpoint {}: {}; use another one", path.string(),
                          error.what());
  }
}

}  // namespace fovea::checkpoint
