// What OpenSlide would believe of a file, looked at before it does.
#pragma once

#include <string>

namespace fovea::data {

// OpenSlide 3.4.1 takes memory as the directories of a TIFF file say, divides by what they say, and
// ends the program where memory runs out. So sides and tiles of each level, and the bytes that a
// tile is said to have, are within limits before it opens the file. Of another file, and of what
// libtiff does not read, nothing is said. Throws DataError.
void check_slide(const std::string& path);

}  // namespace fovea::data
