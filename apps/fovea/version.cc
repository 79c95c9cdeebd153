#include "apps/fovea/version.h"

#include <ATen/Context.h>
#include <ATen/Version.h>
#include <fmt/format.h>
#include <torch/headeronly/version.h>

#include "commit.h"
#include "fovea/data/volume/dicom_codec.h"
#include "fovea/kernels/device.h"
#include "fovea/parallel/nccl.h"
#include "fovea/serve/grpc/grpc_server.h"

namespace fovea::app {
namespace {

#ifdef __clang__
constexpr const char* kCompiler = "Clang " __clang_version__;
#else
constexpr const char* kCompiler = "GCC " __VERSION__;
#endif

#ifdef FOVEA_HDF5
constexpr bool kHasHdf5 = true;
#else
constexpr bool kHasHdf5 = false;
#endif

#ifdef FOVEA_OPENSLIDE
constexpr bool kHasOpenSlide = true;
#else
constexpr bool kHasOpenSlide = false;
#endif

std::string cpu_text() {
  return fmt::format("{}{}{}", at::get_cpu_capability(), at::hasMKLDNN() ? ", oneDNN" : "",
                     at::hasMKL() ? ", MKL" : "");
}

}  // namespace

std::string version_text() {
  const auto& cuda = kernels::load_cuda_backend();  // before libtorch is asked for anything
  return fmt::format(
      "fovea {}, commit {}, {}\n"
      "libtorch  {}\n"
      "CPU       {}\n"
      "CUDA      {}\n"
      "ranks     shared memory, Gloo{}\n"
      "HDF5      {}\n"
      "OpenSlide {}\n"
      "GDCM      {}\n"
      "gRPC      {}\n",
      FOVEA_VERSION, FOVEA_COMMIT, kCompiler, TORCH_VERSION, cpu_text(), cuda.reason,
      parallel::has_nccl() ? ", NCCL" : "; no NCCL", kHasHdf5 ? "yes" : "no",
      kHasOpenSlide ? "yes" : "no", data::has_gdcm() ? "yes" : "no",
      serve::has_grpc_module() ? "yes" : "no");
}

}  // namespace fovea::app
