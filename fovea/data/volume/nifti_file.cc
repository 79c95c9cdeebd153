#include "fovea/data/volume/nifti_file.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/core/printable.h"
#include "fovea/data/volume/scan_array.h"
#include "fovea/files/input_stream.h"
#include "fovea/files/unpack_limit.h"

namespace fovea::data {
namespace {

// x, y, z and at most one more, which is one of channels.
ScanGrid grid_of(const NiftiHeader& header, const std::string& source) {
  ScanGrid grid{.sizes = header.shape,
                .strides = {},
                .affine = header.affine,
                .has_orientation = header.has_orientation,
                .spacing = header.spacing};
  const auto first_other = grid.sizes.begin() + std::min<int64_t>(std::ssize(grid.sizes), 3);
  const std::vector<int64_t> others(first_other, grid.sizes.end());
  grid.sizes.erase(first_other, grid.sizes.end());
  grid.channels = std::accumulate(others.begin(), others.end(), int64_t{1},
                                  [](int64_t a, int64_t b) { return a * b; });
  if (std::count_if(others.begin(), others.end(), [](int64_t size) { return size > 1; }) > 1) {
    fail<DataError>("{}: {} values; expected at most one dimension beside x, y and z", source,
                    fmt::join(header.shape, " x "));
  }
  grid.channel_stride = 1;
  for (const int64_t size : grid.sizes) {
    grid.strides.push_back(grid.channel_stride);
    grid.channel_stride *= size;
  }
  return grid;
}

StoredVolume layout_of(const std::string& path, const NiftiHeader& header,
                       const ScanOptions& options) {
  StoredVolume stored;
  stored.source = printable(path);
  stored.type = header.type;
  stored.order = header.order;
  stored.slope = header.slope;
  stored.intercept = header.intercept;
  lay_out(grid_of(header, stored.source), options, stored);
  return stored;
}

// A gzip file: there is no way to its numbers but through all that comes before them.
class PackedNifti : public VolumeFile {
 public:
  PackedNifti(const std::string& path, const ScanOptions& options)
      : path_(path), stream_(std::make_unique<InputStream>(path)) {
    header_ = read_nifti_header(*stream_);
    check_room(printable(path), header_.data_offset, header_.data_bytes, stream_->most_bytes());
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
    std::array<uint8_t, kMaxScanPadding + 1> padding;
    if (stream->read(padding) > kMaxScanPadding) fail_as_too_long(printable(path_));
    return stored;
  }

 private:
  std::string path_;
  std::unique_ptr<InputStream> stream_;
  NiftiHeader header_;
  StoredVolume layout_;
};

}  // namespace

std::unique_ptr<VolumeFile> open_nifti(const std::string& path, const ScanOptions& options) {
  const auto file = std::make_shared<FileSource>(path);
  std::vector<uint8_t> start(std::min<uint64_t>(file->size(), kNiftiHeaderBytes));
  file->read(0, start);
  if (is_gzip(start)) return std::make_unique<PackedNifti>(path, options);
  const NiftiHeader header = parse_nifti_header(start, path);
  return open_scan_array(
      {.file = file, .offset = header.data_offset, .data_bytes = header.data_bytes},
      layout_of(path, header, options));
}

StoredVolume read_nifti(const std::string& path, const ScanOptions& options) {
  return open_nifti(path, options)->read();
}

}  // namespace fovea::data
