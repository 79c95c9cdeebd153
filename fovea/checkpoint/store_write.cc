// How a store saves: the rest of it is in store.cc.
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <thread>

#include "fovea/checkpoint/checkpoint_folder.h"
#include "fovea/checkpoint/durable.h"
#include "fovea/checkpoint/manifest.h"
#include "fovea/checkpoint/store.h"
#include "fovea/checkpoint/tensor_files.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/files/atomic_file.h"

namespace fovea::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kPublishPatience{10};
constexpr std::chrono::milliseconds kPublishTick{50};
constexpr std::string_view kTemporaryPrefix = ".tmp-";

TensorMap copy_to_cpu(const TensorMap& tensors) {
  TensorMap copies;
  for (const auto& [name, tensor] : tensors) {
    auto copy = at::empty(tensor.sizes(), tensor.options().device(at::kCPU).requires_grad(false));
    copies[name] = copy.copy_(tensor.detach());
  }
  return copies;
}

std::string file_name(std::string_view part, int64_t writer) {
  return fmt::format("{}-{:05d}.safetensors", part, writer);
}

std::string failure_name_of(int64_t writer) { return fmt::format("failed-{}.txt", writer); }

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

}  // namespace

struct Store::Snapshot {
  int64_t step = 0;
  std::string name;  // of its folder
  State state;
  bool is_best = false;
};

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

}  // namespace fovea::checkpoint
