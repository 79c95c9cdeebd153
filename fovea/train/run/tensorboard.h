// Event files that TensorBoard reads: scalars.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

namespace fovea::train {

class TensorboardWriter {
 public:
  // A new file events.out.tfevents.* in `folder`. Throws Error where it cannot be made.
  explicit TensorboardWriter(const std::string& folder);

  void add_scalar(std::string_view tag, double value, int64_t step);

  // For a run that goes on: TensorBoard drops what earlier files say of `first_step` and later.
  void restart_at(int64_t first_step);

  // Hands what was added to the system. Throws Error where it refuses.
  void flush();

  const std::string& path() const { return path_; }

 private:
  void add_event(int64_t step, std::string_view fields);

  std::string path_;
  std::ofstream file_;
};

namespace tensorboard {

// One record of a TFRecord file: length, its checksum, data, their checksum (masked CRC-32C).
std::string frame(std::string_view data);

// CRC-32C (Castagnoli).
uint32_t crc32c(std::string_view data);

}  // namespace tensorboard

}  // namespace fovea::train
