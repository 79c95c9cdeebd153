#include "fovea/data/decode.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fovea/core/error.h"
#include "fovea/data/jpeg.h"
#include "fovea/data/names.h"
#include "fovea/data/png.h"

namespace fovea::data {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(const std::string& path)
      : number_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~FileDescriptor() {
    if (number_ >= 0) close(number_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

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

// The memory of `bytes` is used again: fresh pages for each file cost as much
// as decoding it.
void read_image_file(const std::string& path, std::vector<uint8_t>& bytes) {
  const FileDescriptor file(path);
  struct stat status {};
  if (file.number() < 0 || fstat(file.number(), &status) != 0) {
    fail<DataError>("{}: cannot open the file ({}); check the path and its permissions",
                    printable(path), std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode))
    fail<DataError>("{}: not a regular file; expected a JPEG or PNG image", printable(path));
  if (status.st_size > kMaxImageFileBytes) {
    fail<DataError>("{}: {} bytes; expected an image file of at most {}", printable(path),
                    status.st_size, kMaxImageFileBytes);
  }
  bytes.resize(static_cast<size_t>(status.st_size));
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = read(file.number(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      fail<DataError>("{}: cannot read the file ({})", printable(path), std::strerror(errno));
    if (got == 0) break;  // it became shorter meanwhile
    done += static_cast<size_t>(got);
  }
  bytes.resize(done);
  if (bytes.empty()) {
    fail<DataError>("{}: the file is empty; expected a JPEG or PNG image", printable(path));
  }
}

void decode_image(std::span<const uint8_t> bytes, Image& image) {
  if (is_jpeg(bytes)) return decode_jpeg(bytes, image);
  if (is_png(bytes)) return decode_png(bytes, image);
  if (bytes.empty()) fail<DataError>("the file is empty; expected a JPEG or PNG image");
  fail<DataError>(
      "not an image: it starts with \"{}\"; expected a JPEG or PNG image, so convert or remove it",
      first_bytes(bytes));
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
