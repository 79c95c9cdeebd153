#include "fovea/data/image/jpeg_encode.h"

#include <cstddef>
#include <cstdio>
// jpeglib.h needs <cstdio> first.
#include <jpeglib.h>

#include <csetjmp>
#include <cstdlib>

#include "fovea/core/error.h"

namespace fovea::data {
namespace {

// See Note [Leaving libjpeg] in jpeg.cc: errors jump, and no destructor is jumped over.
class JpegEncoder {
 public:
  JpegEncoder() {
    info_.err = jpeg_std_error(&errors_);
    errors_.error_exit = [](j_common_ptr info) {
      auto& self = *static_cast<JpegEncoder*>(info->client_data);
      info->err->format_message(info, self.message_);
      std::longjmp(self.jump_, 1);
    };
    errors_.output_message = [](j_common_ptr) {};
    info_.client_data = this;
    jpeg_create_compress(&info_);
  }
  ~JpegEncoder() {
    jpeg_destroy_compress(&info_);
    std::free(buffer_);
  }
  JpegEncoder(const JpegEncoder&) = delete;
  JpegEncoder& operator=(const JpegEncoder&) = delete;

  void encode(const ImageView& image, int quality, std::vector<uint8_t>& bytes) {
    if (!write(image, quality)) {
      jpeg_abort_compress(&info_);
      fail<Error>("an image of {} x {} pixels cannot be written as JPEG ({})", image.width,
                  image.height, message_);
    }
    bytes.assign(buffer_, buffer_ + size_);
  }

 private:
  // False: an error.
  bool write(const ImageView& image, int quality) {
    if (setjmp(jump_) != 0) return false;
    std::free(buffer_);
    buffer_ = nullptr;
    size_ = 0;
    jpeg_mem_dest(&info_, &buffer_, &size_);
    info_.image_width = static_cast<JDIMENSION>(image.width);
    info_.image_height = static_cast<JDIMENSION>(image.height);
    info_.input_components = static_cast<int>(image.channels);
    info_.in_color_space = image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&info_);
    jpeg_set_quality(&info_, quality, TRUE);
    jpeg_start_compress(&info_, TRUE);
    while (info_.next_scanline < info_.image_height) {
      auto* row = const_cast<JSAMPROW>(image.row(info_.next_scanline));
      jpeg_write_scanlines(&info_, &row, 1);
    }
    jpeg_finish_compress(&info_);
    return true;
  }

  jpeg_compress_struct info_{};
  jpeg_error_mgr errors_{};
  std::jmp_buf jump_{};
  char message_[JMSG_LENGTH_MAX] = {};
  unsigned char* buffer_ = nullptr;
  unsigned long size_ = 0;  // NOLINT: libjpeg's type
};

}  // namespace

void encode_jpeg(const ImageView& image, int quality, std::vector<uint8_t>& bytes) {
  FOVEA_CHECK(image.channels == 1 || image.channels == 3, "{} channels; expected 1 or 3",
              image.channels);
  FOVEA_CHECK(quality >= 1 && quality <= 100, "quality={}; expected 1 to 100", quality);
  thread_local JpegEncoder encoder;
  encoder.encode(image, quality, bytes);
}

}  // namespace fovea::data
