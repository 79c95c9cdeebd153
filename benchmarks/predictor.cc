// `Predictor` in a process of its own, of which benchmarks ask for seconds by turns: photographs
// one after another (serve/vs_servers.py), or a batch as a tensor again and again (vs_openvino.py).
//
//   bench_predictor TARGET WEIGHTS THREADS DTYPE PHOTO...
//   bench_predictor TARGET WEIGHTS THREADS DTYPE IMAGES.npy   [B, C, H, W] or [B, C, D, H, W]
// As benchmarks/timed_worker.py asks: a line "ready", then for each line of standard input, a
// number of seconds, one of JSON: the milliseconds of each photograph or batch in that time, and
// the processor's seconds.
#include "fovea/inference/predictor.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include "fovea/core/cpu_time.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/kernels/cpu_allocator.h"
#include "fovea/kernels/kernel_paths.h"
#include "fovea/nn/tensor_file.h"

namespace fovea {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kMostBytes = size_t{64} << 20;  // of a photograph

// ask: one photograph or batch.
void answer_lines(const std::function<void()>& ask) {
  fmt::print("ready\n");
  std::fflush(stdout);
  for (double seconds = 0; std::cin >> seconds;) {
    std::vector<double> milliseconds;
    const double cpu_begin = cpu_seconds();
    const auto begin = Clock::now();
    for (auto last = begin; last - begin < std::chrono::duration<double>(seconds);) {
      ask();
      const auto now = Clock::now();
      milliseconds.push_back(std::chrono::duration<double, std::milli>(now - last).count());
      last = now;
    }
    fmt::print("{{\"milliseconds\": [{}], \"cpu_seconds\": {}}}\n", fmt::join(milliseconds, ", "),
               cpu_seconds() - cpu_begin);
    std::fflush(stdout);
  }
}

void ask_for_photos(const inference::Predictor& predictor, std::span<const std::string> names) {
  std::vector<inference::Input> photos;
  for (const auto& name : names) {
    const auto bytes = read_file(name, kMostBytes);
    photos.push_back({inference::EncodedInput{{bytes.begin(), bytes.end()}, name}});
  }
  answer_lines([&, next = size_t{0}]() mutable {
    predictor.classes({photos[next++ % photos.size()]}).front().get();
  });
}

void run(const std::vector<std::string>& words) {
  if (words.size() < 5) fail<Error>("expected TARGET WEIGHTS THREADS DTYPE and what to ask about");
  kernels::start_kernel_paths();  // as the program does
  at::set_num_threads(std::stoi(words[2]));
  const inference::Predictor predictor(words[0],
                                       {.weights = words[1], .device = "cpu", .dtype = words[3]});
  if (!nn::is_tensor_file(words[4])) {
    return ask_for_photos(predictor, std::span(words).subspan(4));
  }
  const auto images = nn::read_one_tensor(words[4], "images");
  answer_lines([&] { predictor.logits(images); });
}

}  // namespace
}  // namespace fovea

int main(int argc, char** argv) try {
  fovea::kernels::use_caching_cpu_allocator();
  fovea::run({argv + 1, argv + argc});
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return EXIT_FAILURE;
}
