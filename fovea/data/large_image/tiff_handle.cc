#include "fovea/data/large_image/tiff_handle.h"

#include <cstdarg>
#include <cstdio>

#include "fovea/core/error.h"
#include "fovea/data/large_image/tiff.h"
#include "fovea/files/file_endings.h"

namespace fovea::data {
namespace {

int ignore_warning(TIFF* /*tiff*/, void* /*handle*/, const char* /*module*/, const char* /*format*/,
                   va_list /*arguments*/) {
  return 1;  // not printed: unknown tags are common and harmless
}

}  // namespace

TiffHandle::TiffHandle(int file, const std::string& name, const char* mode) : name_(name) {
  TIFFOpenOptions* options = TIFFOpenOptionsAlloc();
  TIFFOpenOptionsSetMaxSingleMemAlloc(options, static_cast<tmsize_t>(kMaxTiffTileBytes));
  TIFFOpenOptionsSetErrorHandlerExtR(options, &TiffHandle::note_error, this);
  TIFFOpenOptionsSetWarningHandlerExtR(options, &ignore_warning, nullptr);
  tiff_ = TIFFFdOpenExt(file, name.c_str(), mode, options);
  TIFFOpenOptionsFree(options);
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

void TiffHandle::fail_at(std::string_view what) const {
  const std::string reason = reason_.empty() ? "damaged or truncated" : printable(reason_);
  fail<DataError>("{}: {} ({})", name_, what, reason);
}

int TiffHandle::note_error(TIFF* /*tiff*/, void* handle, const char* /*module*/, const char* format,
                           va_list arguments) {
  auto& self = *static_cast<TiffHandle*>(handle);
  if (!self.reason_.empty()) return 1;  // the first one is the cause of the rest
  char text[256];
  std::vsnprintf(text, sizeof(text), format, arguments);
  self.reason_ = text;
  return 1;
}

}  // namespace fovea::data
