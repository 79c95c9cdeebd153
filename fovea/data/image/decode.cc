#include "fovea/data/image/decode.h"

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/core/input_file.h"
#include "fovea/data/image/image_formats.h"
#include "fovea/files/file_endings.h"

namespace fovea::data {
namespace {

// The first bytes for a message: text as it is, the rest as \xNN.
std::string first_bytes(std::span<const uint8_t> bytes) {
  std::string text;
  for (const uint8_t byte : bytes.first(std::min<size_t>(bytes.size(), 8))) {
    const bool is_plain = byte >= 0x20 && byte < 0x7f && byte != '\\' && byte != '"';
    text += is_plain ? std::string(1, static_cast<char>(byte)) : fmt::format("\\x{:02x}", byte);
  }
  return text;
}

}  // namespace

void check_announced_pixels(int64_t width, int64_t height, std::string_view advice) {
  if (width < 1 || height <= kMaxImagePixels / width) return;
  fail<DataError>("the header announces {} x {} pixels, more than the {} that are allowed; {}",
                  width, height, kMaxImagePixels, advice);
}

// The memory of `bytes` is used again: fresh pages for each file cost as much
// as decoding it.
void read_image_file(const std::string& path, std::vector<uint8_t>& bytes) {
  const NamelessFile file(path);
  if (file.size() > kMaxImageFileBytes) {
    fail<DataError>("{}: {} bytes; expected an image file of at most {}", printable(path),
                    file.size(), kMaxImageFileBytes);
  }
  bytes.resize(file.size());
  bytes.resize(file.read_some(0, bytes, path));  // fewer: it became shorter meanwhile
  if (bytes.empty()) {
    fail<DataError>("{}: the file is empty; expected a {} image", printable(path), image_kinds());
  }
}

void decode_image(std::span<const uint8_t> bytes, Image& image) {
  if (const ImageFormat* format = find_image_format(bytes)) return format->decode(bytes, image);
  if (bytes.empty()) fail<DataError>("the file is empty; expected a {} image", image_kinds());
  fail<DataError>(
      "not an image: it starts with \"{}\"; expected a {} image, so convert or remove it",
      first_bytes(bytes), image_kinds());
}

void decode_image(std::span<const uint8_t> bytes, const std::string& name, Image& image) {
  try {
    decode_image(bytes, image);
  } catch (const DataError& error) {
    fail<DataError>("{}: {}", name, error.what());
  }
}

void load_image(const std::string& path, const std::string& name, Image& image) {
  thread_local std::vector<uint8_t> bytes;
  read_image_file(path, bytes);
  decode_image(bytes, name, image);
}

Image load_image(const std::string& path) {
  Image image;
  load_image(path, path, image);
  return image;
}

}  // namespace fovea::data
