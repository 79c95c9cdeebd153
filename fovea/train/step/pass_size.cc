#include "fovea/train/step/pass_size.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/files/atomic_file.h"

namespace fovea::train {
namespace {

constexpr const char* kSizeKey = "micro_batch_size";

}  // namespace

PassSize::PassSize(int64_t size, OnChange on_change)
    : size_(size), on_change_(std::move(on_change)) {}

void PassSize::halve(int64_t from, const std::string& fault, bool can_retry) {
  if (from <= 1) {
    fail<OutOfMemoryError>(
        "{}: a pass of one sample does not fit into memory; expected a device or a limit (ulimit "
        "-v) with more of it, or a smaller model or input: parallel.recompute=block, "
        "device.dtype=bfloat16 and parallel.dp_shard take less",
        fault);
  }
  size_ = (from + 1) / 2;
  num_successes_ = 0;
  if (on_change_) on_change_(size_, from, fault, can_retry);
  if (can_retry) return;
  fail<OutOfMemoryError>(
      "{}: a pass of {} samples does not fit into memory, and the other processes cannot take the "
      "step anew; the same command goes on from the newest checkpoint with micro-batches of {}",
      fault, from, size_);
}

void PassTrial::tell(bool is_too_large) {
  const double told = is_too_large ? static_cast<double>(size_) : 0;
  most_ = std::llround(parallel::max_over_ranks(ranks_, told, "micro-batches that do not fit"));
}

void PassTrial::agree() {
  tell(false);
  if (most_ > 0) throw TooLarge();
}

int64_t PassTrial::say_too_large() {
  if (most_ == 0) tell(true);
  return most_;
}

int64_t kept_pass_size(const std::string& path) {
  if (!is_there(path)) return 0;
  constexpr size_t kMostBytes = 4096;
  const auto text = read_file(path, kMostBytes);
  try {
    const auto found = parse_json(text, path, /*max_depth=*/1);
    return static_cast<int64_t>(JsonValue(found, path).at(kSizeKey).count());
  } catch (const DataError& error) {
    fail<CheckpointError>(
        "{}; expected the size that trainer.micro_batch_size: auto has come to: remove the file, "
        "and it is found anew",
        error.what());
  }
}

void keep_pass_size(const std::string& path, int64_t size) {
  write_file_atomic(path, json_text(nlohmann::json{{kSizeKey, size}}) + "\n");
}

}  // namespace fovea::train
