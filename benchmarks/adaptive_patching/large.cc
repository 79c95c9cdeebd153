// Adaptive patching of images that do not fit into memory, one thread. Each of these is a process
// of its own, so that its peak of memory is its own too:
//   bench_large_images make FILE.tif SIDE CHANNELS none|lzw|deflate   the image, the same every
//   time bench_large_images patch FILE.tif FOLDER L P MIN_LEAF [CRITERION] tokens -> FOLDER
//   bench_large_images predict FOLDER values|classes                  a map -> FOLDER/map.tif
//   bench_large_images equal FILE.tif L P                             against the image in memory
//   bench_large_images growth FILE.tif                                the tree's cost by its leaves
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <numeric>
#include <string>

#include "fovea/core/error.h"
#include "fovea/core/memory.h"
#include "fovea/core/philox.h"
#include "fovea/data/adaptive/adaptive_patching.h"
#include "fovea/data/adaptive/leaf_sweep.h"
#include "fovea/data/adaptive/sequence_file.h"
#include "fovea/data/large_image/tiff.h"
#include "fovea/files/safetensors.h"

namespace {

namespace fs = std::filesystem;
using namespace fovea::data;  // NOLINT: a program
using Words = std::vector<std::string>;

double now_s() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(time).count();
}

// Of this thread: a tree takes longer than the system lets a process run at a time on a busy
// machine.
double cpu_s() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void print_line(const std::string& what, double seconds) {
  std::cout << fmt::format("{}: {:.1f} s, peak {:.0f} MiB", what, seconds,
                           static_cast<double>(fovea::peak_memory_bytes()) / (1 << 20))
            << std::endl;
}

AdaptivePatchingConfig config_for(int64_t length, int64_t patch_size, int64_t min_leaf) {
  AdaptivePatchingConfig config;
  config.fixed_length = length;
  config.patch_size = patch_size;
  config.min_leaf = min_leaf;
  config.smoothing = {3};
  return config;
}

// A disk in each block of `side`, in those blocks of 2048 that are chosen; small ones in few.
struct DiskLevel {
  int64_t side;
  uint32_t one_in;  // of how many large blocks
};
constexpr DiskLevel kLevels[] = {{2048, 1}, {256, 3}, {64, 8}, {16, 24}};

void draw_row(int64_t y, int64_t width, int64_t channels, std::vector<uint8_t>& row) {
  for (int64_t x = 0; x < width; ++x) {
    const auto slope = static_cast<uint8_t>((x + y) >> 9);
    std::fill_n(row.begin() + x * channels, channels, slope);
  }
  uint32_t index = 0;
  for (const auto& [side, one_in] : kLevels) {
    ++index;
    const int64_t block_y = y / side;
    for (int64_t block_x = 0; block_x * side < width; ++block_x) {
      const auto large = fovea::philox4x32(
          {0, index, static_cast<uint32_t>(y / 2048), static_cast<uint32_t>(block_x * side / 2048)},
          {1, 2});
      if (large[0] % one_in != 0) continue;
      const auto words = fovea::philox4x32(
          {1, index, static_cast<uint32_t>(block_y), static_cast<uint32_t>(block_x)}, {1, 2});
      const int64_t radius = side / 8 + words[0] % static_cast<uint32_t>(side / 3);
      const int64_t dy = y - block_y * side - side / 2;
      if (dy * dy >= radius * radius) continue;
      const auto half =
          static_cast<int64_t>(std::sqrt(static_cast<double>(radius * radius - dy * dy)));
      const int64_t middle = block_x * side + side / 2;
      const int64_t begin = std::max<int64_t>(middle - half, 0);
      const int64_t end = std::min(middle + half, width);
      for (int64_t x = begin; x < end; ++x) {
        for (int64_t c = 0; c < channels; ++c) {
          row[static_cast<size_t>(x * channels + c)] = static_cast<uint8_t>(words[1] >> (8 * c));
        }
      }
    }
  }
}

void make(const Words& words) {
  const double start = now_s();
  const int64_t side = std::stoll(words.at(1));
  const int64_t channels = std::stoll(words.at(2));
  TiffWriter writer(words.at(0), {{side, side}, channels, ScalarType::kUint8, words.at(3)});
  std::vector<uint8_t> row(static_cast<size_t>(side * channels));
  for (int64_t y = 0; y < side; ++y) {
    draw_row(y, side, channels, row);
    writer.write_rows(row, 1);
  }
  writer.finish();
  print_line(fmt::format("make {} x {} x {}, {:.2f} GB", side, side, channels,
                         static_cast<double>(fs::file_size(words.at(0))) / 1e9),
             now_s() - start);
}

