#include "fovea/data/volume/scan_array.h"

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/files/decompress.h"
#include "fovea/files/unpack_limit.h"

namespace fovea::data {
namespace {

// There is no way to the numbers but through all that comes before them.
class DeflatedArrayFile : public VolumeFile {
 public:
  DeflatedArrayFile(ScanArray array, StoredVolume layout)
      : array_(std::move(array)), layout_(std::move(layout)) {}

  StoredVolume header() override { return layout_; }

  StoredVolume read() override {
    std::string packed(array_.deflated_bytes, '\0');
    array_.file->read(array_.offset, {reinterpret_cast<uint8_t*>(packed.data()), packed.size()});
    const auto bytes = std::make_shared<const std::string>(inflate_all(
        packed, array_.skip + array_.data_bytes, DeflateKind::kHeader, array_.file->name()));
    StoredVolume stored = layout_;
    stored.bytes = {reinterpret_cast<const uint8_t*>(bytes->data()) + array_.skip,
                    array_.data_bytes};
    stored.owner = bytes;
    return stored;
  }

 private:
  ScanArray array_;
  StoredVolume layout_;
};

}  // namespace

void check_room(const std::string& source, uint64_t offset, uint64_t data_bytes, uint64_t most) {
  if (offset <= most && data_bytes <= most - offset) return;
  fail<DataError>(
      "{}: the header announces {} bytes of data at offset {}, the file can hold {}; it is "
      "truncated or its header is damaged",
      source, data_bytes, offset, most);
}

void fail_as_too_long(const std::string& source) {
  fail<DataError>("{}: more bytes than its header describes; the header is damaged", source);
}

std::unique_ptr<VolumeFile> open_scan_array(ScanArray array, StoredVolume layout) {
  const std::string& name = array.file->name();
  if (array.is_deflated) {
    check_room(name, array.offset, array.deflated_bytes, array.file->size());
    // What it takes in memory: the numbers as they are stored, then as floats.
    const uint64_t values = array.data_bytes / static_cast<uint64_t>(bytes_of(layout.type));
    const uint64_t held = std::max(array.skip + array.data_bytes, values * sizeof(float));
    check_unpacked_bytes(array.deflated_bytes, held, array.max_unpacked_bytes, name);
    return std::make_unique<DeflatedArrayFile>(std::move(array), std::move(layout));
  }
  check_room(name, array.offset, array.data_bytes, array.file->size());
  if (array.file->size() - array.offset - array.data_bytes > kMaxScanPadding)
    fail_as_too_long(name);
  return std::make_unique<ArrayFile>(array.file, std::move(layout), array.offset);
}

}  // namespace fovea::data
