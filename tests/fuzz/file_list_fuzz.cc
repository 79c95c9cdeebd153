// Lists of files: any text is read or refused with a DataError. The first byte says which of the
// two forms it is.
#include <cstdlib>

#include "fovea/core/error.h"
#include "fovea/data/datasets/file_list_text.h"
#include "fovea/files/braces.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  try {
    // Files of an even length are there, so that headers are told from data either way.
    const auto exists = [](const std::string& path) { return path.size() % 2 == 0; };
    const auto rows = bytes[0] % 2 == 0 ? fovea::data::parse_csv_list(text, "fuzz.csv", exists).rows
                                        : fovea::data::parse_jsonl_list(text, "fuzz.jsonl");
    for (const auto& row : rows) {
      if (row.path.empty() || row.line < 1) abort();
    }
  } catch (const fovea::DataError&) {
  }
  try {
    if (fovea::expand_braces(text.substr(0, 64)).size() > 1'000'000) abort();
  } catch (const fovea::ConfigError&) {
  }
  return 0;
}
