#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "fovea/core/error.h"
#include "fovea/data/image/image_formats.h"
#include "fovea/data/volume/dicom.h"
#include "fovea/data/volume/dicom_codec.h"
#include "fovea/data/volume/dicom_pixels.h"
#include "fovea/files/byte_source.h"
#include "fovea/files/file_endings.h"
#include "fovea/files/unread_files.h"

namespace fovea::data {
namespace {

namespace fs = std::filesystem;

constexpr double kMaxUnevenness = 0.01;  // of a gap, against the mean gap
constexpr size_t kMaxSlices = 1 << 16;

bool has_dicom_name(const fs::path& path) {
  const std::string ending = lower_ending(path.native());
  return ending == ".dcm" || ending == ".dicom" || ending == ".ima";
}

bool has_dicom_magic(const fs::path& path) {
  const FileSource file(path.string());
  std::array<uint8_t, 4> magic = {};
  if (file.size() < 128 + magic.size()) return false;
  file.read(128, magic);
  return std::string_view(reinterpret_cast<const char*>(magic.data()), magic.size()) == "DICM";
}

std::vector<std::string> dicom_files(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return {path};
  std::vector<std::string> files;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    const auto& file = entry->path();
    std::error_code unknown;  // a link to nowhere
    const bool is_wanted = entry->is_regular_file(unknown) && file.filename() != "DICOMDIR" &&
                           (has_dicom_name(file) || has_dicom_magic(file));
    if (is_wanted) files.push_back(file.string());
    if (files.size() > kMaxSlices)
      fail<DataError>("{}: more than {} files; expected one series a folder", path, kMaxSlices);
  }
  if (error) fail<DataError>("{}: cannot list the folder ({})", path, error.message());
  if (files.empty()) fail<DataError>("{}: no DICOM file; expected the slices of a series", path);
  std::sort(files.begin(), files.end());
  return files;
}

using ReadFile = std::vector<DicomSlice> (*)(const std::string& path);

std::vector<DicomSlice> read_slices(const std::string& path, const std::string& series_uid,
                                    ReadFile read) {
  std::vector<DicomSlice> slices;
  std::set<std::string> series;
  for (const std::string& file : dicom_files(path)) {
    for (DicomSlice& slice : read(file)) {
      series.insert(slice.series_uid);
      if (series_uid.empty() || slice.series_uid == series_uid) slices.push_back(std::move(slice));
    }
    if (slices.size() > kMaxSlices)
      fail<DataError>("{}: more than {} slices; expected one series a folder", path, kMaxSlices);
  }
  if (slices.empty()) {
    fail<DataError>("{}: no slice of series {}; there are {}", path, series_uid,
                    fmt::join(series, ", "));
  }
  if (series_uid.empty() && series.size() > 1) {
    fail<DataError>("{}: {} series ({}); name one as series_uid, or give each a folder", path,
                    series.size(), fmt::join(series, ", "));
  }
  return slices;
}

using Vector = std::array<double, 3>;

double dot(const Vector& a, const Vector& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

Vector row_direction(const DicomSlice& slice) {
  const auto& o = *slice.orientation;
  return {o[0], o[1], o[2]};
}
Vector column_direction(const DicomSlice& slice) {
  const auto& o = *slice.orientation;
  return {o[3], o[4], o[5]};
}

Vector normal_of(const DicomSlice& slice) {
  const Vector a = row_direction(slice), b = column_direction(slice);
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}

// Frames of one file without a place in the patient, such as those of an ultrasound: they lie in
// the file's order.
bool are_in_order(const std::vector<DicomSlice>& slices) {
  return slices.front().frames == static_cast<int64_t>(slices.size()) &&
         std::none_of(slices.begin(), slices.end(), [](const DicomSlice& slice) {
           return slice.position.has_value() || slice.orientation.has_value();
         });
}

// Slices that were compressed in several ways, or some of which are compressed: half of a series
// was converted, and what one half lost the other did not.
void check_syntaxes(const std::vector<DicomSlice>& slices) {
  const DicomSlice& first = slices.front();
  for (const DicomSlice& slice : slices) {
    const bool is_compressed = is_gdcm_syntax(slice.syntax) || is_gdcm_syntax(first.syntax);
    if (slice.syntax == first.syntax || !is_compressed) continue;
    fail<DataError>(
        "{}: transfer syntax {} ({}), but {} has {} ({}); expected one in a series: convert all "
        "slices to one",
        slice.source, slice.syntax, name_of_syntax(slice.syntax), first.source, first.syntax,
        name_of_syntax(first.syntax));
  }
}

void check_alike(const std::vector<DicomSlice>& slices) {
  const DicomSlice& first = slices.front();
  check_syntaxes(slices);
  const bool have_places = slices.size() > 1 && !are_in_order(slices);
  for (const DicomSlice& slice : slices) {
    if (slice.samples != first.samples) {
      fail<DataError>("{}: {} sample(s) a pixel, but {} has {}; expected slices of one kind",
                      slice.source, slice.samples, first.source, first.samples);
    }
    if (slice.rows != first.rows || slice.columns != first.columns) {
      fail<DataError>("{}: {} x {}, but {} is {} x {}; expected slices of one size", slice.source,
                      slice.rows, slice.columns, first.source, first.rows, first.columns);
    }
    for (size_t i = 0; i < 2; ++i) {
      if (std::fabs(slice.pixel_spacing[i] - first.pixel_spacing[i]) > 1e-3)
        fail<DataError>("{}: its PixelSpacing differs from that of {}", slice.source, first.source);
    }
    if (have_places && (!slice.position || !slice.orientation)) {
      fail<DataError>(
          "{}: no ImagePositionPatient or ImageOrientationPatient, so that the slices cannot be "
          "put in order",
          slice.source);
    }
    for (size_t i = 0; have_places && i < 6; ++i) {
      if (std::fabs((*slice.orientation)[i] - (*first.orientation)[i]) > 1e-3)
        fail<DataError>("{}: its direction differs from that of {}", slice.source, first.source);
    }
  }
}

// Sorts along the normal; returns the distance between neighbours.
double sort_slices(std::vector<DicomSlice>& slices, const std::string& path) {
  if (slices.size() == 1 || are_in_order(slices)) {
    const DicomSlice& slice = slices[0];
    if (slices.size() > 1 && slice.frame_spacing > 0) return slice.frame_spacing;
    return slice.slice_thickness > 0 ? slice.slice_thickness : 1;
  }
  const Vector normal = normal_of(slices.front());
  const double length = std::sqrt(dot(normal, normal));
  if (std::fabs(length - 1) > 0.01) {
    fail<DataError>("{}: ImageOrientationPatient is no pair of perpendicular unit vectors",
                    slices.front().source);
  }
  const auto place = [&](const DicomSlice& slice) { return dot(*slice.position, normal) / length; };
  std::stable_sort(slices.begin(), slices.end(),
                   [&](const DicomSlice& a, const DicomSlice& b) { return place(a) < place(b); });
  const double mean =
      (place(slices.back()) - place(slices.front())) / static_cast<double>(slices.size() - 1);
  for (size_t i = 1; i < slices.size(); ++i) {
    const double gap = place(slices[i]) - place(slices[i - 1]);
    if (gap < 1e-4) {
      fail<DataError>(
          "{}: at the same place as {}; expected one slice a place: keep one series in "
          "a folder",
          slices[i].source, slices[i - 1].source);
    }
    if (std::fabs(gap - mean) > kMaxUnevenness * mean) {
      fail<DataError>(
          "{}: {:.3f} mm behind {}, where the mean gap is {:.3f}; a slice of {} is "
          "missing, or they are spaced unevenly",
          slices[i].source, gap, slices[i - 1].source, mean, path);
    }
  }
  return mean;
}

// DICOM's axes point left and to the back (LPS), Fovea's affine right and to the front (RAS).
void fill_affine(StoredVolume& stored, const std::vector<DicomSlice>& slices) {
  const DicomSlice& first = slices.front();
  if (!first.position || !first.orientation) {
    stored.affine = affine_of_spacing(stored.spacing);
    return;
  }
  const Vector normal = normal_of(first), rows = column_direction(first),
               columns = row_direction(first);
  for (size_t row = 0; row < 3; ++row) {
    const double sign = row < 2 ? -1 : 1;
    double step = normal[row] * stored.spacing[0];
    if (slices.size() > 1) {  // the mean step: not along the normal where a gantry was tilted
      step = ((*slices.back().position)[row] - (*first.position)[row]) /
             static_cast<double>(slices.size() - 1);
    }
    stored.affine[row] = {sign * step, sign * rows[row] * stored.spacing[1],
                          sign * columns[row] * stored.spacing[2], sign * (*first.position)[row]};
  }
  stored.orientation = orientation_of(stored.affine);
}

// What the slices make up, which are sorted: its numbers lie slice after slice.
StoredVolume layout_of(std::vector<DicomSlice>& slices, const std::string& path,
                       const DicomOptions& options) {
  check_alike(slices);
  const DicomSlice& first = slices.front();
  StoredVolume stored;
  stored.source = printable(path);
  stored.type = ScalarType::kFloat32;
  stored.order = std::endian::native;
  stored.size = {static_cast<int64_t>(slices.size()), first.rows, first.columns};
  stored.spacing[0] = sort_slices(slices, path);
  stored.spacing[1] = slices.front().pixel_spacing[0];
  stored.spacing[2] = slices.front().pixel_spacing[1];
  fill_affine(stored, slices);
  stored.channels = first.samples;
  const auto sizes = stored.sides();
  if (checked_voxels(sizes) < 0) fail<DataError>("{}: too many voxels", path);
  const auto strides = row_major_strides(sizes);
  std::copy(strides.begin(), strides.end(), stored.strides.begin());
  if (options.canonical && stored.orientation.empty()) {
    fail<DataError>(
        "{}: no ImagePositionPatient or ImageOrientationPatient, so that its axes are unknown; "
        "expected both with orientation: canonical",
        path);
  }
  if (options.canonical) make_canonical(stored);
  return stored;
}

class DicomSeries : public VolumeFile {
 public:
  DicomSeries(std::string path, DicomOptions options)
      : path_(std::move(path)), options_(std::move(options)) {}

  StoredVolume header() override {
    auto slices = read_slices(path_, options_.series_uid, &read_dicom_header);
    return layout_of(slices, path_, options_);
  }
  StoredVolume read() override { return read_dicom_series(path_, options_); }

 private:
  std::string path_;
  DicomOptions options_;
};

}  // namespace

bool holds_dicom(const std::string& folder) {
  int64_t to_open = 8;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code unknown;
    const auto& file = entry->path();
    if (!entry->is_regular_file(unknown)) continue;
    if (has_dicom_name(file)) return true;
    if (is_image_name(file.native()) || is_clutter(file.native()) || to_open-- <= 0) continue;
    try {
      if (has_dicom_magic(file)) return true;
    } catch (const DataError&) {  // who reads it says why it cannot be read
    }
  }
  return false;
}

