// Golden folders of many small files, packed as one.
#pragma once

#include <string>

#include "fovea/files/zip.h"
#include "tests/support/temp_dir.h"

namespace fovea::support {

inline void unpack(const std::string& archive, const TempDir& folder) {
  const ZipFile zip(archive);
  for (const auto& member : zip.members())
    folder.write(member.name, zip.read(member, uint64_t{1} << 24));
}

}  // namespace fovea::support
