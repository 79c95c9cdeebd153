#include "fovea/train/run/tensorboard.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "fovea/core/error.h"
#include "tests/data/support.h"
#include "tests/support/python.h"

namespace fovea::train {
namespace {

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<uint8_t>(c));
  return text;
}

// The events of a file, each without its wall time (9 bytes), in hexadecimal.
std::vector<std::string> events_of(const std::string& path) {
  std::ostringstream stream;
  stream << std::ifstream(path, std::ios::binary).rdbuf();
  const auto bytes = std::move(stream).str();
  std::vector<std::string> events;
  for (size_t at = 0; at < bytes.size();) {
    uint64_t length = 0;
    std::memcpy(&length, bytes.data() + at, sizeof(length));
    const auto data = bytes.substr(at + 12, length);
    EXPECT_EQ(bytes.substr(at, length + 16), tensorboard::frame(data));
    EXPECT_EQ(data[0], '\x09');
    events.push_back(hex(data.substr(9)));
    at += length + 16;
  }
  return events;
}

void write_sample(TensorboardWriter& writer) {
  writer.add_scalar("train/loss", 0.15625, 300);
  writer.restart_at(2);
  writer.flush();
}

// Known answers of RFC 3720, B.4.
TEST(TensorboardTest, Crc32c) {
  EXPECT_EQ(tensorboard::crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(tensorboard::crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(tensorboard::crc32c(std::string(32, '\xff')), 0x62A8AB43u);
}

// What the protocol buffers of the package tensorboard 2.21 make of the same events.
TEST(TensorboardTest, EventsAreTheBytesOfTensorboardsOwn) {
  const data::testing::TempDir folder;
  TensorboardWriter writer(folder.path());
  write_sample(writer);
  const std::vector<std::string> expected = {
      "1a0d627261696e2e4576656e743a32",
      "10ac022a130a110a0a747261696e2f6c6f7373150000203e",
      "10023a020801",
  };
  EXPECT_EQ(events_of(writer.path()), expected);
}

TEST(TensorboardTest, TensorboardReadsARunThatWasResumed) {
  FOVEA_NEEDS_PYTHON();
  const data::testing::TempDir folder;
  {
    TensorboardWriter first(folder.path());
    for (int64_t step = 1; step <= 5; ++step) first.add_scalar("train/loss", 10.0 + step, step);
  }
  {
    TensorboardWriter second(folder.path());
    second.restart_at(4);
    for (int64_t step = 4; step <= 6; ++step) second.add_scalar("train/loss", 20.0 + step, step);
  }
  const auto result = support::run_command(
      support::python() + " " FOVEA_SOURCE_DIR "/tests/train/tensorboard_check.py " +
      folder.path() + " 2>/dev/null");
  ASSERT_EQ(result.status, 0) << result.output;
  const auto found = nlohmann::json::parse(result.output);
  EXPECT_EQ(found.at("file_version"), 2.0);
  EXPECT_EQ(found.at("scalars").at("train/loss"),
            nlohmann::json::parse("[[1,11.0],[2,12.0],[3,13.0],[4,24.0],[5,25.0],[6,26.0]]"));
}

TEST(TensorboardTest, AFolderThatIsNotThereIsAnError) {
  const data::testing::TempDir folder;
  EXPECT_THROW(TensorboardWriter(folder.path() + "/none"), Error);
}

}  // namespace
}  // namespace fovea::train
