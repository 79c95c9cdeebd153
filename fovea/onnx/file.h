// ONNX files, written without libprotobuf.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "fovea/onnx/graph.h"

namespace fovea::onnx {

struct FileOptions {
  std::map<std::string, std::string> metadata = {};
  // Where the initialisers together take more, they lie in a file of their own beside the model:
  // protocol buffers hold two gigabytes at most.
  int64_t max_inline_bytes = 1'900'000'000;
};

// What was written.
struct WrittenFile {
  int64_t bytes = 0;      // of both files
  std::string data_file;  // the initialisers' file; empty where there is none
};

// path: MODEL.onnx; the initialisers' file is MODEL.onnx.data. Each is written whole or not at all,
// the model last. Throws Error where the system refuses.
WrittenFile write_file(const std::string& path, const Graph& graph,
                       const FileOptions& options = {});

}  // namespace fovea::onnx
