// Packed shards and manifests: any bytes are read or refused with a DataError. The first byte says
// whether the checksum of the index is made right, so that what lies behind it is reached.
#include <cstdlib>
#include <string>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/data/archive/packed_format.h"
#include "fovea/files/checksum.h"

namespace {

using namespace fovea::data;  // a program, not a header

void read_shard(std::vector<uint8_t> bytes, bool is_signed) {
  const size_t size = bytes.size();
  if (size < kPackedHeaderBytes + kPackedFooterBytes) return;
  const std::span<const uint8_t> all = bytes;
  const uint64_t tail = packed_tail_bytes(all.last(kPackedFooterBytes), size, "fuzz.fvp");
  if (tail > size) abort();
  if (is_signed) {
    const uint64_t sum = fovea::checksum(all.subspan(size - tail, tail - kPackedFooterBytes));
    for (size_t i = 0; i < 8; ++i) {
      bytes[size - kPackedFooterBytes + 24 + i] = static_cast<uint8_t>(sum >> (8 * i));
    }
  }
  const auto index =
      parse_packed_tail(all.first(kPackedHeaderBytes), all.last(tail), size, "fuzz.fvp");
  for (int64_t i = 0; i < index.size(); ++i) {
    const auto& entry = index.entries[static_cast<size_t>(i)];
    if (entry.offset > size || entry.bytes > size - entry.offset) abort();
    if (index.name(i).size() > index.names.size()) abort();
  }
  const auto text = format_packed_tail(index, size - tail);
  if (text.size() != tail) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size == 0) return 0;
  try {
    if (bytes[0] % 3 == 2) {
      const std::string text(bytes + 1, bytes + size);
      const auto manifest = parse_packed_manifest(text, "manifest.json");
      parse_packed_manifest(format_packed_manifest(manifest), "manifest.json");
    } else {
      read_shard({bytes + 1, bytes + size}, bytes[0] % 3 == 1);
    }
  } catch (const fovea::DataError&) {
  }
  return 0;
}
