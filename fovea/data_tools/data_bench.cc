#include "fovea/data_tools/data_bench.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "fovea/core/cpu_time.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/core/median.h"
#include "fovea/data/image/decode.h"

namespace fovea::data {
namespace {

using BenchClock = std::chrono::steady_clock;

constexpr int64_t kLimitSamples = 256;            // kept in memory for the limit
constexpr size_t kLimitBytes = size_t{64} << 20;  // and no more than this of them
constexpr size_t kCopyBytes = size_t{64} << 20;   // larger than caches

double seconds_since(BenchClock::time_point start) {
  return std::chrono::duration<double>(BenchClock::now() - start).count();
}

struct BenchWindow {
  double images_per_second = 0;
  double cpu_ms = 0;  // a sample
};

BenchWindow bench_window(double images, double seconds, double cpu) {
  return {.images_per_second = images / seconds, .cpu_ms = 1e3 * cpu / images};
}

void tell(const DataBenchOptions& options, const std::string& what) {
  if (options.progress) options.progress(what);
}

// What the limit works on: some samples as they are stored.
struct StoredSamples {
  std::vector<std::vector<uint8_t>> files;  // where they are image files
  double bytes = 0;                         // of one sample, on average
};

StoredSamples stored_samples(const Dataset& dataset, const DataBenchOptions& options) {
  StoredSamples stored;
  Sample sample;
  Image decoded;
  size_t bytes = 0;
  const int64_t count = std::min(dataset.size(), kLimitSamples);
  int64_t done = 0;
  const auto start = BenchClock::now();
  const auto is_time_left = [&] { return done == 0 || seconds_since(start) < options.seconds; };
  for (; done < count && bytes < kLimitBytes && is_time_left(); ++done) {
    tell(options, fmt::format("reading samples for the limit {}/{}", done, count));
    // Spread over the set: files of one class are alike.
    const int64_t index = done * (dataset.size() / count);
    dataset.read(index, sample);
    if (sample.is<EncodedImage>()) {
      const auto& file = sample.as<EncodedImage>().bytes;
      stored.files.emplace_back(file.begin(), file.end());
      decode_image(file, dataset.describe(index), decoded);  // a damaged one is named here
      bytes += file.size();
    } else {
      const size_t value_bytes = sample.is<Volume>() ? sizeof(float) : sizeof(uint8_t);
      bytes += static_cast<size_t>(sample.channels() * sample.size().voxels()) * value_bytes;
    }
  }
  stored.bytes = static_cast<double>(bytes) / static_cast<double>(done);
  return stored;
}

// Calls work(thread) in so many threads at once, over and over until the time is up; the number of
// calls.
double repeat_in_threads(int64_t threads, double seconds,
                         const std::function<void(int64_t thread, int64_t call)>& work) {
  std::atomic<int64_t> calls = 0;
  const auto start = BenchClock::now();
  std::vector<std::thread> pool;
  for (int64_t thread = 0; thread < threads; ++thread) {
    pool.emplace_back([&, thread] {
      for (int64_t call = 0; call == 0 || seconds_since(start) < seconds; ++call) {
        work(thread, call);
        ++calls;
      }
    });
  }
  for (std::thread& thread : pool) thread.join();
  return static_cast<double>(calls);
}

LoaderOptions loader_options(const LoaderSetup& setup, const DataBenchOptions& options,
                             int64_t batch_size, int64_t threads) {
  LoaderOptions chosen = setup.options;
  chosen.global_batch_size = std::min(batch_size, setup.dataset->size());
  chosen.batch_schedule.clear();
  chosen.seed = options.seed;
  chosen.threads = threads;
  chosen.pixel_type = options.pixel_type;
  return chosen;
}

// Of one thread, after the first sample, which also opens files.
double seconds_of_a_sample(const LoaderSetup& setup, const DataBenchOptions& options) {
  tell(options, "timing a sample");
  Loader loader(setup.dataset, setup.transforms, loader_options(setup, options, 1, 0));
  loader.next();
  const auto start = BenchClock::now();
  loader.next();
  return seconds_since(start);
}

// A loader and its machine limit with so many threads.
class BenchCase {
 public:
  BenchCase(const LoaderSetup& setup, const DataBenchOptions& options, int64_t threads,
            const StoredSamples& stored, double sample_seconds)
      : setup_(setup), options_(options), threads_(threads), stored_(stored) {
    // A quarter of a window holds a batch.
    const double fitting =
        options.seconds / 4 * static_cast<double>(threads) / std::max(sample_seconds, 1e-9);
    batch_size_ = fitting < static_cast<double>(options.batch_size)
                      ? std::max<int64_t>(1, static_cast<int64_t>(fitting))
                      : options.batch_size;
    batch_size_ = std::min(batch_size_, setup.dataset->size());
  }

