// From the host's memory to a device while that computes.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

namespace fovea::kernels {

// Note [Copies beside]
// Operations of a GPU's stream come one after the other, copies too: one that is put behind the
// step before would begin when that is over. So batches are copied on a stream of their own, and
// what the current stream is given from then on waits for them. The host does not: while the GPU
// computes a step it has read, pinned and enqueued the next batch.
//
// No memory is written while somebody reads it. The pinned copy is of that call alone, and goes
// back to its allocator with an event on the stream that it was copied on. The tensor's memory is
// the copying stream's, so that a copy need not wait for what the current stream does; it is noted
// as used by the current stream, and is not given out again before that is done with it.

// `host`, contiguous and on the CPU, on `device`: of a CPU itself. What the device's current stream
// does from now on may read it.
at::Tensor copy_beside(const at::Tensor& host, c10::Device device);

}  // namespace fovea::kernels
