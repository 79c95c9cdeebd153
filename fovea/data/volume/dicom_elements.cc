#include "fovea/data/volume/dicom_elements.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "fovea/core/error.h"

namespace fovea::data {
namespace {

constexpr int kMaxSequenceDepth = 16;

uint32_t read_tag(ByteReader& in) {
  const auto group = in.number<uint16_t>();
  return uint32_t{group} << 16 | in.number<uint16_t>();
}

void skip_sequence(ByteReader& in, bool is_explicit, int depth);

}  // namespace

DataElement read_element(ByteReader& in, bool is_explicit) {
  DataElement element;
  element.tag = read_tag(in);
  const bool is_delimiter = element.tag >> 16 == 0xFFFE;  // these have no VR
  if (!is_explicit || is_delimiter) {
    element.bytes = in.number<uint32_t>();
    return element;
  }
  std::memcpy(element.vr, in.text(2).data(), 2);
  for (const char c : element.vr) {
    if (c < 'A' || c > 'Z') {
      fail<DataError>("{}: a damaged element ({:04x},{:04x}) at offset {}", in.source(),
                      element.tag >> 16, element.tag & 0xFFFF, in.position());
    }
  }
  constexpr std::array<std::string_view, 13> kLong = {"OB", "OD", "OF", "OL", "OV", "OW", "SQ",
                                                      "SV", "UC", "UN", "UR", "UT", "UV"};
  if (std::find(kLong.begin(), kLong.end(), std::string_view(element.vr, 2)) != kLong.end()) {
    in.skip(2);
    element.bytes = in.number<uint32_t>();
  } else {
    element.bytes = in.number<uint16_t>();
  }
  return element;
}

void skip_element(ByteReader& in, const DataElement& element, bool is_explicit, int depth) {
  if (element.bytes == kUndefinedLength) {
    // The contents of UN are in implicit VR (PS3.5, 6.2.2).
    skip_sequence(in, is_explicit && !element.has_vr("UN"), depth + 1);
  } else {
    in.skip(element.bytes);
  }
}

namespace {

void check_item(ByteReader& in, const DataElement& item) {
  if (item.tag == kItem) return;
  fail<DataError>("{}: ({:04x},{:04x}) at offset {}, where an item is expected; damaged",
                  in.source(), item.tag >> 16, item.tag & 0xFFFF, in.position());
}

// Up to the item's end.
void skip_item(ByteReader& in, bool is_explicit, int depth) {
  for (DataElement inner = read_element(in, is_explicit); inner.tag != kItemEnd;
       inner = read_element(in, is_explicit)) {
    skip_element(in, inner, is_explicit, depth);
  }
}

// Items of undefined or stated length up to the sequence's end.
void skip_sequence(ByteReader& in, bool is_explicit, int depth) {
  if (depth > kMaxSequenceDepth)
    fail<DataError>("{}: sequences nested more than {} deep", in.source(), kMaxSequenceDepth);
  while (true) {
    const DataElement item = read_element(in, is_explicit);
    if (item.tag == kSequenceEnd) return;
    check_item(in, item);
    if (item.bytes != kUndefinedLength) {
      in.skip(item.bytes);
      continue;
    }
    skip_item(in, is_explicit, depth);
  }
}

}  // namespace

ByteReader item_contents(ByteReader& in, const DataElement& item, bool is_explicit, int depth) {
  check_item(in, item);
  if (depth > kMaxSequenceDepth)
    fail<DataError>("{}: sequences nested more than {} deep", in.source(), kMaxSequenceDepth);
  if (item.bytes != kUndefinedLength) return {in.take(item.bytes), in.source(), in.order()};
  constexpr size_t kEndBytes = 8;
  ByteReader ahead = in;
  skip_item(ahead, is_explicit, depth);
  const size_t bytes = ahead.position() - kEndBytes - in.position();
  const ByteReader contents(in.take(bytes), in.source(), in.order());
  in.skip(kEndBytes);
  return contents;
}

std::string_view stripped(std::string_view text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\0')) text.remove_suffix(1);
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  return text;
}

}  // namespace fovea::data
