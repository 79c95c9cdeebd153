#include "fovea/data/datasets/input_files.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <span>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/log.h"
#include "fovea/data/datasets/basic_ct.h"
#include "fovea/data/datasets/dicom.h"
#include "fovea/data/datasets/file_list_text.h"
#include "fovea/data/datasets/image_files.h"
#include "fovea/data/datasets/mix.h"
#include "fovea/data/datasets/volume_axes.h"
#include "fovea/data/datasets/volume_files.h"
#include "fovea/data/image/image_formats.h"
#include "fovea/data/volume/dicom.h"
#include "fovea/data/volume/scan_file.h"
#include "fovea/files/file_endings.h"
#include "fovea/files/files_below.h"
#include "fovea/files/unread_files.h"

namespace fovea::data {
namespace {

constexpr uint64_t kMaxInputListBytes = uint64_t{1} << 30;  // ten million paths

bool is_volume(const std::string& path) { return is_scan_name(path) || is_folder(path); }

// The section's data set of the format `Config`, or that of its mix.
template <class Config>
const Config* chosen_in(const std::optional<DataSectionConfig>& section) {
  if (!section) return nullptr;
  if (const auto* mix = section->get_if<MixConfig>()) {
    for (const MixSetConfig& set : mix->sets) {
      if (const auto* chosen = set.source.get_if<Config>()) return chosen;
    }
  }
  return section->get_if<Config>();
}

VolumeAxes axes_of(const std::optional<DataSectionConfig>& like) {
  return like ? (*like)->volume_axes() : VolumeAxes::kUnknown;
}

// Files of a format whose axes the model does not know are another anatomy to it.
void check_axes(const std::string& path, VolumeAxes like) {
  if (like == VolumeAxes::kUnknown || like == VolumeAxes::kCanonical) return;
  const bool is_scan = is_scan_name(path);
  if (is_scan == (like == VolumeAxes::kXyz)) return;
  fail<ConfigError>(
      "{}: a {}, but the model was trained on volumes whose axes are {}; expected that format: "
      "convert it{}, or train with orientation: canonical, which makes both alike",
      printable(path), is_scan ? "NIfTI, NRRD or MetaImage file" : "folder of DICOM slices",
      text_of(like), is_scan ? "" : " as the training files were (dcm2niix)");
}

// A run on arrays does not say which way they lie.
void warn_of_unknown_axes(const std::string& path, const std::optional<DataSectionConfig>& like) {
  if (!like || (*like)->volume_axes() != VolumeAxes::kUnknown) return;
  log_warning(fmt::format(
      "{}: the model was trained on format {}, which names no directions, and is given {}; make "
      "sure that its arrays lay alike",
      printable(path), like->name(),
      text_of(is_scan_name(path) ? VolumeAxes::kXyz : VolumeAxes::kDicom)));
}

struct InputOptions {
  bool canonical = false;
  std::string series_uid = {};
  int64_t max_unpacked_bytes = kDefaultUnpackedBytes;
};

// The data set, or the first of a mix.
std::optional<DatasetConfig> first_set(const std::optional<DataSectionConfig>& like) {
  if (!like) return std::nullopt;
  const auto* mix = like->get_if<MixConfig>();
  if (mix == nullptr) return like->as<DatasetFormat>();
  return mix->sets.empty() ? std::nullopt : std::optional(mix->sets.front().source);
}

InputOptions input_options(const std::optional<DataSectionConfig>& like) {
  const auto* dicom = chosen_in<DicomConfig>(like);
  InputOptions options{.canonical = axes_of(like) == VolumeAxes::kCanonical,
                       .series_uid = dicom != nullptr ? dicom->series_uid : ""};
  const auto first = first_set(like);
  if (const auto most = first ? (*first)->max_unpacked_bytes() : std::nullopt)
    options.max_unpacked_bytes = *most;
  return options;
}

std::unique_ptr<VolumeFile> open_file(const std::string& path, std::optional<int64_t> frame,
                                      const InputOptions& options) {
  if (is_scan_name(path)) {
    return open_scan(path, {.canonical = options.canonical,
                            .frame = frame,
                            .max_unpacked_bytes = options.max_unpacked_bytes});
  }
  return open_dicom_series(path,
                           {.series_uid = options.series_uid, .canonical = options.canonical});
}

std::shared_ptr<const Dataset> open_volumes(const std::vector<std::string>& inputs,
                                            const std::optional<DataSectionConfig>& like) {
  const VolumeAxes axes = axes_of(like);
  std::vector<VolumeEntry> entries;
  for (const std::string& input : inputs) {
    entries.push_back({.images = split_modalities(input)});
    for (const std::string& path : entries.back().images) check_axes(path, axes);
  }
  warn_of_unknown_axes(entries.front().images.front(), like);
  const auto open = [options = input_options(like)](const std::string& path,
                                                    std::optional<int64_t> frame) {
    return open_file(path, frame, options);
  };
  const bool is_scaled = chosen_in<BasicCtConfig>(like) != nullptr;
  return build_volume_files_dataset(
      {.path = inputs.front()}, std::move(entries),
      {.open_image = open, .open_mask = open, .scales_to_unit_range = is_scaled});
}

namespace fs = std::filesystem;

// "sub/a.nii.gz" -> "sub/a"
std::string without_ending(fs::path file) {
  if (lower_ending(file.native()) == ".gz") file.replace_extension();
  return file.replace_extension().string();
}

// "scans/a.nii.gz;scans/b.nii.gz" -> "a"; of a folder its whole name.
std::string own_stem(const std::string& input) {
  fs::path path = split_modalities(input).front();
  if (path.filename().empty()) path = path.parent_path();  // a folder of slices with a slash
  return is_folder(path) ? path.filename().string() : without_ending(path.filename());
}

// Folders, `folder` itself among them, that hold files; the names of outputs are below it.
std::vector<ModelInput> series_below(const std::string& folder) {
  UnreadFiles ignored;
  const auto is_slice = [](const std::string& name) { return !is_clutter(name); };
  std::set<std::string> parents;
  for (const std::string& path : list_files_below(folder, is_slice, ignored)) {
    parents.insert(fs::path(path).parent_path().string());
  }
  if (parents.empty() || parents.contains("")) return {{folder, own_stem(folder)}};
  std::vector<ModelInput> series;
  for (const std::string& parent : parents) {
    series.push_back({(fs::path(folder) / parent).string(), parent});
  }
  return series;
}

std::vector<ModelInput> files_of_folder(const std::string& folder, bool wants_volumes) {
  UnreadFiles unread;
  const auto names = list_files_below(folder, wants_volumes ? is_scan_name : is_image_name, unread);
  if (names.empty() && wants_volumes) return series_below(folder);
  UnreadFiles others;  // of a model of slices of arrays, whose volumes may be any files
  if (names.empty() && !list_files_below(folder, is_scan_name, others).empty())
    return files_of_folder(folder, /*wants_volumes=*/true);
  if (names.empty()) {
    fail<DataError>("{}: no image ({}) in it or below it{}; the model takes images",
                    printable(folder), image_endings_text(),
                    unread.text().empty() ? "" : ": " + unread.text());
  }
  unread.warn(folder, wants_volumes ? "NIfTI, NRRD or MetaImage" : image_kinds());
  std::vector<ModelInput> files;
  for (const std::string& name : names) {
    files.push_back({(fs::path(folder) / name).string(), without_ending(name)});
  }
  return files;
}

// Paths are relative to the list's own folder.
std::vector<ModelInput> files_of_list(const std::string& list) {
  const fs::path folder = fs::path(list).parent_path();
  const auto full = [&](const std::string& files) {
    std::string paths;
    for (const std::string& file : split_modalities(files)) {
      paths += (paths.empty() ? "" : ";") + (folder / file).string();
    }
    return paths;
  };
  const auto rows = read_file_list(list, kMaxInputListBytes, [&](const std::string& files) {
    return is_there(folder / split_modalities(files).front());
  });
  std::vector<ModelInput> files;
  for (const FileListRow& row : rows) {
    const auto first = split_modalities(row.path).front();
    const fs::path stem = fs::path(without_ending(first)).lexically_normal();
    const bool is_below = stem.is_relative() && *stem.begin() != "..";
    files.push_back({full(row.path), is_below ? stem.string() : stem.filename().string()});
  }
  if (files.empty()) fail<DataError>("{}: the list is empty", printable(list));
  return files;
}

std::shared_ptr<const Dataset> open_images(const std::vector<std::string>& inputs) {
  ImageFiles files;
  for (const std::string& input : inputs) {
    files.images.add(fs::absolute(input).string());
    files.labels.push_back(-1);
  }
  return std::make_shared<ImageFilesDataset>(std::move(files));
}

void check_given_size(VolumeSize size, const InputVolume& volume) {
  FOVEA_CHECK(size == volume.given.size, "{} voxels for a volume of {}", size.voxels(),
              volume.given.size.voxels());
}

// One channel on volume.given -> on volume.stored.
template <class T>
void reorder(std::span<const T> values, const InputVolume& volume, std::span<T> ordered) {
  const auto &stored = volume.stored, &given = volume.given;
  if (stored.strides == given.strides) {
    std::copy(values.begin(), values.end(), ordered.begin());
    return;
  }
  size_t index = 0;
  for (int64_t d = 0; d < given.size.depth; ++d) {
    for (int64_t h = 0; h < given.size.height; ++h) {
      for (int64_t w = 0; w < given.size.width; ++w) {
        const int64_t element =
            given.first + d * given.strides[1] + h * given.strides[2] + w * given.strides[3];
        const auto place = [&](size_t axis, int64_t side) {
          return element / stored.strides[axis] % side;
        };
        const int64_t row =
            place(1, stored.size.depth) * stored.size.height + place(2, stored.size.height);
        ordered[static_cast<size_t>(row * stored.size.width + place(3, stored.size.width))] =
            values[index++];
      }
    }
  }
}

}  // namespace

std::vector<ModelInput> find_input_files(const std::vector<std::string>& inputs,
                                         bool wants_volumes) {
  std::vector<ModelInput> files;
  for (const std::string& input : inputs) {
    const std::string ending = lower_ending(input);
    std::vector<ModelInput> found;
    if (is_folder(input)) {
      found = files_of_folder(input, wants_volumes);
    } else if (ending == ".csv" || ending == ".jsonl") {
      found = files_of_list(input);
    } else {
      found = {{input, own_stem(input)}};
    }
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

std::shared_ptr<const Dataset> open_input_files(const std::vector<std::string>& inputs,
                                                const std::optional<DataSectionConfig>& like) {
  FOVEA_CHECK(!inputs.empty(), "no input files");
  size_t num_volumes = 0;
  for (const std::string& input : inputs) num_volumes += is_volume(split_modalities(input).front());
  if (num_volumes != 0 && num_volumes != inputs.size()) {
    fail<ConfigError>(
        "{} of {} inputs are volumes (.nii, .nii.gz, .nrrd, .nhdr, .mha, .mhd or a folder of DICOM "
        "slices), the others are "
        "not; give one kind at a time",
        num_volumes, inputs.size());
  }
  return num_volumes == 0 ? open_images(inputs) : open_volumes(inputs, like);
}

InputVolume open_input_volume(const std::string& path,
                              const std::optional<DataSectionConfig>& like) {
  check_axes(path, axes_of(like));
  InputOptions options = input_options(like);
  const bool canonical = std::exchange(options.canonical, false);
  InputVolume volume{open_file(path, {}, options)->read(), {}};
  volume.given = volume.stored;
  if (canonical && !volume.stored.orientation.empty()) make_canonical(volume.given);
  return volume;
}

LabelMap in_stored_order(const LabelMap& mask, const InputVolume& volume) {
  check_given_size(mask.size, volume);
  LabelMap ordered{volume.stored.size, std::vector<int32_t>(mask.classes.size())};
  reorder<int32_t>(mask.classes, volume, ordered.classes);
  return ordered;
}

Volume in_stored_order(const Volume& values, const InputVolume& volume) {
  check_given_size(values.size, volume);
  Volume ordered{values.channels, volume.stored.size, volume.stored.spacing,
                 std::vector<float>(values.values.size())};
  const auto voxels = static_cast<size_t>(values.size.voxels());
  for (size_t first = 0; first < values.values.size(); first += voxels) {
    reorder<float>(std::span(values.values).subspan(first, voxels), volume,
                   std::span(ordered.values).subspan(first, voxels));
  }
  return ordered;
}

int64_t label_offset_of(const std::optional<DataSectionConfig>& like) {
  const auto first = first_set(like);
  return first ? (*first)->label_offset() : 0;
}

}  // namespace fovea::data
