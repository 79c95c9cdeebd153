// What the rows that a layer multiplies are held to, where their codes of 8-bit integers are not
// found row by row.
#pragma once

namespace fovea::kernels {

// 0 is among the numbers; both are finite.
struct Int8Range {
  float least = 0, largest = 0;

  bool operator==(const Int8Range&) const = default;
};

}  // namespace fovea::kernels
