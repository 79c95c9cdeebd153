#include "fovea/data/image/jpeg.h"

#include <cstddef>
#include <cstdio>
// jpeglib.h needs <cstdio> first.
#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <string>

#include "fovea/core/error.h"
#include "fovea/data/image/decode.h"
#include "fovea/data/image/exif.h"
#include "fovea/data/image/gray_and_colour.h"

namespace fovea::data {
namespace {

// A progressive file of a few kilobytes can ask for thousands of passes over a large image.
constexpr int kMaxScans = 500;

// What a byte can stand for at most: 8 blocks of 64 pixels, each subsampled by up to 16. A header
// that promises more belongs to a cut or hostile file; nothing is allocated for it.
constexpr int64_t kMaxPixelsPerByte = 8 * 64 * 16;

// Rows decoded in one go: an iMCU row of 4:2:0.
constexpr int64_t kChunkRows = 16;

// Rows above a box that are decoded with it: upsampling looks at a row's neighbours.
constexpr int64_t kRowMargin = 2;

}  // namespace

// Note [Leaving libjpeg]
// libjpeg reports errors through a callback that must not return; C++ exceptions may not pass
// through its C frames, so the callback jumps. The functions that call setjmp hold only trivial
// locals, and everything with a destructor belongs to the decoder: a jump skips no destructor.
struct JpegReader::Decoder {
  Decoder() {
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
  ~Decoder() { jpeg_destroy_decompress(&info_); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  void open(std::span<const uint8_t> bytes) {
    jpeg_abort_decompress(&info_);  // of an image that was left in the middle
    has_too_many_scans_ = false;
    if (!read_header(bytes.data(), bytes.size())) report();
    const int64_t pixels = int64_t{info_.image_width} * info_.image_height;
    check_announced_pixels(info_.image_width, info_.image_height);
    // Huffman codes take a bit for each block of the component with the most blocks, if not more.
    if (!info_.arith_code && pixels / kMaxPixelsPerByte > static_cast<int64_t>(bytes.size())) {
      errors_.msg_code = JWRN_JPEG_EOF;
      report();
    }
    is_cmyk_ = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
    is_gray_ = info_.jpeg_color_space == JCS_GRAYSCALE;
    info_.out_color_space = is_cmyk_ ? JCS_CMYK : is_gray_ ? JCS_GRAYSCALE : JCS_RGB;
    is_inverted_ = info_.saw_Adobe_marker;
    stored_channels_ = is_cmyk_ ? 4 : is_gray_ ? 1 : 3;
    orientation_ = find_orientation();
    has_end_ = bytes.size() >= 2 && bytes[bytes.size() - 2] == 0xFF && bytes.back() == JPEG_EOI;
  }

  void decode_whole(Image& image) {
    const ImageSize size = {info_.image_height, info_.image_width};
    Image& target = is_cmyk_ ? cmyk_ : image;
    reshape(target, size, stored_channels_);
    if (!read_whole(target.pixels.data(), static_cast<size_t>(size.width * stored_channels_)))
      report();
    if (is_cmyk_) {
      reshape(image, size, 3);
      cmyk_to_rgb(cmyk_.pixels.data(), size.height * size.width, is_inverted_, image.pixels.data());
    }
    orient(image, orientation_, turned_);
  }

  void start(const PixelBox& box, int denominator, int64_t channels) {
    info_.scale_num = 1;
    info_.scale_denom = static_cast<unsigned>(denominator);
    // Upsampling looks at the neighbours of a pixel, and rows start where a block does.
    const auto margin = int64_t{2} * info_.max_h_samp_factor;
    const int64_t full_width = scaled_side(info_.image_width, denominator);
    const int64_t left = std::max<int64_t>(box.left - margin, 0);
    const int64_t right = std::min(box.left + box.size.width + margin, full_width);
    crop_left_ = static_cast<JDIMENSION>(left);
    crop_width_ = static_cast<JDIMENSION>(right - left);
    skipped_rows_ = static_cast<JDIMENSION>(std::max<int64_t>(box.top - kRowMargin, 0));
    if (!begin()) report();
    stride_ = int64_t{info_.output_width} * stored_channels_ + kRowSlack;
    chunk_.resize(static_cast<size_t>(stride_ * kChunkRows));
    for (int64_t i = 0; i < kChunkRows; ++i) lines_[i] = chunk_.data() + i * stride_;
    discard_rows(box.top - int64_t{skipped_rows_});
    box_width_ = box.size.width;
    box_left_ = box.left - int64_t{crop_left_};
    channels_ = channels;
    rows_left_ = box.size.height;
    chunk_rows_ = next_row_ = 0;
  }

  void read_rows(int64_t count, const uint8_t** rows) {
    if (next_row_ == chunk_rows_) fill_chunk();
    FOVEA_CHECK(count <= chunk_rows_ - next_row_, "{} rows of a JPEG at once, of {} that are left",
                count, chunk_rows_ - next_row_);
    const bool is_converted = channels_ != stored_channels_;
    for (int64_t i = 0; i < count; ++i, ++next_row_) {
      rows[i] = is_converted ? converted_.data() + next_row_ * converted_stride()
                             : lines_[next_row_] + box_left_ * channels_;
    }
  }

  // Where the file has its end marker nothing is missing below the box; else it is cut, or bytes
  // follow the image: only reading on tells.
  void finish() {
    if (has_end_) return jpeg_abort_decompress(&info_);
    discard_rows(int64_t{info_.output_height} - int64_t{info_.output_scanline});
    if (!end()) report();
  }

  ImageSize stored_size() const { return {info_.image_height, info_.image_width}; }
  int orientation() const { return orientation_; }

 private:
  static Decoder& self(j_common_ptr info) { return *static_cast<Decoder*>(info->client_data); }

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

  // See Note [Leaving libjpeg]. False: an error. So for the others.
  bool read_header(const uint8_t* bytes, size_t count) {
    if (setjmp(jump_) != 0) return false;
    jpeg_mem_src(&info_, bytes, count);
    jpeg_read_header(&info_, TRUE);
    return true;
  }

  bool read_whole(uint8_t* pixels, size_t row_bytes) {
    if (setjmp(jump_) != 0) return false;
    jpeg_start_decompress(&info_);
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW row = pixels + row_bytes * info_.output_scanline;
      jpeg_read_scanlines(&info_, &row, 1);
    }
    jpeg_finish_decompress(&info_);
    return true;
  }

  // Leaves the crop and the rows above as they turned out: crops start where a block does.
  bool begin() {
    if (setjmp(jump_) != 0) return false;
    jpeg_start_decompress(&info_);
    if (is_smoothed()) {
      crop_left_ = skipped_rows_ = 0;
      return true;
    }
    if (crop_left_ > 0 || crop_width_ < info_.output_width)
      jpeg_crop_scanline(&info_, &crop_left_, &crop_width_);
    if (skipped_rows_ > 0) skipped_rows_ = jpeg_skip_scanlines(&info_, skipped_rows_);
    return true;
  }

  bool read_lines(JDIMENSION count) {
    if (setjmp(jump_) != 0) return false;
    for (JDIMENSION done = 0; done < count;)
      done += jpeg_read_scanlines(&info_, lines_ + done, count - done);
    return true;
  }

  bool end() {
    if (setjmp(jump_) != 0) return false;
    jpeg_finish_decompress(&info_);
    return true;
  }

  // Progressive files whose coefficients are not all there to the last bit are smoothed from block
  // to block, over the borders of any crop.
  bool is_smoothed() const {
    if (!info_.progressive_mode || info_.coef_bits == nullptr) return false;
    for (int c = 0; c < info_.num_components; ++c) {
      const int* bits = info_.coef_bits[c];
      if (std::any_of(bits, bits + DCTSIZE2, [](int missing) { return missing != 0; })) return true;
    }
    return false;
  }

  void discard_rows(int64_t count) {
    for (; count > 0; count -= kChunkRows) {
      if (!read_lines(static_cast<JDIMENSION>(std::min(count, kChunkRows)))) report();
    }
  }

  int64_t converted_stride() const { return box_width_ * channels_ + kRowSlack; }

  void fill_chunk() {
    next_row_ = 0;
    chunk_rows_ = std::min(rows_left_, kChunkRows);
    rows_left_ -= chunk_rows_;
    if (chunk_rows_ > 0 && !read_lines(static_cast<JDIMENSION>(chunk_rows_))) report();
    if (channels_ == stored_channels_) return;
    converted_.resize(static_cast<size_t>(converted_stride() * kChunkRows));
    colours_.resize(static_cast<size_t>(box_width_ * 3));
    for (int64_t i = 0; i < chunk_rows_; ++i) convert_row(i);
  }

  void convert_row(int64_t i) {
    const uint8_t* in = lines_[i] + box_left_ * stored_channels_;
    uint8_t* out = converted_.data() + i * converted_stride();
    if (is_gray_) return gray_to_rgb(in, box_width_, out);
    if (!is_cmyk_) return rgb_to_gray(in, box_width_, out);
    if (channels_ == 3) return cmyk_to_rgb(in, box_width_, is_inverted_, out);
    cmyk_to_rgb(in, box_width_, is_inverted_, colours_.data());
    rgb_to_gray(colours_.data(), box_width_, out);
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

  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf jump_{};
  char message_[JMSG_LENGTH_MAX] = {};
  bool has_too_many_scans_ = false;

  // The image that is open.
  bool is_cmyk_ = false;
  bool is_gray_ = false;
  bool is_inverted_ = false;
  bool has_end_ = false;
  int orientation_ = 1;
  int64_t stored_channels_ = 0;
  Image cmyk_;
  Image turned_;

  // The box that is being read.
  JDIMENSION crop_left_ = 0;
  JDIMENSION crop_width_ = 0;
  JDIMENSION skipped_rows_ = 0;
  int64_t box_left_ = 0;  // from the left end of the decoded rows
  int64_t box_width_ = 0;
  int64_t channels_ = 0;  // that the caller wants
  int64_t rows_left_ = 0;
  int64_t chunk_rows_ = 0;
  int64_t next_row_ = 0;  // of the chunk
  int64_t stride_ = 0;
  std::vector<uint8_t> chunk_;
  JSAMPROW lines_[kChunkRows] = {};
  std::vector<uint8_t> converted_;
  std::vector<uint8_t> colours_;
};

JpegReader::JpegReader() : decoder_(std::make_unique<Decoder>()) {}

JpegReader::~JpegReader() = default;

void JpegReader::open(std::span<const uint8_t> bytes) { decoder_->open(bytes); }

ImageSize JpegReader::stored_size() const { return decoder_->stored_size(); }

ImageSize JpegReader::size() const {
  const ImageSize stored = stored_size();
  return turn_of(orientation()).is_transposed ? ImageSize{stored.width, stored.height} : stored;
}

int JpegReader::orientation() const { return decoder_->orientation(); }

void JpegReader::start(const PixelBox& box, int denominator, int64_t channels) {
  decoder_->start(box, denominator, channels);
}

void JpegReader::read_rows(int64_t count, const uint8_t** rows) {
  decoder_->read_rows(count, rows);
}

void JpegReader::finish() { decoder_->finish(); }

void JpegReader::decode(std::span<const uint8_t> bytes, Image& image) {
  decoder_->open(bytes);
  decoder_->decode_whole(image);
}

bool is_jpeg(std::span<const uint8_t> bytes) {
  return bytes.size() >= 3 && bytes[0] == 0xFF && bytes[1] == 0xD8 && bytes[2] == 0xFF;
}

void decode_jpeg(std::span<const uint8_t> bytes, Image& image) {
  thread_local JpegReader reader;
  reader.decode(bytes, image);
}

}  // namespace fovea::data
