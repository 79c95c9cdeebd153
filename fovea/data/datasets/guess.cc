#include "fovea/data/datasets/guess.h"

#include <filesystem>
#include <system_error>

#include "fovea/core/input_file.h"
#include "fovea/data/formats/packed.h"

namespace fovea::data {

namespace fs = std::filesystem;

DatasetConfig guess_dataset(const std::string& path) {
  if (path.ends_with(".tar")) return {WdsConfig{.path = {path}}};
  check_input_folder(path, "one of images in class folders, of tars, or packed");
  std::error_code error;
  const fs::path folder = path;
  for (const char* name : {kPackedManifest, "plan.json", "shard_000000.fvp"}) {
    const bool is_wds = fs::exists(folder / "shard-000000.tar", error);
    if (!is_wds && fs::exists(folder / name, error)) return {PackedConfig{.path = path}};
  }
  if (fs::exists(folder / "wnids.txt", error)) return {TinyImagenetConfig{.path = path}};
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ".tar") return {WdsConfig{.path = {path}}};
  }
  return {FolderConfig{.path = path}};
}

}  // namespace fovea::data
