#include "fovea/data/datasets/find_datasets.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/nearest.h"
#include "fovea/data/archive/packed_format.h"
#include "fovea/data/datasets/cifar.h"
#include "fovea/data/datasets/cifar_python.h"
#include "fovea/data/datasets/dicom.h"
#include "fovea/data/datasets/file_list.h"
#include "fovea/data/datasets/folder.h"
#include "fovea/data/datasets/hdf5.h"
#include "fovea/data/datasets/idx.h"
#include "fovea/data/datasets/medmnist.h"
#include "fovea/data/datasets/npy.h"
#include "fovea/data/datasets/npz.h"
#include "fovea/data/datasets/packed.h"
#include "fovea/data/datasets/scans.h"
#include "fovea/data/datasets/slides.h"
#include "fovea/data/datasets/tiny_imagenet.h"
#include "fovea/data/datasets/wds.h"
#include "fovea/data/image/image_formats.h"
#include "fovea/data/large_image/slide.h"
#include "fovea/data/volume/dicom.h"
#include "fovea/files/file_endings.h"
#include "fovea/files/zip.h"

namespace fovea::data {
namespace {

namespace fs = std::filesystem;

using Found = std::vector<FoundDataset>;

// What folders of splits are called, and what the split is called here.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kSplitFolders = {
    {{"train", "train"},
     {"training", "train"},
     {"val", "val"},
     {"valid", "val"},
     {"validation", "val"},
     {"test", "test"}}};

// Names under which files of arrays hold what; the first that is there.
constexpr std::array<std::string_view, 8> kImageArrays = {"images", "image", "x",       "X",
                                                          "data",   "raw",   "volumes", "volume"};
constexpr std::array<std::string_view, 6> kLabelArrays = {"labels", "label",   "y",
                                                          "Y",      "targets", "target"};

constexpr size_t kStartOfList = 4096;

Found only(DatasetConfig config) { return {{"", std::move(config)}}; }

template <size_t N>
std::string first_of(const std::array<std::string_view, N>& wanted,
                     const std::vector<std::string>& there) {
  for (const std::string_view name : wanted) {
    if (std::find(there.begin(), there.end(), name) != there.end()) return std::string(name);
  }
  return {};
}

// Where no array has a usual name, the only one is the images.
template <class Config>
DatasetConfig of_arrays(const std::string& path, const std::vector<std::string>& names) {
  Config config{.path = path};
  const std::string images = first_of(kImageArrays, names);
  if (!images.empty()) config.images = images;
  if (images.empty() && names.size() == 1) config.images = names.front();
  config.labels = first_of(kLabelArrays, names);
  return {config};
}

Found of_npz(const std::string& path) {
  const ZipFile file(path);
  Found found;
  for (const char* split : {"train", "val", "test"}) {
    if (file.find(fmt::format("{}_images.npy", split)) != nullptr) {
      found.push_back({split, {MedMnistConfig{.path = path, .split = split}}});
    }
  }
  if (!found.empty()) return found;
  std::vector<std::string> names;
  for (const ZipMember& member : file.members()) {
    names.push_back(member.name.substr(0, member.name.rfind(".npy")));
  }
  return only(of_arrays<NpzConfig>(path, names));
}

// Files of `folder`: those that `images` name, or that a list does; else as the format finds them.
template <class Config>
DatasetConfig of_volumes(const std::string& folder, std::vector<std::string> images = {},
                         std::string list = {}) {
  Config config;
  config.path = folder;
  config.images = std::move(images);
  config.list = std::move(list);
  return {config};
}

std::string folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path().string() : ".";
}

// The file alone.
template <class Config>
Found of_volume_file(const fs::path& path) {
  return only(of_volumes<Config>(folder_of(path), {path.filename().string()}));
}

template <class Config>
Found of_volume_list(const fs::path& path) {
  return only(of_volumes<Config>(folder_of(path), {}, path.filename().string()));
}