StoredVolume read_dicom_series(const std::string& path, const DicomOptions& options) {
  auto slices = read_slices(path, options.series_uid, &read_dicom);
  StoredVolume stored = layout_of(slices, path, options);
  const int64_t pixels = slices.front().rows * slices.front().columns;
  auto values = std::make_shared<std::vector<float>>(stored.values());
  for (size_t i = 0; i < slices.size(); ++i) {
    // Slope and intercept may differ from slice to slice (PET), so each is scaled by itself.
    const int64_t samples = slices[i].samples;
    StoredVolume slice;
    slice.source = slices[i].source;
    slice.type = slices[i].type;
    slice.bytes = slices[i].pixels;
    slice.size = {1, slices[i].rows, slices[i].columns};
    slice.strides = {1, pixels * samples, slices[i].columns * samples, samples};
    slice.slope = slices[i].slope;
    slice.intercept = slices[i].intercept;
    for (int64_t sample = 0; sample < samples; ++sample) {
      slice.first = sample;
      const int64_t place = sample * static_cast<int64_t>(slices.size()) + static_cast<int64_t>(i);
      convert_values(slice, values->data() + place * pixels);
    }
    slices[i].pixels = {};
  }
  stored.bytes = {reinterpret_cast<const uint8_t*>(values->data()), values->size() * sizeof(float)};
  stored.owner = values;
  return stored;
}

std::unique_ptr<VolumeFile> open_dicom_series(const std::string& path,
                                              const DicomOptions& options) {
  return std::make_unique<DicomSeries>(path, options);
}

}  // namespace fovea::data
