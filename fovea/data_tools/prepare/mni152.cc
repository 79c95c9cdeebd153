#include "fovea/data_tools/prepare/mni152.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "fovea/core/error.h"
#include "fovea/data/tiles/tiling.h"
#include "fovea/data/volume/nifti_file.h"
#include "fovea/files/atomic_file.h"
#include "fovea/files/zip.h"

namespace fovea::data {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxMemberBytes = uint64_t{64} << 20;

struct Template {
  Volume t1, grey, white;
  Affine affine = {};
};

// A file that is there as long as this stands.
class TemporaryFile {
 public:
  TemporaryFile(fs::path path, std::string_view bytes) : path_(std::move(path)) {
    write_file_atomic(path_.string(), bytes);
  }
  ~TemporaryFile() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

StoredVolume open_member(const ZipFile& wheel, const std::string& map, const fs::path& folder,
                         Volume& volume) {
  const auto name =
      "nilearn/datasets/data/mni_icbm152_" + map + "_tal_nlin_sym_09a_converted.nii.gz";
  const auto* member = wheel.find(name);
  if (member == nullptr) {
    fail<DataError>(
        "{}: no {} in it; expected the wheel that `pip download --no-deps nilearn==0.14.1` gets",
        wheel.path(), name);
  }
  const TemporaryFile file(folder / (".mni152_" + map + ".nii.gz"),
                           wheel.read(*member, kMaxMemberBytes));
  try {
    auto stored = read_nifti(file.path());
    convert_volume(stored, volume);
    return stored;
  } catch (const DataError& error) {  // names the temporary file, which is gone when this is read
    fail<DataError>("{}: {}: {}", wheel.path(), name, error.what());
  }
}

Template read_template(const Mni152Options& options) {
  const ZipFile wheel(options.wheel);
  Template found;
  found.affine = open_member(wheel, "t1", options.out, found.t1).affine;
  open_member(wheel, "gm", options.out, found.grey);
  open_member(wheel, "wm", options.out, found.white);
  if (found.grey.size != found.t1.size || found.white.size != found.t1.size) {
    fail<DataError>("{}: the three maps of MNI152 differ in size; expected one size",
                    options.wheel);
  }
  return found;
}

// The likeliest class; maps are scaled so that their largest value is certain.
LabelMap classes_of(const Template& brain) {
  const auto largest = [](const Volume& map) {
    return *std::max_element(map.values.begin(), map.values.end());
  };
  const float grey_one = largest(brain.grey), white_one = largest(brain.white);
  LabelMap labels{brain.t1.size, {}};
  labels.classes.resize(brain.t1.values.size());
  for (size_t i = 0; i < labels.classes.size(); ++i) {
    const float grey = brain.grey.values[i] / grey_one, white = brain.white.values[i] / white_one;
    const float rest = 1 - grey - white;
    if (grey > rest || white > rest) labels.classes[i] = white > grey ? 2 : 1;
  }
  return labels;
}

// The box of the voxels above 0.
Tile head_box(const Volume& t1) {
  constexpr auto kLargest = std::numeric_limits<int64_t>::max();
  std::array<int64_t, 3> low = {kLargest, kLargest, kLargest}, high = {0, 0, 0};
  size_t index = 0;
  for (int64_t d = 0; d < t1.size.depth; ++d) {
    for (int64_t h = 0; h < t1.size.height; ++h) {
      for (int64_t w = 0; w < t1.size.width; ++w) {
        if (!(t1.values[index++] > 0)) continue;
        const std::array<int64_t, 3> place = {d, h, w};
        for (size_t axis = 0; axis < 3; ++axis) {
          low[axis] = std::min(low[axis], place[axis]);
          high[axis] = std::max(high[axis], place[axis] + 1);
        }
      }
    }
  }
  if (high[0] == 0) fail<DataError>("the T1 volume of MNI152 has no voxel above 0");
  Tile box;
  box.start = low;
  box.size = box.valid = {high[0] - low[0], high[1] - low[1], high[2] - low[2]};
  return box;
}

std::vector<Tile> slabs_of(const Tile& box, int64_t num_slabs) {
  const int64_t thickness = box.size.height / num_slabs;
  if (thickness < 1) {
    fail<ConfigError>("{} slabs of {} voxels; expected at most one a voxel", num_slabs,
                      box.size.height);
  }
  const int64_t rest = box.size.height - num_slabs * thickness;
  std::vector<Tile> slabs;
  int64_t begin = box.start[1];
  for (int64_t i = 0; i < num_slabs; ++i) {
    Tile slab = box;
    slab.start[1] = begin;
    slab.size.height = slab.valid.height = thickness + (i == 0 ? rest : 0);
    begin += slab.size.height;
    slabs.push_back(slab);
  }
  return slabs;
}

// The template's affine, seen from voxel `start`.
Affine moved(Affine affine, const std::array<int64_t, 3>& start) {
  for (auto& row : affine) {
    for (size_t axis = 0; axis < 3; ++axis) row[3] += row[axis] * static_cast<double>(start[axis]);
  }
  return affine;
}

}  // namespace

Mni152Report prepare_mni152(const Mni152Options& options) {
  if (options.num_slabs < 2 || options.held_out < 2) {
    fail<ConfigError>("{} slabs, of {} one held out; expected at least 2 of both",
                      options.num_slabs, options.held_out);
  }
  for (const auto* part : {"train", "val"}) {
    for (const auto* kind : {"images", "labels"}) {
      fs::create_directories(fs::path(options.out) / part / kind);
    }
  }
  const auto brain = read_template(options);
  const auto labels = classes_of(brain);
  const auto slabs = slabs_of(head_box(brain.t1), options.num_slabs);
  Mni152Report report;
  for (size_t i = 0; i < slabs.size(); ++i) {
    const bool is_val = static_cast<int64_t>(i) % options.held_out == 1;
    auto& part = is_val ? report.val : report.train;
    const auto folder = fs::path(options.out) / (is_val ? "val" : "train");
    const auto name = fmt::format("slab_{}.nii", i);
    const auto affine = moved(brain.affine, slabs[i].start);
    Volume image;
    extract_tile(brain.t1, slabs[i], image);
    LabelMap classes;
    extract_tile(labels, slabs[i], classes);
    write_nifti((folder / "images" / name).string(), image, affine);
    write_nifti((folder / "labels" / name).string(), classes, affine);
    part.slabs += 1;
    for (const auto label : classes.classes) part.voxels[static_cast<size_t>(label)] += 1;
  }
  return report;
}

}  // namespace fovea::data
