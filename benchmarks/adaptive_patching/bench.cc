// Times adaptive patching on raw samples, one thread. One line of JSON for each request on standard
// input: "<file> <bytes|floats> <C> <D> <H> <W> <fixed_length> <patch_size> <smoothing> <rounds>
// <criterion> <upstream_compatible>"; the file holds [H, W, C] bytes or [C, D, H, W] floats. The
// tree is written beside the file (.tree, int32 [L, 6]: z, y, x, depth, height, width).
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <new>
#include <sstream>

#include "fovea/core/error.h"
#include "fovea/data/adaptive/adaptive_patching.h"

// Counts what the steady state allocates: nothing.
static std::atomic<int64_t> num_allocations{0};
void* operator new(size_t bytes) {
  ++num_allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace {

using fovea::data::AdaptivePatcher;
using fovea::data::AdaptivePatchingConfig;
using fovea::data::Image;
using fovea::data::ImageView;
using fovea::data::PatchingScratch;
using fovea::data::PatchSequence;
using fovea::data::Volume;

double now_ms() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(time).count();
}

struct Request {
  std::string file, form, criterion;
  int64_t channels = 0, depth = 0, height = 0, width = 0;
  int64_t fixed_length = 0, patch_size = 0, smoothing = 0, rounds = 0;
  bool is_compatible = false;
};

std::vector<char> read_all(const std::string& path, size_t bytes) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> data(bytes);
  if (!file.read(data.data(), static_cast<std::streamsize>(bytes))) {
    fovea::fail<fovea::DataError>("{}: fewer than {} bytes", path, bytes);
  }
  return data;
}

template <class Sample>
void measure(const Request& request, const Sample& sample) {
  AdaptivePatchingConfig config;
  config.fixed_length = request.fixed_length;
  config.patch_size = request.patch_size;
  config.smoothing = {request.smoothing};
  config.canny_thresholds = {75, 76};
  config.criterion = request.criterion;
  config.upstream_compatible = request.is_compatible;
  const AdaptivePatcher patcher(config);
  PatchingScratch scratch;
  PatchSequence sequence;
  std::vector<double> total, detail, tree;
  patcher.patch(sample, nullptr, {}, sequence, scratch);  // fills the buffers
  int64_t allocations = 0;
  for (int64_t i = 0; i < request.rounds; ++i) {
    const int64_t before = num_allocations;
    const double start = now_ms();
    patcher.patch(sample, nullptr, {}, sequence, scratch);
    allocations += num_allocations - before;
    total.push_back(now_ms() - start);
    // The parts, once more by themselves.
    const auto draw = fovea::data::middle_detail(config);
    const double detail_start = now_ms();
    if constexpr (std::is_same_v<Sample, Volume>) {
      scratch.detail.build(fovea::data::VolumeValues(sample), -1, config, draw, nullptr);
    } else {
      scratch.detail.build(fovea::data::patching::rows_of(sample), config, draw, nullptr);
    }
    detail.push_back(now_ms() - detail_start);
    const double tree_start = now_ms();
    fovea::data::grow_tree(
        sequence.trees[0].size, sequence.dims == 3, scratch.detail,
        {.fixed_length = config.fixed_length, .stops_at_smallest = config.upstream_compatible},
        sequence.trees[0], scratch.tree);
    tree.push_back(now_ms() - tree_start);
  }
  std::ofstream out(request.file + ".tree", std::ios::binary);
  for (const auto& leaf : sequence.trees[0].leaves) {
    out.write(reinterpret_cast<const char*>(&leaf), sizeof(leaf));
  }
  out.close();  // before the answer: the other side reads it then
  const auto median = [](std::vector<double>& values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  };
  std::cout << fmt::format(
                   "{{\"total_ms\": {:.5f}, \"edges_ms\": {:.5f}, \"tree_ms\": {:.5f}, "
                   "\"leaves\": {}, \"allocations\": {}}}",
                   median(total), median(detail), median(tree), sequence.trees[0].leaves.size(),
                   allocations)
            << std::endl;
}

void run(const Request& request) {
  const auto count =
      static_cast<size_t>(request.channels * request.depth * request.height * request.width);
  if (request.form == "bytes") {
    Image image = {request.height, request.width, request.channels, {}};
    const auto data = read_all(request.file, count);
    image.pixels.assign(data.begin(), data.end());
    measure(request, ImageView(image));
  } else {
    Volume volume;
    volume.channels = request.channels;
    volume.size = {request.depth, request.height, request.width};
    const auto data = read_all(request.file, count * sizeof(float));
    volume.values.resize(count);
    std::copy(data.begin(), data.end(), reinterpret_cast<char*>(volume.values.data()));
    measure(request, volume);
  }
}

}  // namespace

int main() try {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    Request r;
    if (words >> r.file >> r.form >> r.channels >> r.depth >> r.height >> r.width >>
        r.fixed_length >> r.patch_size >> r.smoothing >> r.rounds >> r.criterion >>
        r.is_compatible) {
      run(r);
    } else {
      fovea::fail("'{}': expected twelve words, see the head of bench.cc", line);
    }
  }
  return 0;
} catch (const fovea::Error& error) {
  std::cerr << error.what() << "\n";
  return static_cast<int>(error.exit_code());
}
