// A GPU for tests, small and slow: what fovea/kernels/cuda/simt.cuh wants of CUDA, so that the
// kernels run as C++ on any machine, under AddressSanitizer too.
//
// The threads of a block are fibers of one thread of the processor, blocks run one after another.
// A thread runs until it waits at __syncthreads or in a shuffle, a warp until all its threads wait
// for other warps. So what is read before another thread has written it, or written before another
// one has read it, depends on the order of threads and warps, which any_schedule() changes. Shared
// memory is a block of the heap of the size that the launch asked for, and full of NaNs at first.
// There are no atomics: kernels of Fovea have none, for their sums have one order.
//
// Throws Error, with places in the source, where a GPU would hang or do what nobody knows:
//   - __syncthreads that some threads of the block do not reach, or reach at another place;
//   - a shuffle that lanes named in its mask do not take part in, or that reads another lane;
//   - a launch of more threads, blocks or shared memory than every GPU has.
#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

struct dim3 {
  unsigned x = 1, y = 1, z = 1;

  // As CUDA's, also from a number alone.
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

namespace fovea::simt {

using BFloat16 = c10::BFloat16;
using Float16 = c10::Half;
using Place = std::source_location;

// Where the running thread stands.
struct Position {
  dim3 thread, block, block_dim, grid_dim;
};
inline Position position;

// Which thread of a block goes on first where several can.
enum class Schedule { kForwards, kBackwards, kMixed };

// Runs `body` for each thread of each block. Not from several threads of the processor at once.
void run(const dim3& grid, const dim3& block, size_t shared_bytes,
         const std::function<void()>& body);
void* shared_memory();

// Calls body() under each schedule: results that differ show a missing __syncthreads.
void any_schedule(const std::function<void()>& body);

// Waits until all threads of the block are here.
void wait_for_block(const Place& place);
// Waits until all lanes of `mask` are here with their values, of at most 64 bits. -> the value of
// lane `source` of the warp.
uint64_t exchange(unsigned mask, uint64_t value, int source, const Place& place);
int lane();

template <class T>
T shuffle(unsigned mask, T value, int source, const Place& place) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = exchange(mask, bits, source, place);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace fovea::simt

#define threadIdx (::fovea::simt::position.thread)
#define blockIdx (::fovea::simt::position.block)
#define blockDim (::fovea::simt::position.block_dim)
#define gridDim (::fovea::simt::position.grid_dim)

inline void __syncthreads(const fovea::simt::Place& place = fovea::simt::Place::current()) {
  fovea::simt::wait_for_block(place);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask,
                  const fovea::simt::Place& place = fovea::simt::Place::current()) {
  return fovea::simt::shuffle(mask, value, fovea::simt::lane() ^ lane_mask, place);
}

// Lanes from whose place `delta` further there is no lane keep their own value.
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta,
                   const fovea::simt::Place& place = fovea::simt::Place::current()) {
  const int source = fovea::simt::lane() + static_cast<int>(delta);
  return fovea::simt::shuffle(mask, value, source < 32 ? source : fovea::simt::lane(), place);
}
