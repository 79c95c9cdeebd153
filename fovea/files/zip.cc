#include "fovea/files/zip.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "fovea/core/error.h"
#include "fovea/files/archive_name.h"
#include "fovea/files/byte_reader.h"
#include "fovea/files/decompress.h"

namespace fovea {
namespace {

constexpr uint32_t kEndSignature = 0x06054B50, kEnd64Signature = 0x06064B50;
constexpr uint32_t kLocator64Signature = 0x07064B50, kMemberSignature = 0x02014B50;
constexpr uint32_t kLocalSignature = 0x04034B50;
constexpr uint64_t kEndBytes = 22, kLocatorBytes = 20, kEnd64Bytes = 56;
constexpr uint64_t kLocalBytes = 30, kMemberBytes = 46;
constexpr uint64_t kMaxMembers = 1 << 20, kMaxDirectoryBytes = uint64_t{1} << 28;
constexpr uint64_t kDeflateSlack = 64;
constexpr uint16_t kEncrypted = 1, kZip64Extra = 1;

std::span<const uint8_t> as_bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Sizes and offset of 0xFFFFFFFF stand in the zip64 extra field instead, in this order.
void read_zip64(std::span<const uint8_t> extra, ZipMember& member, const std::string& source) {
  constexpr uint64_t kElsewhere = 0xFFFFFFFF;
  const bool is_needed = member.bytes == kElsewhere || member.stored_bytes == kElsewhere ||
                         member.header_offset == kElsewhere;
  ByteReader reader(extra, source);
  while (is_needed && reader.left() >= 4) {
    const auto id = reader.number<uint16_t>();
    const auto size = reader.number<uint16_t>();
    ByteReader field(reader.take(size), source);
    if (id != kZip64Extra) continue;
    for (uint64_t* value : {&member.bytes, &member.stored_bytes, &member.header_offset}) {
      if (*value == kElsewhere) *value = field.number<uint64_t>();
    }
    return;
  }
}

}  // namespace

struct ZipFile::Directory {
  uint64_t members = 0;
  uint64_t bytes = 0;
  uint64_t offset = 0;
  uint64_t end_offset = 0;  // where the records of the end begin
};

ZipFile::ZipFile(const std::string& path)
    : ZipFile(path, 0, std::numeric_limits<uint64_t>::max()) {}

// bytes: at most, of what the file has from `offset` on where that is its end.
ZipFile::ZipFile(const std::string& path, uint64_t offset, uint64_t bytes)
    : file_(path), path_(file_.name()), start_(offset) {
  const bool is_whole = bytes == std::numeric_limits<uint64_t>::max();
  if (offset > file_.size() || (!is_whole && bytes > file_.size() - offset)) {
    fail<DataError>("{}: an archive of {} bytes at offset {} of a file of {}; it is truncated",
                    path_, bytes, offset, file_.size());
  }
  size_ = is_whole ? file_.size() - offset : bytes;
  const Directory directory = find_directory();
  read_directory(directory);
  check_overlaps(directory.offset);
}

const ZipMember* ZipFile::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &members_[found->second];
}

std::string ZipFile::bytes_at(uint64_t offset, uint64_t count) const {
  if (offset > size_ || count > size_ - offset) {
    fail<DataError>("{}: bytes {} to {} of a file of {}; the archive is truncated or damaged",
                    path_, offset, offset + count, size_);
  }
  std::string bytes(count, '\0');
  file_.read(start_ + offset, {reinterpret_cast<uint8_t*>(bytes.data()), count});
  return bytes;
}

ZipFile::Directory ZipFile::find_directory() const {
  const uint64_t tail_bytes = std::min<uint64_t>(size_, kEndBytes + 0xFFFF);
  const std::string tail = bytes_at(size_ - tail_bytes, tail_bytes);
  // The end record is the last one whose comment reaches to the end of the file.
  uint64_t at = tail_bytes;
  for (uint64_t i = tail_bytes >= kEndBytes ? tail_bytes - kEndBytes + 1 : 0; i-- > 0;) {
    const auto* start = as_bytes(tail).data() + i;
    if (load_number<uint32_t>(start, std::endian::little) == kEndSignature &&
        i + kEndBytes + load_number<uint16_t>(start + 20, std::endian::little) == tail_bytes) {
      at = i;
      break;
    }
  }
  if (at == tail_bytes) {
    fail<DataError>("{}: not a zip archive, or truncated: it has no end record; fetch it again",
                    path_);
  }
  ByteReader end(as_bytes(tail).subspan(at), path_);
  end.skip(4);
  const auto disk = end.number<uint16_t>(), first_disk = end.number<uint16_t>();
  const auto here = end.number<uint16_t>(), members = end.number<uint16_t>();
  Directory directory{members, end.number<uint32_t>(), 0, size_ - tail_bytes + at};
  directory.offset = end.number<uint32_t>();
  if (disk != 0 || first_disk != 0 || here != members)
    fail<DataError>("{}: a zip archive of several disks; expected a single file", path_);
  read_zip64_end(directory, members == 0xFFFF || directory.bytes == 0xFFFFFFFF ||
                                directory.offset == 0xFFFFFFFF);
  return directory;
}