Found of_list(const std::string& path) {
  const std::string start = read_start(path, kStartOfList);
  const auto names_any = [&](std::initializer_list<std::string_view> endings) {
    return std::any_of(endings.begin(), endings.end(), [&](std::string_view ending) {
      return start.find(ending) != std::string::npos;
    });
  };
  if (names_any({".nii"})) return of_volume_list<NiftiConfig>(path);
  if (names_any({".nrrd", ".nhdr"})) return of_volume_list<NrrdConfig>(path);
  if (names_any({".mha", ".mhd"})) return of_volume_list<MetaImageConfig>(path);
  if (names_any({".svs", ".ndpi", ".mrxs"})) return only({SlidesConfig{.path = path}});
  return only({FileListConfig{.path = path}});
}

std::optional<Found> find_in_file(const std::string& path) {
  const std::string ending = lower_ending(path);
  if (ending == ".csv" || ending == ".jsonl") return of_list(path);
  if (ending == ".npz") return of_npz(path);
  if (ending == ".h5" || ending == ".hdf5" || ending == ".hdf") {
    return only(of_arrays<Hdf5Config>(path, hdf5_array_names(path)));
  }
  if (is_nifti_name(path)) return of_volume_file<NiftiConfig>(path);
  if (is_nrrd_name(path)) return of_volume_file<NrrdConfig>(path);
  if (is_metaimage_name(path)) return of_volume_file<MetaImageConfig>(path);
  if (ending == ".npy") return of_volume_file<NpyConfig>(path);
  if (path.ends_with("-python.tar.gz")) {
    return Found{{"train", {CifarPythonConfig{.path = path}}},
                 {"test", {CifarPythonConfig{.path = path, .split = "test"}}}};
  }
  return {};
}

bool has_any(const fs::path& folder, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const char* name) { return is_there(folder / name); });
}

// Those of a folder's splits whose files are there.
template <class Config>
Found splits_of(const std::string& path, bool has_train, bool has_test) {
  Found found;
  if (has_train) found.push_back({"train", {Config{.path = path}}});
  if (has_test) found.push_back({"test", {Config{.path = path, .split = "test"}}});
  return found;
}

// A folder that holds a published set under the names of its publisher; empty: none.
Found of_published_files(const std::string& path) {
  const fs::path folder = path;
  if (is_there(folder / "wnids.txt")) {
    Found found = {{"train", {TinyImagenetConfig{.path = path}}}};
    if (is_folder(folder / "val"))
      found.push_back({"val", {TinyImagenetConfig{.path = path, .split = "val"}}});
    return found;
  }
  const auto has_idx = [&](const std::string& stem) {
    return has_any(
        folder, {(stem + "-images-idx3-ubyte").c_str(), (stem + "-images-idx3-ubyte.gz").c_str(),
                 (stem + "-images.idx3-ubyte").c_str(), (stem + "-images.idx3-ubyte.gz").c_str()});
  };
  auto found = splits_of<IdxConfig>(path, has_idx("train"), has_idx("t10k"));
  if (!found.empty()) return found;
  for (const fs::path& inner :
       {folder, folder / "cifar-10-batches-bin", folder / "cifar-100-binary"}) {
    found = splits_of<CifarConfig>(path, has_any(inner, {"data_batch_1.bin", "train.bin"}),
                                   has_any(inner, {"test_batch.bin", "test.bin"}));
    if (!found.empty()) return found;
  }
  const bool is_python =
      has_any(folder, {"data_batch_1", "cifar-10-batches-py", "cifar-100-python"}) ||
      (is_there(folder / "meta") && is_there(folder / "train") && !is_folder(folder / "train"));
  return splits_of<CifarPythonConfig>(path, is_python, is_python);
}

constexpr size_t kMostLookedInto = 8;  // class folders: there may be thousands

struct FolderContents {
  std::vector<std::string> folders;  // names, sorted; hidden ones left out
  bool has_tars = false, has_images = false, has_nifti = false, has_metaimages = false;
  bool has_nrrds = false, has_nrrd_headers = false, has_slides = false;
};

FolderContents contents_of(const fs::path& folder) {
  FolderContents contents;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name[0] == '.') continue;
    std::error_code ignored;
    if (entry->is_directory(ignored)) {
      contents.folders.push_back(name);
      continue;
    }
    contents.has_tars |= lower_ending(name) == ".tar";
    contents.has_images |= is_image_name(name);
    contents.has_nifti |= is_nifti_name(name);
    contents.has_metaimages |= is_metaimage_name(name);
    contents.has_nrrds |= lower_ending(name) == ".nrrd";
    contents.has_nrrd_headers |= lower_ending(name) == ".nhdr";
    contents.has_slides |= is_slide_name(name);
  }
  std::sort(contents.folders.begin(), contents.folders.end());
  return contents;
}