  // The loader lives no longer than its windows: its threads would fill their queue on while others
  // are measured.
  void run_round(int64_t round) {
    title_ = fmt::format("round {} of {}, {} thread{}", round + 1, options_.rounds, threads_,
                         threads_ == 1 ? "" : "s");
    const auto chosen = loader_options(setup_, options_, batch_size_, threads_);
    measure_loader(Loader(setup_.dataset, setup_.transforms, chosen), chosen.prefetch + 2);
    tell(options_, title_ + ": the machine's limit");
    limits_.push_back(stored_.files.empty() ? measure_memory() : measure_decode());
  }

  DataBenchResult result() const {
    DataBenchResult result;
    result.name = options_.name;
    result.dtype = options_.pixel_type == PixelType::kUint8 ? "uint8" : "float32";
    result.threads = threads_;
    result.batch_size = batch_size_;
    result.rounds = static_cast<int64_t>(windows_.size());
    const auto rates = column(windows_, &BenchWindow::images_per_second);
    result.images_per_second = fovea::median(rates);
    result.images_per_second_min = *std::min_element(rates.begin(), rates.end());
    result.images_per_second_max = *std::max_element(rates.begin(), rates.end());
    result.cpu_ms = fovea::median(column(windows_, &BenchWindow::cpu_ms));
    for (size_t i = 0; i < kNumStages; ++i) result.stage_ms[i] = fovea::median(stages_[i]);
    result.limit = stored_.files.empty() ? MachineLimit::kMemory : MachineLimit::kFullDecode;
    result.limit_images_per_second =
        fovea::median(column(limits_, &BenchWindow::images_per_second));
    result.limit_cpu_ms = fovea::median(column(limits_, &BenchWindow::cpu_ms));
    result.limit_share = result.images_per_second / result.limit_images_per_second;
    result.limit_cpu_share = result.limit_cpu_ms / result.cpu_ms;
    return result;
  }

 private:
  static std::vector<double> column(const std::vector<BenchWindow>& windows,
                                    double BenchWindow::*member) {
    std::vector<double> values;
    for (const BenchWindow& window : windows) values.push_back(window.*member);
    return values;
  }

  int64_t take_batch(Loader& loader) {
    Batch batch = loader.next();
    const int64_t images = batch.size();
    sample_bytes_ = static_cast<double>(batch.images.size() * sizeof(float) + batch.bytes.size() +
                                        batch.masks.size() * sizeof(int32_t)) /
                    static_cast<double>(std::max<int64_t>(images, 1));
    loader.recycle(std::move(batch));
    return images;
  }

  void warm_up(Loader& loader, int64_t batches) {
    const auto start = BenchClock::now();
    for (int64_t i = 0; i < batches && seconds_since(start) < options_.seconds; ++i) {
      tell(options_, title_ + ": warming up");
      take_batch(loader);
    }
  }

  BenchWindow measure_window(Loader& loader, double seconds) {
    const auto start = BenchClock::now();
    const double cpu = cpu_seconds();
    int64_t images = 0;
    do {
      images += take_batch(loader);
      tell(options_, fmt::format("{}: {:.0f} img/s", title_,
                                 static_cast<double>(images) / seconds_since(start)));
    } while (seconds_since(start) < seconds);
    return bench_window(static_cast<double>(images), seconds_since(start), cpu_seconds() - cpu);
  }

  // A window for the speed and, with the clocks on, one for the stages.
  void measure_loader(Loader loader, int64_t warm_up_batches) {
    warm_up(loader, warm_up_batches);
    windows_.push_back(measure_window(loader, options_.seconds));
    loader.time_stages(true);
    warm_up(loader, warm_up_batches);
    loader.take_stage_times();
    measure_window(loader, options_.seconds / 4);
    const StageTimes times = loader.take_stage_times();
    for (size_t i = 0; i < kNumStages; ++i) {
      stages_[i].push_back(1e3 * times.seconds[i] /
                           static_cast<double>(std::max<int64_t>(times.samples, 1)));
    }
  }

