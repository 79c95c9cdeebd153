// DeviceGraph as a CUDA graph.
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <memory>

#include "fovea/kernels/cuda/runtime.h"
#include "fovea/kernels/cuda/torch_gpu.h"
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
    const auto pool = at::cuda::graph_pool_handle();
    on_stream([&] {
      // Other threads may go on, such as one that writes a checkpoint.
      graph_->capture_begin(pool, cudaStreamCaptureModeThreadLocal);
      try {
        work();
      } catch (...) {
        end_in_vain();
        give_up(pool);
        throw;
      }
      try {
        graph_->capture_end();
      } catch (...) {
        give_up(pool);
        throw;
      }
    });
  }

  void aside(const std::function<void()>& /*work*/) override {}

  // Memory for a stream that is not recorded is none of the graph's pool. The allocator may ask the
  // device for it, which this thread may not, while it records, but for this mode.
  void apart(const std::function<void()>& work) override {
    const c10::cuda::CUDAStreamCaptureModeGuard may_allocate(cudaStreamCaptureModeRelaxed);
    const c10::cuda::CUDAStreamGuard guard(c10::cuda::getDefaultCUDAStream(device_.index()));
    work();
  }

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
  void end_in_vain() {
    try {
      graph_->capture_end();
    } catch (const std::exception&) {
      // The error of the work is the one to tell.
    }
  }

  // libtorch leaves its allocators as they were in a recording where the recording's end has
  // thrown: blocks that other streams have used would never be free again.
  void give_up(const at::cuda::MempoolId_t& pool) {
    C10_CUDA_CLEAR_ERROR();  // an invalid recording leaves one behind
    auto& host = *at::getHostAllocator(at::kCUDA);
    try {
      c10::cuda::CUDACachingAllocator::endAllocateToPool(device_.index(), pool);
      host.end_allocate_to_pool(pool);
      c10::cuda::CUDACachingAllocator::releasePool(device_.index(), pool);
      host.release_pool(pool);
    } catch (const c10::Error&) {
      // It had ended: the graph gives the pool back.
    }
    graph_.reset();
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
