// The elements that a DICOM file is made of, in explicit or implicit VR (PS3.5, 7).
#pragma once

#include <cstdint>
#include <string_view>

#include "fovea/files/byte_reader.h"

namespace fovea::data {

inline constexpr uint32_t kUndefinedLength = 0xFFFFFFFF;
inline constexpr uint32_t kItem = 0xFFFEE000, kItemEnd = 0xFFFEE00D, kSequenceEnd = 0xFFFEE0DD;

struct DataElement {
  uint32_t tag = 0;
  char vr[2] = {};
  uint32_t bytes = 0;

  bool has_vr(std::string_view name) const { return std::string_view(vr, 2) == name; }
};

// All throw DataError where the bytes end too early or are no elements.
DataElement read_element(ByteReader& in, bool is_explicit);

// What follows an element: its value, or a sequence of undefined length. depth: of sequences around
// it.
void skip_element(ByteReader& in, const DataElement& element, bool is_explicit, int depth);

// One item of a sequence whose header has been read: what is in it.
ByteReader item_contents(ByteReader& in, const DataElement& item, bool is_explicit, int depth);

// read_item(contents) of each item of a sequence, of stated or undefined length.
template <class F>
void for_each_item(ByteReader& in, const DataElement& sequence, bool is_explicit, int depth,
                   F&& read_item) {
  if (sequence.bytes != kUndefinedLength) {
    ByteReader items(in.take(sequence.bytes), in.source(), in.order());
    while (!items.at_end()) {
      const DataElement item = read_element(items, is_explicit);
      read_item(item_contents(items, item, is_explicit, depth));
    }
    return;
  }
  for (DataElement item = read_element(in, is_explicit); item.tag != kSequenceEnd;
       item = read_element(in, is_explicit)) {
    read_item(item_contents(in, item, is_explicit, depth));
  }
}

// Without the blanks and zeros that make a value's length even.
std::string_view stripped(std::string_view text);

}  // namespace fovea::data
