// A folder of this process alone, for files that pass between it and what it starts.
#pragma once

#include <filesystem>
#include <string>

namespace fovea::app {

// It goes when it is left.
class ScratchFolder {
 public:
  // purpose: stands in its name. Throws DataError.
  explicit ScratchFolder(const std::string& purpose);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace fovea::app
