// Fovea's side of benchmarks/jpeg_loader.py: batches from a folder of JPEGs, a window for each line
// on the standard input.
//
//   bench_jpeg_loader FOLDER float32|uint8|rand-m9|decode THREADS [files|raw]
// rand-m9: float32 with timm's rand-m9-mstd0.5-inc1. decode: no loader, but every file decoded
// whole into reused buffers: what the machine can do. raw: the pixels are packed before, into a
// folder that goes away at the end.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/data/datasets/folder.h"
#include "fovea/data/datasets/packed.h"
#include "fovea/data/image/decode.h"
#include "fovea/data/loader.h"
#include "fovea/data/transforms/image/auto_augment.h"
#include "fovea/data/transforms/image/horizontal_flip.h"
#include "fovea/data/transforms/image/normalize.h"
#include "fovea/data/transforms/image/pipeline.h"
#include "fovea/data/transforms/image/random_resized_crop.h"
#include "fovea/data_tools/pack/pack.h"

namespace fovea::data {
namespace {

constexpr int64_t kBatch = 64;
constexpr int64_t kWarmUpBatches = 6;

// A folder that goes away with the object.
class TempFolder {
 public:
  TempFolder()
      : path_(std::filesystem::temp_directory_path() / fmt::format("bench_{}", getpid())) {}
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

std::shared_ptr<const Dataset> open_pixels(const std::string& folder, const TempFolder& packed) {
  PackOptions options;
  options.out = packed.path();
  options.raw = true;
  pack_dataset(*build_folder_dataset({.path = folder}), options);
  return build_packed_dataset({.path = packed.path()});
}

Loader make_loader(std::shared_ptr<const Dataset> dataset, const std::string& output,
                   int64_t threads) {
  NormalizeConfig normalize;
  normalize.apply_preset("imagenet");
  const RandomResizedCropConfig crop = {.size = {224}, .interpolation = "bilinear"};
  std::vector<TransformConfig> transforms = {{crop}, {HorizontalFlipConfig{}}};
  if (output == "rand-m9") {
    AutoAugmentConfig policy;
    policy.policy = "rand-m9-mstd0.5-inc1";
    policy.interpolation = "bilinear";
    transforms.push_back({policy});
  }
  transforms.push_back({normalize});
  const PixelType type = output == "uint8" ? PixelType::kUint8 : PixelType::kFloat32;
  return Loader(std::move(dataset), std::make_shared<TransformPipeline>(transforms, 3),
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

// Every file in memory, and threads that decode them.
class Decoders {
 public:
  Decoders(const Dataset& files, int64_t threads) : images_(static_cast<size_t>(threads)) {
    for (int64_t i = 0; i < files.size(); ++i) {
      Sample sample;
      files.read(i, sample);
      files_.push_back(sample.as<EncodedImage>().buffer);
    }
  }

  int64_t decode(int64_t batches) {
    std::vector<std::thread> pool;
    const auto threads = images_.size();
    const auto count = static_cast<size_t>(batches * kBatch);
    for (size_t thread = 0; thread < threads; ++thread) {
      pool.emplace_back([this, thread, threads, count] {
        for (size_t i = thread; i < count; i += threads) {
          decode_image(files_[(next_ + i) % files_.size()], images_[thread]);
        }
      });
    }
    for (std::thread& thread : pool) thread.join();
    next_ += count;
    return static_cast<int64_t>(count);
  }

 private:
  std::vector<std::vector<uint8_t>> files_;
  std::vector<Image> images_;  // [threads]
  size_t next_ = 0;
};

// A window for each line of the standard input: how many batches.
void answer(const std::function<int64_t(int64_t batches)>& take_batches) {
  take_batches(kWarmUpBatches);
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    take_batches(kWarmUpBatches);  // what was prepared ahead is not counted
    const auto start = std::chrono::steady_clock::now();
    const double cpu_start = cpu_seconds();
    const int64_t images = take_batches(std::stoll(line));
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
    std::cout << fmt::format("{{\"images\": {}, \"seconds\": {}, \"cpu_seconds\": {}}}", images,
                             wall.count(), cpu_seconds() - cpu_start)
              << std::endl;
  }
}

void run(const std::string& folder, const std::string& output, int64_t threads, bool is_raw) {
  const TempFolder packed;
  if (output == "decode") {
    Decoders decoders(*build_folder_dataset({.path = folder}), threads);
    return answer([&](int64_t batches) { return decoders.decode(batches); });
  }
  auto dataset = is_raw ? open_pixels(folder, packed) : build_folder_dataset({.path = folder});
  Loader loader = make_loader(std::move(dataset), output, threads);
  answer([&](int64_t batches) { return take(loader, batches); });
}

}  // namespace
}  // namespace fovea::data

int main(int argc, char** argv) try {
  if (argc != 4 && argc != 5) {
    std::cerr
        << "usage: bench_jpeg_loader FOLDER float32|uint8|rand-m9|decode THREADS [files|raw]\n";
    return EXIT_FAILURE;
  }
  const bool is_raw = argc == 5 && std::string(argv[4]) == "raw";
  fovea::data::run(argv[1], argv[2], std::stoll(argv[3]), is_raw);
  return EXIT_SUCCESS;
} catch (const fovea::Error& error) {
  std::cerr << error.what() << '\n';
  return EXIT_FAILURE;
}
