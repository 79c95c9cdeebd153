// ImageNet (ILSVRC2012) from the publisher's archives: ILSVRC2012_img_train.tar (a tar of one tar a
// class), ILSVRC2012_img_val.tar (all validation images, in one level) and
// ILSVRC2012_devkit_t12.tar.gz (the validation images' classes, by numbers that are not the order
// of their names).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fovea/data/dataset.h"
#include "fovea/data_tools/pack/pack.h"

namespace fovea::data {

struct ImagenetClasses {
  std::vector<std::string> wnids;     // sorted: the label order that everybody uses
  std::vector<std::string> names;     // [classes]: "tench"
  std::vector<int64_t> by_number;     // [classes]: label of the publisher's number 1, 2, ...
  int64_t train_images = 0;           // of all classes; 0: not known
  std::vector<int64_t> ground_truth;  // [validation images]: label of image 1, 2, ...
};

// The thousand of 2012, without the validation images.
ImagenetClasses ilsvrc2012_classes();
// WNIDs and names by the publisher's numbers.
ImagenetClasses imagenet_classes(const std::vector<std::pair<std::string, std::string>>& by_number,
                                 int64_t train_images);

// Fills in ground_truth. Throws DataError: an archive without it, numbers that are no classes.
void read_imagenet_devkit(const std::string& path, ImagenetClasses& classes);

// The images of one of the two archives.
class ImagenetImages : public Dataset {
 public:
  // Where it belongs in a folder of classes: "n01440764/n01440764_10026.JPEG".
  virtual std::string folder_path(int64_t index) const = 0;
  virtual uint64_t file_bytes(int64_t index) const = 0;
};

// The images of the archives where they stand: nothing is unpacked. Order: by class, then by name
// (train); by number (val). Throw DataError: a damaged archive, a class or an image that is
// missing, doubled or unknown.
std::shared_ptr<const ImagenetImages> open_imagenet_train(const std::string& path,
                                                          const ImagenetClasses& classes);
std::shared_ptr<const ImagenetImages> open_imagenet_val(const std::string& path,
                                                        const ImagenetClasses& classes);

struct UnpackReport {
  int64_t samples = 0;
  int64_t resumed = 0;  // of those, there already
};

// Writes out/WNID/NAME for each image. Files that are there in the right size are kept, so a call
// that was stopped goes on; a file under its final name is whole.
UnpackReport unpack_images(const ImagenetImages& images, const std::string& out, int64_t threads,
                           const std::function<void(int64_t done, int64_t total)>& progress = {});

struct ImagenetOptions {
  std::string train, val, devkit;  // archives
  std::string out;                 // gets train and val, and classes.txt
  std::string to = "folder";       // or "wds", "packed"
  PackOptions pack;                // of wds and packed; out and to are set here
};

struct ImagenetReport {
  int64_t classes = 0;
  int64_t train = 0, val = 0;  // images
  int64_t resumed = 0;         // of those, there already
};

// All of the above. wds: the training images are shuffled (seed 0 unless given), as readers in
// order want it. Resumable by the same call.
ImagenetReport prepare_imagenet(const ImagenetOptions& options,
                                ImagenetClasses classes = ilsvrc2012_classes());

}  // namespace fovea::data
