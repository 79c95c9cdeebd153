// What benchmarks/serve/vs_servers.py holds a server with one client against: `Predictor` in a
// process of its own, one photograph after another.
//
//   bench_predictor MODEL WEIGHTS THREADS DTYPE PHOTO...
// As benchmarks/timed_worker.py asks: a line "ready", then for each line of standard input, a
// number of seconds, one of JSON: the milliseconds that each photograph took in that time.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/inference/predictor.h"
#include "fovea/kernels/cpu_allocator.h"
#include "fovea/kernels/kernel_paths.h"

namespace fovea {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kMostBytes = size_t{64} << 20;  // of a photograph

void answer_lines(const inference::Predictor& predictor,
                  const std::vector<inference::Input>& photos) {
  size_t next = 0;
  fmt::print("ready\n");
  std::fflush(stdout);
  for (double seconds = 0; std::cin >> seconds;) {
    std::vector<double> milliseconds;
    const auto begin = Clock::now();
    for (auto last = begin; last - begin < std::chrono::duration<double>(seconds);) {
      predictor.classes({photos[next++ % photos.size()]}).front().get();
      const auto now = Clock::now();
      milliseconds.push_back(std::chrono::duration<double, std::milli>(now - last).count());
      last = now;
    }
    fmt::print("{{\"milliseconds\": [{}]}}\n", fmt::join(milliseconds, ", "));
    std::fflush(stdout);
  }
}

void run(const std::vector<std::string>& words) {
  if (words.size() < 5) fail<Error>("expected MODEL WEIGHTS THREADS DTYPE PHOTO...");
  kernels::start_kernel_paths();  // as the program does
  at::set_num_threads(std::stoi(words[2]));
  const inference::Predictor predictor(words[0],
                                       {.weights = words[1], .device = "cpu", .dtype = words[3]});
  std::vector<inference::Input> photos;
  for (size_t i = 4; i < words.size(); ++i) {
    const auto bytes = read_file(words[i], kMostBytes);
    photos.push_back({inference::EncodedInput{{bytes.begin(), bytes.end()}, words[i]}});
  }
  answer_lines(predictor, photos);
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
