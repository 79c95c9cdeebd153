// Where filters read beyond an edge.
#pragma once

#include <cstdint>

namespace fovea::data::patching {

// ... 2 1 | 0 1 2 ... n-1 | n-2 ...: OpenCV's default border; of one element, that element.
inline int64_t reflect101(int64_t i, int64_t n) {
  if (n == 1) return 0;
  while (i < 0 || i >= n) i = i < 0 ? -i : 2 * (n - 1) - i;
  return i;
}

// ... 1 0 | 0 1 ... n-1 | n-1 n-2 ...: SciPy's "reflect", its default.
inline int64_t reflect(int64_t i, int64_t n) {
  while (i < 0 || i >= n) i = i < 0 ? -1 - i : 2 * n - 1 - i;
  return i;
}

}  // namespace fovea::data::patching
