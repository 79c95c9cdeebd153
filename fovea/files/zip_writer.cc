#include "fovea/files/zip_writer.h"

#include <zlib.h>

#include <algorithm>

#include "fovea/core/error.h"

namespace fovea {
namespace {

constexpr uint64_t kSmall = 0xFFFFFFFF;  // says "see the zip64 field" from there on
constexpr uint64_t kFewMembers = 0xFFFF;
constexpr uint64_t kMemberHeaderBytes = 30, kExtraHeaderBytes = 4;
constexpr uint16_t kVersion = 20, kVersion64 = 45;
constexpr uint16_t kUtf8Names = 1 << 11;
constexpr uint16_t kZip64Field = 1, kPaddingField = 0x4246;  // 'F', 'B': as libtorch pads

void put_number(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
}

uint32_t small(uint64_t value) { return static_cast<uint32_t>(std::min(value, kSmall)); }

// What both headers of a member say, from the version on.
void put_description(std::string& out, uint32_t crc, uint64_t bytes, const std::string& name,
                     uint64_t extra_bytes) {
  put_number(out, bytes >= kSmall ? kVersion64 : kVersion, 2);
  put_number(out, kUtf8Names, 2);
  put_number(out, 0, 2);  // stored
  put_number(out, 0, 4);  // no time: equal tensors give equal files
  put_number(out, crc, 4);
  put_number(out, small(bytes), 4);
  put_number(out, small(bytes), 4);
  put_number(out, name.size(), 2);
  put_number(out, extra_bytes, 2);
}

}  // namespace

void ZipWriter::write(const std::string& text) {
  file_.write(text);
  position_ += text.size();
}

void ZipWriter::add(const std::string& name, std::span<const std::byte> bytes) {
  const bool is_known = std::any_of(entries_.begin(), entries_.end(),
                                    [&](const Entry& entry) { return entry.name == name; });
  FOVEA_CHECK(!is_known && !name.empty() && name.size() < 65536,
              "zip member '{}' of {} bytes comes twice, or has no name", name, bytes.size());
  Entry entry{name, 0, bytes.size(), position_};
  entry.crc =
      static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
  std::string extra;
  if (entry.bytes >= kSmall) {
    put_number(extra, kZip64Field, 2);
    put_number(extra, 16, 2);
    put_number(extra, entry.bytes, 8);
    put_number(extra, entry.bytes, 8);
  }
  const uint64_t before = position_ + kMemberHeaderBytes + name.size() + extra.size();
  if (before % alignment_ != 0) {
    const uint64_t padding = (alignment_ - (before + kExtraHeaderBytes) % alignment_) % alignment_;
    put_number(extra, kPaddingField, 2);
    put_number(extra, padding, 2);
    extra.append(padding, 'Z');
  }
  std::string header;
  put_number(header, 0x04034B50, 4);
  put_description(header, entry.crc, entry.bytes, name, extra.size());
  write(header + name + extra);
  file_.write(bytes);
  position_ += bytes.size();
  entries_.push_back(std::move(entry));
}

void ZipWriter::finish() {
  const uint64_t start = position_;
  for (const Entry& entry : entries_) {
    std::string extra;
    if (entry.bytes >= kSmall || entry.offset >= kSmall) {
      std::string values;
      if (entry.bytes >= kSmall) put_number(values, entry.bytes, 8);
      if (entry.bytes >= kSmall) put_number(values, entry.bytes, 8);
      if (entry.offset >= kSmall) put_number(values, entry.offset, 8);
      put_number(extra, kZip64Field, 2);
      put_number(extra, values.size(), 2);
      extra += values;
    }
    std::string header;
    put_number(header, 0x02014B50, 4);
    put_number(header, kVersion64, 2);  // made by
    put_description(header, entry.crc, entry.bytes, entry.name, extra.size());
    put_number(header, 0, 8);  // no comment, disk 0,
    put_number(header, 0, 2);  // no attributes
    put_number(header, small(entry.offset), 4);
    write(header + entry.name + extra);
  }
  const uint64_t end = position_, bytes = end - start, members = entries_.size();
  std::string tail;
  if (members >= kFewMembers || bytes >= kSmall || start >= kSmall) {
    put_number(tail, 0x06064B50, 4);
    put_number(tail, 44, 8);
    put_number(tail, kVersion64, 2);
    put_number(tail, kVersion64, 2);
    put_number(tail, 0, 8);
    put_number(tail, members, 8);
    put_number(tail, members, 8);
    put_number(tail, bytes, 8);
    put_number(tail, start, 8);
    put_number(tail, 0x07064B50, 4);
    put_number(tail, 0, 4);
    put_number(tail, end, 8);
    put_number(tail, 1, 4);
  }
  put_number(tail, 0x06054B50, 4);
  put_number(tail, 0, 4);
  put_number(tail, std::min(members, kFewMembers), 2);
  put_number(tail, std::min(members, kFewMembers), 2);
  put_number(tail, small(bytes), 4);
  put_number(tail, small(start), 4);
  put_number(tail, 0, 2);
  write(tail);
}

}  // namespace fovea
