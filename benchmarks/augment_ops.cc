// Times the operations of augmentation, one thread, for benchmarks/augment_ops.py.
//
//   augment_ops IMAGE HEIGHT WIDTH CHANNELS SECONDS OUT_FOLDER < cases
// IMAGE: raw bytes [H, W, C]. A case is a line: operation, argument, interpolation; or `policy
// TEXT`. Prints milliseconds of processor time of each, the median of short runs or the mean of a
// policy, and writes each operation's result as OUT_FOLDER/<line number>.raw.
#include "fovea/data/transforms/image/augment_ops.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/data/transforms/image/auto_augment.h"

namespace {

using Clock = std::chrono::steady_clock;

// Of this thread: what else the machine does hardly shows.
double cpu_milliseconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
}

using fovea::data::ImageView;

// Median over runs of about a millisecond.
template <class F>
double median_milliseconds(double seconds, F&& f) {
  const auto time = [&](int64_t calls) {
    const double start = cpu_milliseconds();
    for (int64_t i = 0; i < calls; ++i) f();
    return (cpu_milliseconds() - start) / static_cast<double>(calls);
  };
  const auto calls = std::max<int64_t>(1, static_cast<int64_t>(1.0 / std::max(time(3), 1e-4)));
  std::vector<double> times;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (times.size() < 5 || Clock::now() < end) times.push_back(time(calls));
  std::nth_element(times.begin(), times.begin() + static_cast<int64_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

struct Case {
  fovea::data::Image image;
  fovea::data::TransformScratch scratch;
  double seconds = 0;

  double time_policy(const std::string& text) {
    const auto policy = fovea::data::parse_augment_policy(text);
    constexpr int kImages = 1000;  // operations differ much: the mean
    const double start = cpu_milliseconds();
    for (int sample = 0; sample < kImages; ++sample) {
      fovea::RandomStream random({1, 2}, static_cast<uint64_t>(sample));
      fovea::data::apply_augment_policy(policy, {}, ImageView(image), random, scratch);
    }
    return (cpu_milliseconds() - start) / kImages;
  }

  double time_op(const std::string& name, double arg, const std::string& interpolation,
                 ImageView& result) {
    const auto mode = fovea::data::interpolation_from_name(interpolation);
    const auto action = fovea::data::augment_op_kind(name).action;
    fovea::RandomStream random({1, 2}, 3);
    return median_milliseconds(seconds, [&] {
      result = fovea::data::run_augment_action(action, arg, mode, {128, 128, 128}, ImageView(image),
                                               random, scratch);
    });
  }
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 7) {
    std::cerr << "usage: augment_ops IMAGE HEIGHT WIDTH CHANNELS SECONDS OUT_FOLDER < cases\n";
    return 2;
  }
  Case one;
  std::ifstream file(argv[1], std::ios::binary);
  reshape(one.image, {std::stoll(argv[2]), std::stoll(argv[3])}, std::stoll(argv[4]));
  file.read(reinterpret_cast<char*>(one.image.pixels.data()),
            static_cast<std::streamsize>(one.image.pixels.size()));
  if (!file) fovea::fail<fovea::DataError>("{}: too short, or not there", argv[1]);
  one.seconds = std::stod(argv[5]);
  std::string line;
  for (int number = 0; std::getline(std::cin, line); ++number) {
    std::istringstream words(line);
    std::string name, arg, interpolation;
    words >> name >> arg >> interpolation;
    if (name == "policy") {
      std::cout << one.time_policy(arg) << std::endl;
      continue;
    }
    ImageView result;
    std::cout << one.time_op(name, std::stod(arg), interpolation, result) << std::endl;
    std::ofstream out(std::string(argv[6]) + "/" + std::to_string(number) + ".raw",
                      std::ios::binary);
    for (int64_t y = 0; y < result.height; ++y) {
      out.write(reinterpret_cast<const char*>(result.row(y)),
                static_cast<std::streamsize>(result.width * result.channels));
    }
  }
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
