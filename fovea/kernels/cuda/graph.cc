// DeviceGraph as a CUDA graph.
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <memory>

#include "fovea/kernels/device_graph.h"

namespace fovea::kernels::cuda {
namespace {

// Records on a stream of its own, for the default one cannot be recorded; replays run on the stream
// that is current then. Memory of what is recorded is a pool of the graph.
class CudaGraph final : public DeviceGraph {
 public:
  explicit CudaGraph(c10::Device device)
      : device_(device),
        stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index())) {}

  void rehearse(const std::function<void()>& work) override { on_stream(work); }

  void record(const std::function<void()>& work) override {
    const c10::cuda::CUDAGuard guard(device_);
    c10::cuda::device_synchronize();
    // While a stream is recorded, free memory does not go back to the device for the graph's pool.
    c10::cuda::CUDACachingAllocator::emptyCache();
    graph_ = std::make_unique<at::cuda::CUDAGraph>();
    on_stream([&] {
      // Other threads may go on, such as one that writes a checkpoint.
      graph_->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
      try {
        work();
      } catch (...) {
        give_up();
        throw;
      }
      try {
        graph_->capture_end();
      } catch (...) {
        give_up_ended();
        throw;
      }
    });
  }

  void aside(const std::function<void()>& /*work*/) override {}

  void replay() override {
    const c10::cuda::CUDAGuard guard(device_);
    graph_->replay();
  }

 private:
  // Behind what the current stream has to do, and before what it is given after.
  void on_stream(const std::function<void()>& work) {
    const c10::cuda::CUDAGuard device_guard(device_);
    const auto outer = c10::cuda::getCurrentCUDAStream();
    wait(/*first=*/outer, /*second=*/stream_);
    {
      const c10::cuda::CUDAStreamGuard guard(stream_);
      work();
    }
    wait(stream_, outer);
  }

  static void wait(c10::cuda::CUDAStream first, c10::cuda::CUDAStream second) {
    c10::cuda::CUDAEvent event;
    event.record(first);
    event.block(second);
  }

  // Ends a recording whose work has thrown. What the end throws says nothing new.
  void give_up() {
    try {
      graph_->capture_end();
    } catch (const std::exception&) {
      // The error of the work is the one to tell.
    }
    give_up_ended();
  }

  void give_up_ended() {
    graph_.reset();
    C10_CUDA_CLEAR_ERROR();  // an invalid recording leaves one behind
  }

  c10::Device device_;
  c10::cuda::CUDAStream stream_;
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
};

int64_t new_device_graph(const at::Tensor& x) {
  return reinterpret_cast<int64_t>(static_cast<DeviceGraph*>(new CudaGraph(x.device())));
}

}  // namespace

TORCH_LIBRARY_IMPL(fovea, CUDA, m) { m.impl("new_device_graph", new_device_graph); }

}  // namespace fovea::kernels::cuda