  BenchWindow measure_decode() {
    decoded_.resize(static_cast<size_t>(threads_));
    const auto decode = [&](int64_t thread, int64_t call) {
      // Each thread begins elsewhere.
      const auto file = static_cast<size_t>(call * threads_ + thread) % stored_.files.size();
      decode_image(stored_.files[file], decoded_[static_cast<size_t>(thread)]);
    };
    const auto start = BenchClock::now();
    const double cpu = cpu_seconds();
    const double images_done = repeat_in_threads(threads_, options_.seconds / 2, decode);
    return bench_window(images_done, seconds_since(start), cpu_seconds() - cpu);
  }

  BenchWindow measure_memory() {
    std::vector<std::vector<uint8_t>> from, to;
    for (int64_t i = 0; i < threads_; ++i) {
      from.emplace_back(kCopyBytes, uint8_t{1});
      to.emplace_back(kCopyBytes, uint8_t{2});
    }
    const auto start = BenchClock::now();
    const double cpu = cpu_seconds();
    const double copies =
        repeat_in_threads(threads_, options_.seconds / 2, [&](int64_t thread, int64_t) {
          const auto i = static_cast<size_t>(thread);
          std::memcpy(to[i].data(), from[i].data(), kCopyBytes);
        });
    // A copy reads and writes each byte; a sample is read, and written as the batch has it.
    const double bytes = 2.0 * static_cast<double>(kCopyBytes) * copies;
    return bench_window(bytes / (stored_.bytes + sample_bytes_), seconds_since(start),
                        cpu_seconds() - cpu);
  }

  const LoaderSetup& setup_;
  const DataBenchOptions& options_;
  int64_t threads_;
  int64_t batch_size_ = 1;
  std::string title_;  // of what is being done
  const StoredSamples& stored_;
  double sample_bytes_ = 0;  // of one sample in the batch
  std::vector<BenchWindow> windows_;
  std::array<std::vector<double>, kNumStages> stages_;
  std::vector<Image> decoded_;  // [threads]
  std::vector<BenchWindow> limits_;
};

}  // namespace

std::vector<DataBenchResult> bench_data(const LoaderSetup& setup, const DataBenchOptions& options) {
  FOVEA_CHECK(options.rounds > 0 && options.seconds > 0 && options.batch_size > 0 &&
                  !options.threads.empty(),
              "{} rounds of {} seconds; expected more than 0", options.rounds, options.seconds);
  const StoredSamples stored = stored_samples(*setup.dataset, options);
  const double sample_seconds = seconds_of_a_sample(setup, options);
  std::vector<std::unique_ptr<BenchCase>> cases;
  for (const int64_t threads : options.threads) {
    FOVEA_CHECK(threads > 0, "a loader with {} threads; expected at least one", threads);
    cases.push_back(std::make_unique<BenchCase>(setup, options, threads, stored, sample_seconds));
  }
  for (int64_t round = 0; round < options.rounds; ++round) {
    for (const auto& one : cases) one->run_round(round);
  }
  std::vector<DataBenchResult> results;
  for (const auto& one : cases) results.push_back(one->result());
  return results;
}

std::string DataBenchResult::to_json() const {
  nlohmann::ordered_json stages;
  for (size_t i = 0; i < kNumStages; ++i) stages[kStageNames[i]] = stage_ms[i];
  const nlohmann::ordered_json object = {
      {"name", name},
      {"mode", "load"},
      {"dtype", dtype},
      {"threads", threads},
      {"batch_size", batch_size},
      {"rounds", rounds},
      {"images_per_second", images_per_second},
      {"images_per_second_min", images_per_second_min},
      {"images_per_second_max", images_per_second_max},
      {"cpu_ms", cpu_ms},
      {"stage_ms", stages},
      {"limit", limit == MachineLimit::kFullDecode ? "full_decode" : "memory"},
      {"limit_images_per_second", limit_images_per_second},
      {"limit_cpu_ms", limit_cpu_ms},
      {"limit_share", limit_share},
      {"limit_cpu_share", limit_cpu_share}};
  return json_text(object);
}

}  // namespace fovea::data
