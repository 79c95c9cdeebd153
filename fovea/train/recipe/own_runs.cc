#include "fovea/train/recipe/own_runs.h"

#include <filesystem>

#include "fovea/checkpoint/store.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/hub/repository.h"
#include "fovea/train/recipe/hub_source.h"
#include "fovea/train/recipe/phase_configs.h"
#include "fovea/train/recipe/run_folder.h"

namespace fovea::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCheckpoints = "checkpoints";

// Without the slash that a shell's completion leaves behind.
fs::path plain(const std::string& path) {
  fs::path result = fs::path(path).lexically_normal();
  return result.has_filename() || !result.has_parent_path() ? result : result.parent_path();
}

fs::path last_phase(const fs::path& run_dir) {
  const auto phases = begun_phase_folders(run_dir.string());
  return phases.empty() ? run_dir : fs::path(phases.back());
}

// What stands in a folder of checkpoints: "best", "latest" or the name of one.
struct Named {
  fs::path run_dir;
  std::string name;  // empty: the newest
};

std::optional<Named> find_name(const std::string& path) {
  if (path.empty()) return {};
  const auto place = plain(path);
  if (is_run_folder(place)) return Named{last_phase(place), ""};
  const auto is_of_run = [](const fs::path& folder) {
    return folder.filename() == kCheckpoints && is_run_folder(folder.parent_path());
  };
  const auto whole = fs::absolute(place);  // "step_00000100" may be named from where it stands
  if (is_of_run(whole)) return Named{whole.parent_path(), ""};
  if (!is_there(whole) || !is_of_run(whole.parent_path())) return {};
  return Named{whole.parent_path().parent_path(), whole.filename().string()};
}

}  // namespace

bool is_own_run(const std::string& path) { return find_name(path).has_value(); }

CheckpointPlace find_checkpoint(const std::string& path) {
  const auto named = find_name(path);
  FOVEA_CHECK(named.has_value(), "{} is no run and no checkpoint of one", path);
  CheckpointPlace place{.run_dir = named->run_dir.string()};
  const checkpoint::Store store(place.checkpoints());
  const auto step = named->name.empty() ? store.newest() : store.step_named(named->name);
  if (!step) {
    fail<CheckpointError>("{}: no checkpoint there; expected a run that has saved one", path);
  }
  place.step = *step;
  return place;
}

std::string weights_path(const std::string& path) {
  if (const auto name = hub_name_of(path)) {
    hub::Repository repository(*name);
    return hub::find_weights(repository);
  }
  const auto named = find_name(path);
  if (!named) return path;
  const auto finished = named->run_dir / "weights.safetensors";
  const bool is_whole_run = is_run_folder(plain(path));
  if (is_whole_run && is_there(finished)) return finished.string();
  const checkpoint::Store store((named->run_dir / kCheckpoints).string());
  return store.weights_file(named->name.empty() ? "latest" : named->name);
}

}  // namespace fovea::train