// Some writers (libtorch's) add the records of zip64 to archives that could do without.
void ZipFile::read_zip64_end(Directory& directory, bool is_needed) const {
  if (directory.end_offset < kLocatorBytes + kEnd64Bytes) return;
  const uint64_t locator_offset = directory.end_offset - kLocatorBytes;
  const std::string locator = bytes_at(locator_offset, kLocatorBytes);
  ByteReader reader(as_bytes(locator), path_);
  if (reader.number<uint32_t>() != kLocator64Signature) return;
  reader.skip(4);
  const auto offset = reader.number<uint64_t>();
  const bool is_before = offset <= locator_offset - kEnd64Bytes;
  if (!is_before && !is_needed) return;
  const std::string record = bytes_at(offset, kEnd64Bytes);
  ByteReader end64(as_bytes(record), path_);
  if (end64.number<uint32_t>() != kEnd64Signature) {
    if (!is_needed) return;
    fail<DataError>("{}: its zip64 end record is damaged", path_);
  }
  end64.skip(28);
  directory.members = end64.number<uint64_t>();
  directory.bytes = end64.number<uint64_t>();
  directory.offset = end64.number<uint64_t>();
  directory.end_offset = offset;
}

void ZipFile::read_directory(const Directory& directory) {
  const bool fits = directory.offset <= directory.end_offset &&
                    directory.bytes == directory.end_offset - directory.offset &&
                    directory.members <= directory.bytes / kMemberBytes;
  if (!fits || directory.members > kMaxMembers || directory.bytes > kMaxDirectoryBytes) {
    fail<DataError>(
        "{}: {} members in a directory of {} bytes at offset {}, which must end at {}; the archive "
        "is damaged or has bytes before it",
        path_, directory.members, directory.bytes, directory.offset, directory.end_offset);
  }
  const std::string bytes = bytes_at(directory.offset, directory.bytes);
  ByteReader reader(as_bytes(bytes), path_);
  for (uint64_t i = 0; i < directory.members; ++i) {
    if (reader.number<uint32_t>() != kMemberSignature)
      fail<DataError>("{}: the directory's entry {} is damaged", path_, i);
    reader.skip(4);
    const auto flags = reader.number<uint16_t>(), method = reader.number<uint16_t>();
    reader.skip(4);
    ZipMember member;
    member.crc = reader.number<uint32_t>();
    member.stored_bytes = reader.number<uint32_t>();
    member.bytes = reader.number<uint32_t>();
    const auto name_bytes = reader.number<uint16_t>(), extra_bytes = reader.number<uint16_t>();
    const auto comment_bytes = reader.number<uint16_t>();
    reader.skip(8);
    member.header_offset = reader.number<uint32_t>();
    member.name = reader.text(name_bytes);
    read_zip64(reader.take(extra_bytes), member, path_);
    reader.skip(comment_bytes);
    const std::string what = archive_member(path_, member.name);
    check_archive_name(path_, member.name);
    if (!by_name_.emplace(member.name, i).second) fail<DataError>("{}: stands there twice", what);
    if ((flags & kEncrypted) != 0) fail<DataError>("{}: encrypted; expected a plain archive", what);
    if (method != 0 && method != 8) {
      fail<DataError>("{}: compression {}; expected stored (0) or deflated (8)", what, method);
    }
    member.is_deflated = method == 8;
    const bool is_possible =
        member.is_deflated ? member.bytes / kDeflateRatio <= member.stored_bytes + kDeflateSlack
                           : member.bytes == member.stored_bytes;
    if (!is_possible) {
      fail<DataError>("{}: {} bytes out of {}, which cannot be; the archive is damaged", what,
                      member.bytes, member.stored_bytes);
    }
    members_.push_back(std::move(member));
  }
}

// Members that share bytes are how a small archive becomes a huge one.
void ZipFile::check_overlaps(uint64_t directory_offset) const {
  std::vector<const ZipMember*> sorted;
  for (const ZipMember& member : members_) sorted.push_back(&member);
  std::sort(sorted.begin(), sorted.end(), [](const ZipMember* a, const ZipMember* b) {
    return a->header_offset < b->header_offset;
  });
  for (size_t i = 0; i < sorted.size(); ++i) {
    const uint64_t next = i + 1 < sorted.size() ? sorted[i + 1]->header_offset : directory_offset;
    const uint64_t least = kLocalBytes + sorted[i]->name.size();
    const uint64_t start = sorted[i]->header_offset;
    if (start > next || next - start < least || next - start - least < sorted[i]->stored_bytes) {
      fail<DataError>("{}: overlaps what follows it; the archive is damaged or made to harm",
                      archive_member(path_, sorted[i]->name));
    }
  }
}

uint64_t ZipFile::data_offset(const ZipMember& member) const {
  const std::string bytes = bytes_at(member.header_offset, kLocalBytes);
  ByteReader reader(as_bytes(bytes), path_);
  const std::string what = archive_member(path_, member.name);
  if (reader.number<uint32_t>() != kLocalSignature)
    fail<DataError>("{}: its header is damaged", what);
  reader.skip(4);
  const auto method = reader.number<uint16_t>();
  reader.skip(16);
  const auto name_bytes = reader.number<uint16_t>(), extra_bytes = reader.number<uint16_t>();
  const std::string name = bytes_at(member.header_offset + kLocalBytes, name_bytes);
  if (name != member.name || method != (member.is_deflated ? 8 : 0))
    fail<DataError>("{}: its header and the directory differ; the archive is damaged", what);
  return member.header_offset + kLocalBytes + name_bytes + extra_bytes;
}

std::string ZipFile::read(const ZipMember& member, uint64_t max_bytes) const {
  const std::string what = archive_member(path_, member.name);
  if (member.bytes > max_bytes) {
    fail<DataError>("{}: {} bytes, more than the {} that are read of such a file", what,
                    member.bytes, max_bytes);
  }
  std::string bytes = bytes_at(data_offset(member), member.stored_bytes);
  if (member.is_deflated) bytes = inflate_all(bytes, member.bytes, DeflateKind::kRaw, what);
  const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  if (crc != member.crc) {
    fail<DataError>("{}: checksum {:08x}; expected {:08x}; fetch the file again", what, crc,
                    member.crc);
  }
  return bytes;
}

}  // namespace fovea
