// Large tables that are read at random: with small pages the walk to a page costs more than the
// table's own access.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fovea::data::patching {

// As vector.resize(count) of an empty or kept buffer; where it allocates much, the system is asked
// for huge pages before the memory is touched. It may decline, which changes nothing but time.
template <class T>
void resize_large(std::vector<T>& values, size_t count) {
  constexpr size_t kHugePage = size_t{2} << 20;
  if (count > values.capacity() && count * sizeof(T) >= 4 * kHugePage) {
    values.clear();
    values.reserve(count);
    const auto first = (reinterpret_cast<uintptr_t>(values.data()) + kHugePage - 1) / kHugePage;
    const auto last = reinterpret_cast<uintptr_t>(values.data() + count) / kHugePage;
    madvise(reinterpret_cast<void*>(first * kHugePage), (last - first) * kHugePage, MADV_HUGEPAGE);
  }
  values.resize(count);
}

}  // namespace fovea::data::patching