void patch(const Words& words) {
  const double start = now_s();
  auto config =
      config_for(std::stoll(words.at(2)), std::stoll(words.at(3)), std::stoll(words.at(4)));
  if (words.size() > 5) config.criterion = words[5];
  const auto source = open_tiff(words.at(0));
  fs::create_directories(words.at(1));
  SequenceFileWriter writer(words.at(1) + "/patches.safetensors", source->format(), config);
  PatchSequence sequence;
  double first_token = 0;
  AdaptivePatcher(config).patch(
      *source, nullptr, {},
      [&](int64_t channel, int64_t leaf, std::span<const float> token) {
        if (first_token == 0) first_token = now_s();
        writer.write_token(channel, leaf, token);
      },
      {}, sequence);
  writer.finish(sequence);
  print_line(fmt::format("patch {} x {} x {}, {}, {} leaves (first token after {:.1f} s)",
                         source->format().size.height, source->format().size.width,
                         source->format().channels, config.criterion,
                         sequence.trees[0].leaves.size(), first_token - start),
             now_s() - start);
}

void predict(const Words& words) {
  const double start = now_s();
  const std::string patches = words.at(0) + "/patches.safetensors";
  const std::string map = words.at(0) + "/map.tif";
  if (words.at(1) == "classes") {
    const auto length = fovea::SafetensorsFile::open(patches).find("leaves")->shape[1];
    std::vector<uint8_t> classes(static_cast<size_t>(length));
    for (size_t i = 0; i < classes.size(); ++i) classes[i] = static_cast<uint8_t>(i % 7);
    const fovea::SafetensorsEntry entry = {
        "classes", "U8", {length}, std::as_bytes(std::span(classes))};
    const std::string values = words.at(0) + "/classes.safetensors";
    fovea::write_safetensors(values, {&entry, 1});
    write_prediction(patches, values, map, {});
  } else {
    write_prediction(patches, patches, map, {.tensor = "tokens"});
  }
  print_line(fmt::format("predict {}, {:.2f} GB", words.at(1),
                         static_cast<double>(fs::file_size(map)) / 1e9),
             now_s() - start);
}

// How many values of the way back come out a band at a time as they do in memory.
int64_t equal_pixels(const PatchSequence& sequence, const AdaptivePatchingConfig& config) {
  const VolumeSize& size = sequence.trees[0].size;
  const auto rules = resample_rules(false, config.upstream_compatible);
  const auto length = static_cast<size_t>(sequence.token_size());
  const auto plane = static_cast<size_t>(sequence.fixed_length) * length;
  std::vector<float> whole(static_cast<size_t>(size.voxels()));
  constexpr int64_t kBand = 100;
  std::vector<float> band(static_cast<size_t>(kBand * size.width));
  ResampleScratch scratch;
  int64_t num_equal = 0;
  for (int64_t c = 0; c < sequence.channels; ++c) {
    const auto tokens = std::span(sequence.tokens).subspan(static_cast<size_t>(c) * plane, plane);
    tokens_to_volume(tokens, sequence.trees[0], sequence.patch_size, rules, whole.data(), scratch);
    patching::LeafRows<float> rows(
        sequence.trees[0], sequence.patch_size, rules, [&](int64_t leaf, std::span<float> token) {
          std::copy_n(tokens.data() + static_cast<size_t>(leaf) * length, length, token.begin());
        });
    for (int64_t y = 0; y < size.height; y += kBand) {
      const int64_t count = std::min(kBand, size.height - y);
      rows.read(y, count, band.data());
      for (int64_t i = 0; i < count * size.width; ++i) {
        num_equal += band[static_cast<size_t>(i)] == whole[static_cast<size_t>(y * size.width + i)];
      }
    }
  }
  return num_equal;
}

