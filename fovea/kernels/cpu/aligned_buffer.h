// Working memory that starts at a cache line.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "fovea/core/early_memory.h"

namespace fovea::kernels::cpu {

// Of `T`s without constructors. Grows to the most that was asked for, and keeps that.
template <class T>
class AlignedBuffer {
 public:
  // Room for `count` of them; what they are is not said. Throws std::bad_alloc.
  T* reserve(int64_t count) {
    if (count <= count_) return data();
    constexpr size_t kLine = 64;
    const auto bytes = (static_cast<size_t>(count) * sizeof(T) + kLine - 1) / kLine * kLine;
    void* memory = take_early_memory(bytes);
    if (!memory) memory = std::aligned_alloc(kLine, bytes);
    if (!memory) throw std::bad_alloc();
    memory_ = {static_cast<T*>(memory), Free{bytes}};
    count_ = count;
    return data();
  }
  T* data() const { return memory_.get(); }

 private:
  struct Free {
    size_t bytes = 0;
    void operator()(T* memory) const {
      if (!give_back_early_memory(memory, bytes)) std::free(memory);
    }
  };
  std::unique_ptr<T, Free> memory_;
  int64_t count_ = 0;
};

}  // namespace fovea::kernels::cpu
