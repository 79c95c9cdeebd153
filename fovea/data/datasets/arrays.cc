#include "fovea/data/datasets/arrays.h"

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/data/image/image_view.h"
#include "fovea/data/labels.h"
#include "fovea/files/file_endings.h"
#include "fovea/files/unpack_limit.h"

namespace fovea::data {
namespace {

constexpr uint64_t kMaxArrayBytes = uint64_t{1} << 34;

class ArrayDataset : public Dataset {
 public:
  explicit ArrayDataset(ArraySet set) : set_(std::move(set)) {
    const StoredArray& images = set_.images;
    const auto fault = axes_fault(set_.axes, images.shape.size());
    if (!fault.empty() || set_.axes.front() != 'N') {
      fail<DataError>("{}: [{}] with axes {}", images.source, fmt::join(images.shape, ", "),
                      fault.empty() ? "that do not begin with N" : fault);
    }
    is_image_ = images.type.type == ScalarType::kUint8 && set_.axes.find('D') == std::string::npos;
    mask_axes_ = set_.axes;
    std::erase(mask_axes_, 'C');
    const auto count = static_cast<size_t>(size());
    if (!set_.labels.empty() && set_.labels.size() != count) {
      fail<DataError>("{}: {} samples, but {} labels; the arrays do not belong together",
                      images.source, count, set_.labels.size());
    }
    check_labels();
    if (set_.masks) check_masks();
  }

  int64_t size() const override { return set_.images.shape[0]; }
  SampleForm form() const override { return is_image_ ? SampleForm::kImage : SampleForm::kVolume; }
  bool has_masks() const override { return set_.masks.has_value(); }
  const std::vector<std::string>& class_names() const override { return set_.class_names; }
  int64_t num_classes() const override { return set_.rule.num_classes; }
  std::string describe(int64_t index) const override {
    return fmt::format("{}[{}]", set_.name, index);
  }
  VolumeSize size_of(int64_t /*index*/) const override {
    return stored_of(set_.images, set_.axes, 0).size;
  }
  int64_t channels_of(int64_t /*index*/) const override {
    return stored_of(set_.images, set_.axes, 0).channels;
  }

  void read(int64_t index, Sample& sample) const override {
    FOVEA_CHECK(index >= 0 && index < size(), "index={}; expected 0 to {}", index, size() - 1);
    const StoredVolume stored = stored_of(set_.images, set_.axes, index);
    if (is_image_) {
      read_image(stored, sample.become<Image>());
    } else {
      convert_volume(stored, sample.become<Volume>());
    }
    sample.label = set_.labels.empty() ? -1 : set_.labels[static_cast<size_t>(index)];
    sample.mask.size = {};
    sample.mask.classes.clear();
    if (!set_.masks) return;
    convert_labels(stored_of(*set_.masks, mask_axes_, index), set_.rule, sample.mask);
  }

 private:
  StoredVolume stored_of(const StoredArray& array, const std::string& axes, int64_t index) const {
    const std::string source = fmt::format("{}[{}]", array.source, index);
    return volume_of_array(source, array.bytes, array.type, array.shape, axes, index);
  }

  static void read_image(const StoredVolume& stored, Image& image) {
    reshape(image, {stored.size.height, stored.size.width}, stored.channels);
    uint8_t* out = image.pixels.data();
    const auto [c_stride, d_stride, h_stride, w_stride] = stored.strides;
    for (int64_t y = 0; y < image.height; ++y) {
      for (int64_t x = 0; x < image.width; ++x) {
        const int64_t first = stored.first + y * h_stride + x * w_stride;
        for (int64_t c = 0; c < image.channels; ++c)
          *out++ = stored.bytes[static_cast<size_t>(first + c * c_stride)];
      }
    }
  }

  void check_labels() {
    int64_t& num_classes = set_.rule.num_classes;
    if (num_classes == 0) num_classes = static_cast<int64_t>(set_.class_names.size());
    if (set_.masks) {
      if (num_classes > 0) return;
      fail<DataError>("{}: masks; give num_classes or class_names of the voxels",
                      set_.images.source);
    }
    if (set_.labels.empty()) return;
    const auto largest = std::max_element(set_.labels.begin(), set_.labels.end());
    if (num_classes == 0) num_classes = *largest + 1;
    if (*largest < num_classes) return;
    fail<DataError>("{}: sample {} has label {}; expected 0 to {}; correct num_classes",
                    set_.images.source, largest - set_.labels.begin(), *largest, num_classes - 1);
  }

  void check_masks() const {
    std::vector<int64_t> expected = set_.images.shape;
    const size_t channel = set_.axes.find('C');
    if (channel != std::string::npos)
      expected.erase(expected.begin() + static_cast<ptrdiff_t>(channel));
    if (set_.masks->shape == expected) return;
    fail<DataError>("{}: masks of shape [{}]; expected [{}], that of the images",
                    set_.masks->source, fmt::join(set_.masks->shape, ", "),
                    fmt::join(expected, ", "));
  }

  ArraySet set_;
  std::string mask_axes_;
  bool is_image_ = true;
};

}  // namespace

StoredArray read_npz_array(const ZipFile& file, const std::string& name,
                           int64_t max_unpacked_bytes) {
  const ZipMember* member = file.find(name + ".npy");
  if (member == nullptr) {
    std::vector<std::string> names;
    for (const ZipMember& other : file.members()) {
      names.push_back(printable(other.name.substr(0, other.name.rfind(".npy"))));
      if (names.size() == 20) break;
    }
    fail<DataError>("{}: no array \"{}\"; there are {}", printable(file.path()), printable(name),
                    fmt::join(names, ", "));
  }
  const std::string source = fmt::format("{}:{}", printable(file.path()), printable(name));
  check_unpacked_bytes(member->stored_bytes, member->bytes, max_unpacked_bytes, source);
  auto bytes = std::make_shared<const std::string>(file.read(*member, kMaxArrayBytes));
  return parse_npy(std::move(bytes), source);
}

std::string guess_axes(const std::vector<int64_t>& shape) {
  if (shape.size() == 3) return "NHW";
  if (shape.size() == 5) return "NCDHW";
  const bool is_color = shape.size() == 4 && (shape[3] == 1 || shape[3] == 3 || shape[3] == 4);
  return is_color ? "NHWC" : "NDHW";
}

std::vector<int64_t> labels_of(const StoredArray& array) {
  const bool is_column = array.shape.size() == 2 && array.shape[1] == 1;
  if (array.shape.size() != 1 && !is_column) {
    fail<DataError>(
        "{}: labels of shape [{}]; expected [N] or [N, 1]: one class a sample (sets with several "
        "labels a sample are not read)",
        array.source, fmt::join(array.shape, ", "));
  }
  const std::array<int64_t, 2> shape = {1, array.shape[0]};
  LabelMap map;
  convert_labels(volume_of_array(array.source, array.bytes, array.type, shape, "HW", 0),
                 {.num_classes = kMaxClasses}, map);
  return {map.classes.begin(), map.classes.end()};
}

std::shared_ptr<const Dataset> build_array_dataset(ArraySet set) {
  return std::make_shared<ArrayDataset>(std::move(set));
}

}  // namespace fovea::data
