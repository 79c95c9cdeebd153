#include "fovea/train/run/tensorboard.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>

#include "fovea/core/error.h"
#include "fovea/core/host_name.h"
#include "fovea/core/write_error.h"
#include "fovea/files/protobuf.h"

namespace fovea::train {
namespace {

using protobuf::bytes;
using protobuf::integer;
using protobuf::little_endian;
using protobuf::real32;
using protobuf::real64;

// Field numbers of tensorboard/compat/proto/{event,summary}.proto.
namespace event {
constexpr uint64_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
}
namespace summary {
constexpr uint64_t kValue = 1, kTag = 1, kSimpleValue = 2;
}

std::string summary_of(std::string_view tag, std::string_view content) {
  const auto value = bytes(summary::kTag, tag) + std::string(content);
  return bytes(event::kSummary, bytes(summary::kValue, value));
}

constexpr std::array<uint32_t, 256> make_crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82F63B78 : crc >> 1;
    table[i] = crc;
  }
  return table;
}

std::string new_file_name() {
  static std::atomic<int> count = 0;  // two writers of one process within a second
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return fmt::format("events.out.tfevents.{:010d}.{}.{}.{}",
                     std::chrono::duration_cast<std::chrono::seconds>(now).count(),
                     host_name("localhost"), getpid(), count++);
}

}  // namespace

namespace tensorboard {

uint32_t crc32c(std::string_view data) {
  static constexpr auto kTable = make_crc_table();
  uint32_t crc = 0xFFFFFFFF;
  for (const char c : data) crc = kTable[(crc ^ static_cast<uint8_t>(c)) & 0xFF] ^ crc >> 8;
  return ~crc;
}

std::string frame(std::string_view data) {
  const auto masked_crc = [](std::string_view text) {
    return little_endian(std::rotr(crc32c(text), 15) + 0xA282EAD8u);
  };
  const auto length = little_endian(static_cast<uint64_t>(data.size()));
  return length + masked_crc(length) + std::string(data) + masked_crc(data);
}

}  // namespace tensorboard

TensorboardWriter::TensorboardWriter(const std::string& folder)
    : path_(folder + "/" + new_file_name()), file_(path_, std::ios::binary | std::ios::app) {
  add_event(0, bytes(event::kFileVersion, "brain.Event:2"));
  flush();
}

void TensorboardWriter::add_event(int64_t step, std::string_view fields) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  const auto number = step == 0 ? std::string() : integer(event::kStep, step);  // 0: the default
  file_ << tensorboard::frame(real64(event::kWallTime, now.count()) + number + std::string(fields));
}

void TensorboardWriter::add_scalar(std::string_view tag, double value, int64_t step) {
  add_event(step, summary_of(tag, real32(summary::kSimpleValue, static_cast<float>(value))));
}

void TensorboardWriter::restart_at(int64_t first_step) {
  constexpr int64_t kStart = 1;
  add_event(first_step, bytes(event::kSessionLog, integer(1, kStart)));
}

void TensorboardWriter::flush() {
  if (!file_.flush()) {
    fail<WriteError>("{}: cannot be written; free space, or set log.tensorboard=false", path_);
  }
}

}  // namespace fovea::train
