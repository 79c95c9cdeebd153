#include "fovea/data/large_image/tiff_handle.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <new>
#include <utility>

#include "fovea/data/large_image/tiff.h"
#include "fovea/files/file_endings.h"

namespace fovea::data {
namespace {

// A warning is of damage where a codec says that it made pixels up, or where the file ends before a
// tag does; else it is of tags that are unknown, which are common and harmless. Of JPEG an end that
// is missing counts, as in decode_jpeg.
bool is_of_damage(std::string_view module, std::string_view text) {
  return module.starts_with("Fax") || text.starts_with("IO error during reading of") ||
         (module.starts_with("JPEG") && text.starts_with("Premature end"));
}

std::string text_of(const char* format, va_list arguments) {
  char text[256];
  std::vsnprintf(text, sizeof(text), format, arguments);
  return text;
}

}  // namespace

TIFFOpenOptions* TiffHandle::options() {
  TIFFOpenOptions* options = TIFFOpenOptionsAlloc();
  if (options == nullptr) throw std::bad_alloc();
  TIFFOpenOptionsSetMaxSingleMemAlloc(options, static_cast<tmsize_t>(kMaxTiffTileBytes));
  TIFFOpenOptionsSetErrorHandlerExtR(options, &TiffHandle::note_error, this);
  TIFFOpenOptionsSetWarningHandlerExtR(options, &TiffHandle::note_warning, this);
  return options;
}

TiffHandle::TiffHandle(int file, const std::string& name, const char* mode) : name_(name) {
  TIFFOpenOptions* chosen = options();
  tiff_ = TIFFFdOpenExt(file, name.c_str(), mode, chosen);
  TIFFOpenOptionsFree(chosen);
  if (tiff_ == nullptr) fail_at("not a TIFF file that can be read");
}

TiffHandle::TiffHandle(ReadAt read, uint64_t size, const std::string& name, const char* mode)
    : name_(name), read_(std::move(read)), size_(size) {
  const TIFFReadWriteProc read_more = [](thandle_t handle, void* out, tmsize_t count) -> tmsize_t {
    auto& from = *static_cast<TiffHandle*>(handle);
    const size_t got =
        from.read_(from.position_,
                   {static_cast<uint8_t*>(out), static_cast<size_t>(std::max<tmsize_t>(count, 0))});
    from.position_ += got;
    return static_cast<tmsize_t>(got);
  };
  const TIFFReadWriteProc write_none = [](thandle_t, void*, tmsize_t) -> tmsize_t { return -1; };
  const TIFFSeekProc seek = [](thandle_t handle, toff_t offset, int whence) -> toff_t {
    auto& from = *static_cast<TiffHandle*>(handle);
    const uint64_t base = whence == SEEK_CUR ? from.position_ : whence == SEEK_END ? from.size_ : 0;
    return from.position_ = base + offset;
  };
  const TIFFCloseProc close_none = [](thandle_t) { return 0; };
  const TIFFSizeProc size_of = [](thandle_t handle) -> toff_t {
    return static_cast<TiffHandle*>(handle)->size_;
  };
  TIFFOpenOptions* chosen = options();
  // Its messages begin with the name.
  tiff_ = TIFFClientOpenExt(name.empty() ? "TIFF" : name.c_str(), mode, this, read_more, write_none,
                            seek, close_none, size_of, nullptr, nullptr, chosen);
  TIFFOpenOptionsFree(chosen);
  if (tiff_ == nullptr) fail_at("not a TIFF file that can be read");
}

TiffHandle::~TiffHandle() { close(); }

bool TiffHandle::close() {
  if (tiff_ == nullptr) return true;
  reason_.clear();
  const bool is_flushed = TIFFGetMode(tiff_) == 0 || TIFFFlush(tiff_) == 1;  // 0: for reading
  TIFFClose(tiff_);
  tiff_ = nullptr;
  return is_flushed && reason_.empty();
}

int64_t TiffHandle::read_at(uint64_t offset, std::span<uint8_t> out) const {
  if (read_) return static_cast<int64_t>(read_(offset, out));
  for (;;) {
    const ssize_t got =
        pread(TIFFFileno(tiff_), out.data(), out.size(), static_cast<off_t>(offset));
    if (got >= 0 || errno != EINTR) return got;
  }
}

std::string TiffHandle::describe(std::string_view what) const {
  const std::string reason = reason_.empty() ? "damaged or truncated" : printable(reason_);
  return fmt::format("{}{}{} ({})", name_, name_.empty() ? "" : ": ", what, reason);
}

int TiffHandle::note_error(TIFF* /*tiff*/, void* handle, const char* /*module*/, const char* format,
                           va_list arguments) {
  auto& self = *static_cast<TiffHandle*>(handle);
  // The first one is the cause of the rest.
  if (self.reason_.empty()) self.reason_ = text_of(format, arguments);
  return 1;
}

int TiffHandle::note_warning(TIFF* /*tiff*/, void* handle, const char* module, const char* format,
                             va_list arguments) {
  auto& self = *static_cast<TiffHandle*>(handle);
  if (module == nullptr) return 1;
  const std::string text = text_of(format, arguments);
  if (!is_of_damage(module, text)) return 1;
  self.is_damaged_ = true;
  if (self.reason_.empty()) self.reason_ = text;
  return 1;
}

}  // namespace fovea::data
