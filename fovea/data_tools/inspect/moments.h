// Sums over pixels from which mean and deviation come, such that the order in which threads finish
// does not show: integers for bytes; for floats one result a sample, put together in order.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "fovea/data/image/image_view.h"
#include "fovea/data/volume/volume.h"
#include "fovea/data_tools/inspect/statistics.h"

namespace fovea::data {

struct ByteSums {
  uint64_t count = 0;
  uint64_t sum = 0;
  uint64_t squares = 0;
  uint8_t least = 255;
  uint8_t most = 0;

  void add(const ByteSums& other);
};

// Of images, by the number of channels that they have.
struct ImageSums {
  std::map<int64_t, std::vector<ByteSums>> by_channels;
  ByteSums luma;  // of colour images, where asked for

  // with_luma: also of what a colour image becomes with one channel.
  void add(const ImageView& image, bool with_luma);
  void add(const ImageSums& other);
  // As `channels` channels (0: the most that an image has): gray images are repeated, colour ones
  // weighted. Images that cannot be converted are left out.
  std::vector<ChannelMoments> moments(int64_t channels) const;
};

// Of the values of one channel of one volume or of several.
struct FloatMoments {
  double count = 0;
  double mean = 0;
  double deviations = 0;  // sum of squared deviations from the mean
  double least = 0;
  double most = 0;

  // Chan, Golub, LeVeque, "Algorithms for computing the sample variance", 1983.
  void add(const FloatMoments& other);
  ChannelMoments moments() const;
};

// One for each channel.
std::vector<FloatMoments> moments_of(const Volume& volume);

}  // namespace fovea::data
