#include "fovea/data/volume/nifti_file.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/files/file_endings.h"

namespace fovea::data {
namespace {

constexpr uint64_t kMaxNiftiPadding = 4096;  // bytes behind the data that are put up with

[[noreturn]] void fail_as_too_long(const std::string& path) {
  fail<DataError>("{}: more bytes than its header describes; the header is damaged", path);
}

// Which elements a walk over [C, D, H, W] meets.
void fill_layout(StoredVolume& stored, const NiftiHeader& header, const NiftiOptions& options) {
  std::vector<int64_t> shape = header.shape;
  const bool is_flat = shape.size() <= 2;
  shape.resize(std::max<size_t>(shape.size(), 3), 1);
  const int64_t frames = std::accumulate(shape.begin() + 3, shape.end(), int64_t{1},
                                         [](int64_t a, int64_t b) { return a * b; });
  if (std::count_if(shape.begin() + 3, shape.end(), [](int64_t size) { return size > 1; }) > 1) {
    fail<DataError>("{}: {} values; expected at most one dimension beside x, y and z",
                    stored.source, fmt::join(shape, " x "));
  }
  const int64_t frame_size = shape[0] * shape[1] * shape[2];
  stored.channels = frames;
  stored.size = {shape[0], shape[1], shape[2]};
  stored.strides = {frame_size, 1, shape[0], shape[0] * shape[1]};
  if (is_flat) {
    stored.size = {1, shape[0], shape[1]};
    stored.strides = {frame_size, frame_size, 1, shape[0]};
  }
  if (options.frame) {
    if (*options.frame < 0 || *options.frame >= frames) {
      fail<DataError>(
          "{}: frame {} is wanted, but there are {}; files must not change during a run",
          stored.source, *options.frame, frames);
    }
    stored.first = *options.frame * frame_size;
    stored.channels = 1;
  }
  stored.affine = header.affine;
  stored.spacing = header.spacing;
  if (is_flat) stored.spacing = {1, header.spacing[0], header.spacing[1]};
  if (header.has_orientation && !is_flat) stored.orientation = orientation_of(header.affine);
  if (options.canonical && header.has_orientation && !is_flat) make_canonical(stored);
}

StoredVolume layout_of(const std::string& path, const NiftiHeader& header,
                       const NiftiOptions& options) {
  StoredVolume stored;
  stored.source = printable(path);
  stored.type = header.type;
  stored.order = header.order;
  stored.slope = header.slope;
  stored.intercept = header.intercept;
  fill_layout(stored, header, options);
  return stored;
}

// most: the bytes that there can be.
void check_room(const std::string& path, const NiftiHeader& header, uint64_t most) {
  if (header.data_offset + header.data_bytes <= most) return;
  fail<DataError>(
      "{}: the header announces {} bytes of data at offset {}, the file can hold {}; it is "
      "truncated or its header is damaged",
      path, header.data_bytes, header.data_offset, most);
}

// A gzip file: there is no way to its numbers but through all that comes before them.
class PackedNifti : public VolumeFile {
 public:
  PackedNifti(const std::string& path, const NiftiOptions& options)
      : path_(path), stream_(std::make_unique<InputStream>(path)) {
    header_ = read_nifti_header(*stream_);
    check_room(path, header_, stream_->most_bytes());
    // What it takes in memory: the numbers as they are stored, then as floats.
    const uint64_t held = std::max(header_.data_bytes, header_.num_values() * sizeof(float));
    check_unpacked_bytes(stream_->file_bytes(), held, options.max_unpacked_bytes, printable(path));
    layout_ = layout_of(path, header_, options);
  }

  StoredVolume header() override { return layout_; }

  StoredVolume read() override {
    // What stands behind the header goes on from there, once.
    auto stream = std::move(stream_);
    if (!stream) stream = std::make_unique<InputStream>(path_);
    StoredVolume stored = layout_;
    stream->skip(header_.data_offset - stream->position());
    const std::shared_ptr<uint8_t[]> bytes(new uint8_t[header_.data_bytes]);  // no zeros
    stored.bytes = {bytes.get(), header_.data_bytes};
    stored.owner = bytes;
    stream->read_exactly({bytes.get(), header_.data_bytes}, "voxels");
    // To the end, so that the checksum is seen.
    std::array<uint8_t, kMaxNiftiPadding + 1> padding;
    if (stream->read(padding) > kMaxNiftiPadding) fail_as_too_long(path_);
    return stored;
  }

 private:
  std::string path_;
  std::unique_ptr<InputStream> stream_;
  NiftiHeader header_;
  StoredVolume layout_;
};

}  // namespace

std::unique_ptr<VolumeFile> open_nifti(const std::string& path, const NiftiOptions& options) {
  const auto file = std::make_shared<FileSource>(path);
  std::vector<uint8_t> start(std::min<uint64_t>(file->size(), kNiftiHeaderBytes));
  file->read(0, start);
  if (is_gzip(start)) return std::make_unique<PackedNifti>(path, options);
  const NiftiHeader header = parse_nifti_header(start, path);
  check_room(path, header, file->size());
  if (file->size() - header.data_offset - header.data_bytes > kMaxNiftiPadding) {
    fail_as_too_long(path);
  }
  return std::make_unique<ArrayFile>(file, layout_of(path, header, options), header.data_offset);
}

bool nifti_has_regions(const std::string& path) { return lower_ending(path) != ".gz"; }

std::string nifti_known_as(bool canonical) { return canonical ? "nifti-canonical" : "nifti"; }

StoredVolume read_nifti(const std::string& path, const NiftiOptions& options) {
  return open_nifti(path, options)->read();
}

}  // namespace fovea::data