std::string_view split_named(std::string_view folder) {
  for (const auto& [name, split] : kSplitFolders) {
    if (name == folder) return split;
  }
  return {};
}

// A folder with one folder for each split, each of which is a data set by itself; empty: it is
// none. Images right in "train" make it a class of that name.
Found of_split_folders(const fs::path& folder, const FolderContents& contents) {
  const auto is_split = [&](const std::string& name) {
    return !split_named(name).empty() && !contents_of(folder / name).has_images;
  };
  const bool are_splits = !contents.has_images && !contents.folders.empty() &&
                          std::all_of(contents.folders.begin(), contents.folders.end(), is_split);
  Found found;
  if (!are_splits) return found;
  for (const std::string& name : contents.folders) {
    for (FoundDataset& one : find_datasets((folder / name).string())) {
      const std::string split(split_named(name));
      found.push_back(
          {one.name.empty() ? split : fmt::format("{}/{}", split, one.name), one.config});
    }
  }
  return found;
}

std::optional<DatasetConfig> of_scans(const std::string& path, const FolderContents& contents) {
  if (contents.has_nifti) return of_volumes<NiftiConfig>(path);
  if (contents.has_nrrds) return of_volumes<NrrdConfig>(path);
  if (contents.has_nrrd_headers) return of_volumes<NrrdConfig>(path, {"*.nhdr"});
  if (contents.has_metaimages) return of_volumes<MetaImageConfig>(path);
  return {};
}

Found find_in_folder(const std::string& path) {
  const fs::path folder = path;
  const FolderContents contents = contents_of(folder);
  for (const char* name : {kPackedManifest, "plan.json", "shard_000000.fvp"}) {
    const bool is_wds = is_there(folder / "shard-000000.tar");
    if (!is_wds && is_there(folder / name)) return only({PackedConfig{.path = path}});
  }
  Found found = of_published_files(path);
  if (!found.empty()) return found;
  if (contents.has_tars) return only({WdsConfig{.path = {path}}});
  found = of_split_folders(folder, contents);
  if (!found.empty()) return found;
  if (auto scans = of_scans(path, contents)) return only(*std::move(scans));
  if (!contents.has_images && holds_dicom(path)) return of_volume_file<DicomConfig>(folder);
  if (!contents.folders.empty() && holds_dicom((folder / contents.folders.front()).string())) {
    return only(of_volumes<DicomConfig>(path));
  }
  const auto first =
      std::span(contents.folders).first(std::min(contents.folders.size(), kMostLookedInto));
  if (std::any_of(first.begin(), first.end(),
                  [&](const std::string& name) { return contents_of(folder / name).has_slides; }))
    return only({SlidesConfig{.path = path}});
  return only({FolderConfig{.path = path}});
}

}  // namespace

std::vector<FoundDataset> find_datasets(const std::string& path) {
  if (path.ends_with(".tar")) return only({WdsConfig{.path = {path}}});  // with braces, too
  if (!is_there(path)) {
    fail<DataError>(
        "{}: no such file or folder{}; expected a data set: a folder of class folders, of tars, of "
        "volumes, or packed; a list (.csv, .jsonl); .npz, .h5, .nii.gz, .nrrd or .mha; or a recipe "
        "(.yaml)",
        printable(path), or_nearest_path(path));
  }
  if (is_folder(path)) {
    fs::path folder = path;
    if (!folder.has_filename()) folder = folder.parent_path();  // "scans/"
    return find_in_folder(folder.string());
  }
  if (auto found = find_in_file(path)) return *std::move(found);
  fail<DataError>(
      "{}: not the file of a data set; expected a list (.csv, .jsonl), .tar, .npz, .h5 or .hdf5, "
      ".nii or .nii.gz, .nrrd or .nhdr, .mha or .mhd, .npy, or a recipe (.yaml)",
      printable(path));
}

}  // namespace fovea::data
