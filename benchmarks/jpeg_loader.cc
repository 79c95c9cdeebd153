// Fovea's side of benchmarks/jpeg_loader.py: batches from a folder of JPEGs, a window for each line
// on the standard input.
//
//   bench_jpeg_loader FOLDER float32|uint8 THREADS
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <memory>
#include <string>

#include "fovea/core/error.h"
#include "fovea/data/datasets/folder.h"
#include "fovea/data/loader.h"
#include "fovea/data/transforms/pipeline.h"

namespace fovea::data {
namespace {

constexpr int64_t kBatch = 64;
constexpr int64_t kWarmUpBatches = 6;

Loader make_loader(const std::string& folder, PixelType type, int64_t threads) {
  NormalizeConfig normalize;
  normalize.apply_preset("imagenet");
  const RandomResizedCropConfig crop = {.size = {224}, .interpolation = "bilinear"};
  auto pipeline = std::make_shared<TransformPipeline>(
      std::vector<TransformConfig>{{crop}, {HorizontalFlipConfig{}}, {normalize}}, 3);
  return Loader(build_folder_dataset({.path = folder}), pipeline,
                {.global_batch_size = kBatch, .threads = threads, .pixel_type = type});
}

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

int64_t take(Loader& loader, int64_t batches) {
  int64_t images = 0;
  for (int64_t i = 0; i < batches; ++i) {
    Batch batch = loader.next();
    images += batch.size();
    loader.recycle(std::move(batch));
  }
  return images;
}

int run(const std::string& folder, const std::string& output, int64_t threads) {
  Loader loader =
      make_loader(folder, output == "uint8" ? PixelType::kUint8 : PixelType::kFloat32, threads);
  take(loader, kWarmUpBatches);
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    take(loader, kWarmUpBatches);  // what was prepared ahead is not counted
    const auto start = std::chrono::steady_clock::now();
    const double cpu_start = cpu_seconds();
    const int64_t images = take(loader, std::stoll(line));
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
    std::cout << fmt::format("{{\"images\": {}, \"seconds\": {}, \"cpu_seconds\": {}}}", images,
                             wall.count(), cpu_seconds() - cpu_start)
              << std::endl;
  }
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace fovea::data

int main(int argc, char** argv) try {
  if (argc != 4) {
    std::cerr << "usage: bench_jpeg_loader FOLDER float32|uint8 THREADS\n";
    return EXIT_FAILURE;
  }
  return fovea::data::run(argv[1], argv[2], std::stoll(argv[3]));
} catch (const fovea::Error& error) {
  std::cerr << error.what() << '\n';
  return EXIT_FAILURE;
}
