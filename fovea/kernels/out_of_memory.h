// Whether an exception says that memory ran out, whoever threw it.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <new>
#include <string>

namespace fovea::kernels {

// Memory of a GPU that libtorch's allocator does not give: of cuBLAS, cuDNN, NCCL and CUDA itself,
// and of HIP's. libtorch throws its own general errors then.
inline bool is_of_gpu_memory(const std::string& what) {
  return what.find("CUDA error: out of memory") != std::string::npos ||
         what.find("CUDA out of memory") != std::string::npos ||
         what.find("HIP error: out of memory") != std::string::npos ||
         what.find("HIP out of memory") != std::string::npos ||
         what.find("HIPBLAS_STATUS_ALLOC_FAILED") != std::string::npos ||
         what.find("CUBLAS_STATUS_ALLOC_FAILED") != std::string::npos ||
         what.find("CUDNN_STATUS_ALLOC_FAILED") != std::string::npos ||
         (what.find("ncclUnhandledCudaError") != std::string::npos &&
          what.find("out of memory") != std::string::npos);
}

// oneDNN's own class of exceptions, whose header libtorch does not carry.
inline bool is_of_onednn(const std::exception& error) {
  const std::string what = error.what();
  return what == "could not create a primitive" ||  // not "... primitive descriptor": not supported
         what.find("could not execute a primitive") != std::string::npos ||
         what.find("could not create a memory") != std::string::npos;
}

inline bool is_out_of_memory(const c10::Error& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return true;
  const std::string what = error.what_without_backtrace();
  if (is_of_gpu_memory(what)) return true;
  const auto first_line = what.substr(0, what.find('\n'));
  return first_line.find("not enough memory") != std::string::npos ||
         first_line.find("can't allocate memory") != std::string::npos;
}

inline bool is_out_of_memory(const std::exception& error) {
  if (const auto* torch = dynamic_cast<const c10::Error*>(&error)) return is_out_of_memory(*torch);
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr || is_of_onednn(error);
}

}  // namespace fovea::kernels