// Trees, tokens and the inverse of the file, against those of the same pixels in memory.
void equal(const Words& words) {
  const auto source = open_tiff(words.at(0));
  const RegionFormat& format = source->format();
  Image image;
  reshape(image, format.size, format.channels);
  source->read({0, 0, format.size}, image.pixels);
  for (const char* criterion : {"canny", "gradient", "variance"}) {
    auto config = config_for(std::stoll(words.at(1)), std::stoll(words.at(2)), 4);
    config.criterion = criterion;
    const AdaptivePatcher patcher(config);
    PatchSequence expected;
    {
      PatchingScratch scratch;
      patcher.patch(ImageView(image), nullptr, {}, expected, scratch);
    }
    int64_t num_tokens = 0, num_equal = 0;
    const auto size = static_cast<size_t>(expected.token_size());
    PatchSequence sequence;
    patcher.patch(
        *source, nullptr, {},
        [&](int64_t channel, int64_t leaf, std::span<const float> token) {
          const auto at = static_cast<size_t>(channel * config.fixed_length + leaf) * size;
          ++num_tokens;
          num_equal += std::equal(token.begin(), token.end(),
                                  expected.tokens.begin() + static_cast<ptrdiff_t>(at));
        },
        {.max_detail_bytes = int64_t{8} << 30}, sequence);
    const int64_t num_pixels = equal_pixels(expected, patcher.config());
    const bool is_same_tree = sequence.trees[0].leaves == expected.trees[0].leaves &&
                              sequence.sizes == expected.sizes &&
                              sequence.centers == expected.centers;
    std::cout << fmt::format(
                     "equal {}: {} leaves, {} tree, {} of {} tokens, {} of {} values of the "
                     "inverse",
                     criterion, expected.trees[0].leaves.size(), is_same_tree ? "same" : "ANOTHER",
                     num_equal, num_tokens, num_pixels,
                     format.size.height * format.size.width * format.channels)
              << std::endl;
  }
}

// Pushes everything else out of the caches: a tree is grown once over an image, right after its
// map.
void clear_caches() {
  static std::vector<uint64_t> other(size_t{16} << 20);
  for (uint64_t& value : other) ++value;
}

// exponent b of ms = a (L log2 L)^b, by least squares of the logarithms: b = 1 is the bar.
double exponent_of(const std::vector<std::pair<double, double>>& points) {
  double sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (const auto& [work, ms] : points) {
    sx += std::log(work);
    sy += std::log(ms);
    sxx += std::log(work) * std::log(work);
    sxy += std::log(work) * std::log(ms);
  }
  const auto count = static_cast<double>(points.size());
  return (count * sxy - sx * sy) / (count * sxx - sx * sx);
}

void growth(const Words& words) {
  const auto source = open_tiff(words.at(0));
  const auto config = config_for(65536, 16, 2);
  const auto& [height, width] = source->format().size;
  DetailMap values;
  patching::ChannelRows<uint8_t> rows(*source, -1, int64_t{64} << 20);
  const patching::ImageRows bytes = {height, width, rows.channels(),
                                     [&](int64_t y) { return rows.row(y); }};
  values.build(bytes, config, middle_detail(config), nullptr);
  std::cout << "\n| L | leaves | tree ms | ns / (L log2 L) | again, warm caches, ms |\n"
               "|---|---|---|---|---|\n";
  std::vector<std::pair<double, double>> points;  // L log2 L, ms
  for (int64_t length = 1024; length <= 65536; length *= 2) {
    PatchTree tree;
    TreeScratch scratch;
    std::vector<double> cold, warm;
    for (int round = 0; round < 31; ++round) {
      if (round % 2 == 0) clear_caches();
      const double start = cpu_s();
      grow_tree({1, height, width}, false, values,
                {.fixed_length = length, .min_leaf = config.min_leaf}, tree, scratch);
      (round % 2 == 0 ? cold : warm).push_back(1e3 * (cpu_s() - start));
    }
    std::sort(cold.begin(), cold.end());
    std::sort(warm.begin(), warm.end());
    const double work = static_cast<double>(length) * std::log2(static_cast<double>(length));
    points.emplace_back(work, cold[cold.size() / 2]);
    std::cout << fmt::format("| {} | {} | {:.3f} | {:.2f} | {:.3f} |\n", length, tree.leaves.size(),
                             points.back().second, 1e6 * points.back().second / work,
                             warm[warm.size() / 2]);
  }
  std::cout << fmt::format("fit: ms ~ (L log2 L)^{:.3f}", exponent_of(points)) << std::endl;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::map<std::string, std::function<void(const Words&)>> commands = {
      {"make", make}, {"patch", patch}, {"predict", predict}, {"equal", equal}, {"growth", growth}};
  const Words words(argv + 1, argv + argc);
  const auto found = words.empty() ? commands.end() : commands.find(words[0]);
  if (found == commands.end()) fovea::fail("expected make, patch, predict, equal or growth");
  found->second(Words(words.begin() + 1, words.end()));
  return 0;
} catch (const fovea::Error& error) {
  std::cerr << error.what() << "\n";
  return static_cast<int>(error.exit_code());
} catch (const std::out_of_range&) {
  std::cerr << "too few words; see the head of large.cc\n";
  return 2;
}
