// A batch in parts that there is memory for.
#pragma once

#include <c10/core/Device.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <mutex>

#include "fovea/kernels/out_of_memory.h"

namespace fovea::kernels {

// Thread-safe.
class FittingParts {
 public:
  // most: items of a part while none has run out of memory, on that device.
  FittingParts(int64_t most, c10::Device device) : device_(device), most_(most) {}

  // body(first, count) for all of [0, total), `most` at a time. Where memory runs out in a part,
  // it and those after it are of half as many, which a warning says; what one item alone has no
  // memory for is body's error.
  template <class Body>
  void run(int64_t total, const Body& body) {
    for (int64_t first = 0; first < total;) {
      const auto count = std::min(total - first, most());
      if (is_done(count, [&] { body(first, count); })) {
        first += count;
      } else {
        lower_from(count);
      }
    }
  }
  int64_t most() const;

 private:
  // What a part had taken is given back by now: nothing of it is kept in an exception.
  template <class Part>
  static bool is_done(int64_t count, const Part& part) {
    try {
      part();
      return true;
    } catch (const std::exception& error) {
      if (count == 1 || !is_out_of_memory(error)) throw;
      return false;
    }
  }
  void lower_from(int64_t count);

  const c10::Device device_;
  mutable std::mutex mutex_;
  int64_t most_;
};

}  // namespace fovea::kernels
