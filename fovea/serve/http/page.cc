#include "fovea/serve/http/page.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "fovea/serve/http/page_files.h"

namespace fovea::serve {
namespace {

// Scripts and styles of this server alone, none within the page; pictures that the script makes;
// nobody may frame it.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

struct PageFile {
  const char* path;
  const char* type;
  std::string_view content;
};

const std::array<PageFile, 3>& page_files() {
  static const std::array<PageFile, 3> files = {
      {{"/", "text/html; charset=utf-8", kPageHtml},
       {"/page.css", "text/css; charset=utf-8", kPageCss},
       {"/page.js", "text/javascript; charset=utf-8", kPageJs}}};
  return files;
}

}  // namespace

std::optional<HttpResponse> page_response(const std::string& path) {
  const auto& files = page_files();
  const auto file = std::find_if(files.begin(), files.end(),
                                 [&](const PageFile& one) { return one.path == path; });
  if (file == files.end()) return std::nullopt;
  return HttpResponse{.status = 200,
                      .headers = {{"Content-Type", file->type},
                                  {"Content-Security-Policy", kPolicy},
                                  {"Referrer-Policy", "no-referrer"},
                                  {"Cache-Control", "no-cache"}},
                      .body = std::string(file->content)};
}

std::vector<std::string> page_paths() {
  std::vector<std::string> paths;
  for (const auto& file : page_files()) paths.emplace_back(file.path);
  return paths;
}

}  // namespace fovea::serve
