// Files by pattern: `*` stands for any text within one name.
#pragma once

#include <string>
#include <vector>

namespace fovea {

struct GlobMatch {
  std::string path;
  std::vector<std::string> stars;  // what each * stands for: files of one sample agree in it
};

// Files and folders below `root` that match `pattern`, such as "imagesTr/*_0000.nii.gz", sorted by
// path; `*` does not match names that begin with a dot. Where a name fits in several ways, each *
// but the last takes as little as it can. Throws DataError: a folder that cannot be listed, a
// pattern that is absolute or holds "..".
std::vector<GlobMatch> glob(const std::string& root, const std::string& pattern);

}  // namespace fovea
