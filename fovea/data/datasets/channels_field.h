// The key `channels`, which every format has.
#pragma once

#include <cstdint>
#include <vector>

namespace fovea::data {

template <class Visitor, class Field>
void visit_channels(Visitor& v, Field& channels) {
  v.field("channels", channels,
          "which channels of each sample are used, in this order, from 0: [0, 1] of a file with "
          "four; the model's in_chans is their number; default: all",
          {.one_is_list = true});
}

}  // namespace fovea::data
