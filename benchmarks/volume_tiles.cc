// Fovea's side of benchmarks/volume_tiles.py: shuffled tiles out of a folder of volumes, a window
// for each line on the standard input.
//
//   bench_volume_tiles FOLDER nifti|packed|raw SIDE THREADS [CACHED [TILE]]
// raw: *.raw of int16, SIDE^3. packed: the NIfTI files, packed into FOLDER/packed first. CACHED:
// cached_volumes, 0 for the default. Prints the seconds that opening took, then a line a window.
#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <iostream>
#include <memory>
#include <string>

#include "fovea/core/error.h"
#include "fovea/core/memory.h"
#include "fovea/data/datasets/packed.h"
#include "fovea/data/datasets/raw.h"
#include "fovea/data/datasets/scans.h"
#include "fovea/data/loader.h"
#include "fovea/data/tiles/tiled.h"
#include "fovea/data/transforms/any_transform.h"
#include "fovea/data/transforms/volume/volume_pipeline.h"
#include "fovea/data_tools/pack/pack.h"

namespace fovea::data {
namespace {

constexpr int64_t kBatch = 4;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::shared_ptr<const Dataset> open_volumes(const std::string& folder, const std::string& format,
                                            int64_t side) {
  if (format == "raw") {
    RawConfig config;
    config.path = folder;
    config.dtype = "int16";
    config.shape = {side, side, side};
    return build_raw_dataset(config);
  }
  NiftiConfig config;
  config.path = folder;
  const auto files = build_scans_dataset(config, NiftiConfig::kImages);
  if (format != "packed") return files;
  PackOptions options;
  options.out = folder + "/packed";
  pack_dataset(*files, options);
  return build_packed_dataset({.path = options.out});
}

void measure(Loader& loader, int64_t tiles) {
  const auto start = Clock::now();
  const std::clock_t cpu_start = std::clock();
  int64_t done = 0;
  while (done < tiles) {
    Batch batch = loader.next();
    done += batch.size();
    loader.recycle(std::move(batch));
  }
  const double cpu = static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC;
  fmt::print("{{\"tiles\": {}, \"seconds\": {}, \"cpu_seconds\": {}, \"peak_bytes\": {}}}\n", done,
             seconds_since(start), cpu, peak_memory_bytes());
  std::fflush(stdout);
}

int run(int count, char** arguments) {
  if (count < 5) {
    std::cerr << "bench_volume_tiles FOLDER nifti|packed|raw SIDE THREADS [CACHED [TILE]]\n";
    return 2;
  }
  const int64_t cached = count > 5 ? std::stoll(arguments[5]) : 0;
  const int64_t tile = count > 6 ? std::stoll(arguments[6]) : 64;
  TilingConfig tiling{.tile_size = {tile, tile, tile}};
  if (cached > 0) tiling.cached_volumes = cached;
  const auto start = Clock::now();
  const auto tiles = std::make_shared<TiledDataset>(
      open_volumes(arguments[1], arguments[2], std::stoll(arguments[3])), tiling);
  const double opened = seconds_since(start);
  const auto pipeline =
      std::make_shared<const VolumePipeline>(std::vector<VolumeTransformConfig>{}, 1);
  Loader loader(tiles, pipeline,
                {.global_batch_size = kBatch, .threads = std::stoll(arguments[4])});
  fmt::print("ready {} {} {}\n", opened, tiles->size(), tiles->tile_windows().window);
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) measure(loader, std::stoll(line));
  return 0;
}

}  // namespace
}  // namespace fovea::data

int main(int count, char** arguments) {
  try {
    return fovea::data::run(count, arguments);
  } catch (const fovea::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
