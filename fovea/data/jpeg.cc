#include "fovea/data/jpeg.h"

#include <cstddef>
#include <cstdio>
// jpeglib.h needs <cstdio> first.
#include <jerror.h>
#include <jpeglib.h>

#include <csetjmp>
#include <cstring>
#include <string>

#include "fovea/core/error.h"
#include "fovea/data/decode.h"
#include "fovea/data/exif.h"

namespace fovea::data {
namespace {

// A progressive file of a few kilobytes can ask for thousands of passes over a large image.
constexpr int kMaxScans = 500;

// What a byte can stand for at most: 8 blocks of 64 pixels, each subsampled by up to 16. A header
// that promises more belongs to a cut or hostile file; nothing is allocated for it.
constexpr int64_t kMaxPixelsPerByte = 8 * 64 * 16;

// Note [Leaving libjpeg]
// libjpeg reports errors through a callback that must not return; C++ exceptions may not pass
// through its C frames, so the callback jumps. The functions that call setjmp hold only trivial
// locals, and everything with a destructor belongs to the decoder: a jump skips no destructor.
class JpegDecoder {
 public:
  JpegDecoder() {
    info_.err = jpeg_std_error(&errors_);
    errors_.error_exit = [](j_common_ptr info) { self(info).leave(info); };
    errors_.emit_message = [](j_common_ptr info, int level) {
      // Other damage is decoded as well as it goes, as everywhere; an end that is missing is not.
      if (level < 0 && info->err->msg_code == JWRN_JPEG_EOF) self(info).leave(info);
    };
    errors_.output_message = [](j_common_ptr) {};
    progress_.progress_monitor = [](j_common_ptr info) {
      if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMaxScans) {
        self(info).has_too_many_scans_ = true;
        self(info).leave(info);
      }
    };
    info_.client_data = this;
    jpeg_create_decompress(&info_);
    info_.progress = &progress_;
    jpeg_save_markers(&info_, JPEG_APP0 + 1, 0xFFFF);
  }
  ~JpegDecoder() { jpeg_destroy_decompress(&info_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  void decode(std::span<const uint8_t> bytes, Image& image) {
    has_too_many_scans_ = false;
    if (!read_header(bytes.data(), bytes.size())) report();
    const int64_t pixels = int64_t{info_.image_width} * info_.image_height;
    if (pixels > kMaxImagePixels) {
      const auto width = info_.image_width;
      const auto height = info_.image_height;
      jpeg_abort_decompress(&info_);
      fail<DataError>(
          "the header announces {} x {} pixels, more than the {} that are allowed; make the image "
          "smaller",
          width, height, kMaxImagePixels);
    }
    // Huffman codes take a bit for each block of the component with the most blocks, if not more.
    if (!info_.arith_code && pixels / kMaxPixelsPerByte > static_cast<int64_t>(bytes.size())) {
      errors_.msg_code = JWRN_JPEG_EOF;
      report();
    }
    const bool is_cmyk = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
    const bool is_gray = info_.jpeg_color_space == JCS_GRAYSCALE;
    info_.out_color_space = is_cmyk ? JCS_CMYK : is_gray ? JCS_GRAYSCALE : JCS_RGB;
    Image& target = is_cmyk ? cmyk_ : image;
    target.height = info_.image_height;
    target.width = info_.image_width;
    target.channels = is_cmyk ? 4 : is_gray ? 1 : 3;
    target.pixels.resize(static_cast<size_t>(pixels * target.channels));
    const int orientation = find_orientation();
    const bool is_inverted = info_.saw_Adobe_marker;
    if (!read_pixels(target.pixels.data(), static_cast<size_t>(target.width * target.channels)))
      report();
    if (is_cmyk) convert_cmyk(is_inverted, image);
    orient(image, orientation, turned_);
  }

 private:
  static JpegDecoder& self(j_common_ptr info) {
    return *static_cast<JpegDecoder*>(info->client_data);
  }

  [[noreturn]] void leave(j_common_ptr info) {
    info->err->format_message(info, message_);
    std::longjmp(jump_, 1);
  }

  [[noreturn]] void report() {
    const bool is_truncated = errors_.msg_code == JWRN_JPEG_EOF;
    jpeg_abort_decompress(&info_);
    if (has_too_many_scans_)
      fail<DataError>("a JPEG with more than {} scans; save it again", kMaxScans);
    if (is_truncated) fail<DataError>("the JPEG is truncated; fetch the file again or remove it");
    fail<DataError>("damaged JPEG ({}); fetch the file again or remove it", message_);
  }

  // See Note [Leaving libjpeg]. False: an error.
  bool read_header(const uint8_t* bytes, size_t count) {
    if (setjmp(jump_) != 0) return false;
    jpeg_mem_src(&info_, bytes, count);
    jpeg_read_header(&info_, TRUE);
    return true;
  }

  // See Note [Leaving libjpeg]. False: an error.
  bool read_pixels(uint8_t* pixels, size_t row_bytes) {
    if (setjmp(jump_) != 0) return false;
    jpeg_start_decompress(&info_);
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW row = pixels + row_bytes * info_.output_scanline;
      jpeg_read_scanlines(&info_, &row, 1);
    }
    jpeg_finish_decompress(&info_);
    return true;
  }

  int find_orientation() const {
    constexpr char kTag[] = "Exif\0";  // with its two zero bytes
    for (auto marker = info_.marker_list; marker != nullptr; marker = marker->next) {
      if (marker->data_length <= sizeof kTag || std::memcmp(marker->data, kTag, sizeof kTag) != 0)
        continue;
      return exif_orientation({marker->data + sizeof kTag, marker->data_length - sizeof kTag});
    }
    return 1;
  }

  // Adobe's programs store 255 - ink. The conversion is the plain one, without a colour profile,
  // with Pillow's rounding.
  void convert_cmyk(bool is_inverted, Image& image) const {
    image.height = cmyk_.height;
    image.width = cmyk_.width;
    image.channels = 3;
    const auto count = static_cast<size_t>(cmyk_.height * cmyk_.width);
    image.pixels.resize(count * 3);
    const uint8_t flip = is_inverted ? 255 : 0;
    for (size_t i = 0; i < count; ++i) {
      const uint8_t* inks = cmyk_.pixels.data() + 4 * i;
      const int light = 255 - (inks[3] ^ flip);
      for (int c = 0; c < 3; ++c) {
        const int product = (inks[c] ^ flip) * light + 128;
        image.pixels[3 * i + c] = static_cast<uint8_t>(light - ((product + (product >> 8)) >> 8));
      }
    }
  }

  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf jump_{};
  char message_[JMSG_LENGTH_MAX] = {};
  bool has_too_many_scans_ = false;
  Image cmyk_;
  Image turned_;
};

}  // namespace

bool is_jpeg(std::span<const uint8_t> bytes) {
  return bytes.size() >= 3 && bytes[0] == 0xFF && bytes[1] == 0xD8 && bytes[2] == 0xFF;
}

void decode_jpeg(std::span<const uint8_t> bytes, Image& image) {
  thread_local JpegDecoder decoder;
  decoder.decode(bytes, image);
}

}  // namespace fovea::data
