#include "fovea/data/datasets/hdf5.h"

#include "fovea/core/error.h"

#ifdef FOVEA_HDF5

#include <algorithm>
#include <array>
#include <mutex>

#include "fovea/core/input_file.h"
#include "fovea/data/datasets/arrays.h"
#include "fovea/data/datasets/hdf5_library.h"
#include "fovea/files/file_endings.h"

namespace fovea::data {
namespace {

constexpr unsigned kReadOnly = 0;  // H5F_ACC_RDONLY without its call of the library

const Hdf5Library& hdf5() { return hdf5_library(); }

// The library for this thread alone, since it may be built without thread safety. Errors are ours
// to report: it is told not to, which it remembers for each thread by itself.
class LibraryUse {
 public:
  LibraryUse() : lock_(mutex()) { hdf5().Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

 private:
  static std::mutex& mutex() {
    static std::mutex lock;
    return lock;
  }
  std::scoped_lock<std::mutex> lock_;
};

// An identifier of the library and how it is given back.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  Handle(Handle&& other) noexcept : id_(other.id_), close_(other.close_) { other.id_ = -1; }

  hid_t get() const { return id_; }
  bool is_open() const { return id_ >= 0; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

ScalarType scalar_type_of(hid_t type, const std::string& source) {
  const size_t bytes = hdf5().Tget_size(type);
  std::string name;
  if (hdf5().Tget_class(type) == H5T_FLOAT) name = fmt::format("float{}", 8 * bytes);
  if (hdf5().Tget_class(type) == H5T_INTEGER) {
    name = fmt::format("{}int{}", hdf5().Tget_sign(type) == H5T_SGN_NONE ? "u" : "", 8 * bytes);
  }
  const auto names = scalar_type_names();
  if (std::find(names.begin(), names.end(), name) == names.end() || name == "float16") {
    fail<DataError>("{}: {} is not read; expected integers, float32 or float64", source,
                    name.empty() ? "a type that is no number" : name);
  }
  return scalar_type_named(name);
}

hid_t native_type(ScalarType type) {
  switch (type) {
    case ScalarType::kUint8:
      return *hdf5().NATIVE_UINT8;
    case ScalarType::kInt8:
      return *hdf5().NATIVE_INT8;
    case ScalarType::kUint16:
      return *hdf5().NATIVE_UINT16;
    case ScalarType::kInt16:
      return *hdf5().NATIVE_INT16;
    case ScalarType::kUint32:
      return *hdf5().NATIVE_UINT32;
    case ScalarType::kInt32:
      return *hdf5().NATIVE_INT32;
    case ScalarType::kUint64:
      return *hdf5().NATIVE_UINT64;
    case ScalarType::kInt64:
      return *hdf5().NATIVE_INT64;
    case ScalarType::kFloat32:
      return *hdf5().NATIVE_FLOAT;
    default:
      return *hdf5().NATIVE_DOUBLE;
  }
}

// An array of a file, read a slice of the first dimension at a time.
class Hdf5Array {
 public:
  Hdf5Array(hid_t file, const std::string& path, const std::string& name,
            int64_t max_unpacked_bytes)
      : max_unpacked_bytes_(max_unpacked_bytes),
        source_(fmt::format("{}:{}", printable(path), printable(name))),
        array_(hdf5().Dopen2(file, name.c_str(), H5P_DEFAULT), hdf5().Dclose) {
    if (!array_.is_open()) fail<DataError>("{}: no such array in the file", source_);
    const Handle type(hdf5().Dget_type(array_.get()), hdf5().Tclose);
    const Handle space(hdf5().Dget_space(array_.get()), hdf5().Sclose);
    const int dimensions = hdf5().Sget_simple_extent_ndims(space.get());
    if (!type.is_open() || dimensions < 1 || dimensions > 5)
      fail<DataError>("{}: {} dimensions; expected 1 to 5", source_, dimensions);
    type_ = scalar_type_of(type.get(), source_);
    std::vector<hsize_t> sizes(static_cast<size_t>(dimensions));
    hdf5().Sget_simple_extent_dims(space.get(), sizes.data(), nullptr);
    shape_.assign(sizes.begin(), sizes.end());
    if (checked_voxels(std::span(shape_).subspan(1)) < 0 || shape_[0] < 1) {
      fail<DataError>("{}: sizes {}; expected at least 1, and at most {} values a sample", source_,
                      fmt::join(shape_, " x "), kMaxVolumeValues);
    }
    check_chunks();
  }

  const std::vector<int64_t>& shape() const { return shape_; }
  const std::string& source() const { return source_; }
  ScalarType type() const { return type_; }

  // [count, ...] from `first` on.
  StoredArray read(int64_t first, int64_t count) const { return read(first, count, {}, {}); }

  // The region of sample `index`, [1, ...], the dimensions being what `axes` says.
  StoredArray read_region(int64_t index, const VolumeRegion& region, std::string_view axes) const {
    const auto part = region.size.sides();
    auto start = std::vector<int64_t>(shape_.size()), sizes = shape_;
    for (size_t i = 1; i < shape_.size(); ++i) {
      const size_t axis = std::string_view("DHW").find(axes[i]);
      if (axis == std::string_view::npos) continue;
      start[i] = region.start[axis];
      sizes[i] = part[axis];
    }
    return read(index, 1, start, sizes);
  }

 private:
  // part_start, part_sizes: of the dimensions behind the first; empty: all of them.
  StoredArray read(int64_t first, int64_t count, const std::vector<int64_t>& part_start,
                   const std::vector<int64_t>& part_sizes) const {
    StoredArray array;
    array.source = count == 1 ? fmt::format("{}[{}]", source_, first) : source_;
    array.type = {type_, std::endian::native};
    array.shape = part_sizes.empty() ? shape_ : part_sizes;
    array.shape[0] = count;
    std::vector<hsize_t> start(part_start.begin(), part_start.end());
    start.resize(shape_.size());
    std::vector<hsize_t> sizes(array.shape.begin(), array.shape.end());
    start[0] = static_cast<hsize_t>(first);
    const int64_t values = checked_voxels(std::span(array.shape).subspan(1));
    const auto num_bytes = static_cast<uint64_t>(count * values * bytes_of(type_));
    check_unpacked_bytes(hdf5().Dget_storage_size(array_.get()), num_bytes, max_unpacked_bytes_,
                         array.source);
    auto bytes = std::make_shared<std::string>();
    bytes->resize(num_bytes);
    const Handle space(hdf5().Dget_space(array_.get()), hdf5().Sclose);
    const Handle memory(
        hdf5().Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr),
        hdf5().Sclose);
    const bool is_read = hdf5().Sselect_hyperslab(space.get(), H5S_SELECT_SET, start.data(),
                                                  nullptr, sizes.data(), nullptr) >= 0 &&
                         hdf5().Dread(array_.get(), native_type(type_), memory.get(), space.get(),
                                      H5P_DEFAULT, bytes->data()) >= 0;
    if (!is_read) fail<DataError>("{}: cannot be read; the file is damaged", array.source);
    array.bytes = {reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()};
    array.owner = std::move(bytes);
    return array;
  }

  // A chunk is unpacked as a whole, whatever is wanted of it.
  void check_chunks() const {
    const Handle properties(hdf5().Dget_create_plist(array_.get()), hdf5().Pclose);
    if (!properties.is_open() || hdf5().Pget_layout(properties.get()) != H5D_CHUNKED) return;
    std::vector<hsize_t> sizes(shape_.size());
    if (hdf5().Pget_chunk(properties.get(), static_cast<int>(sizes.size()), sizes.data()) < 0)
      fail<DataError>("{}: its chunks have no size; the file is damaged", source_);
    const std::vector<int64_t> chunk(sizes.begin(), sizes.end());
    const int64_t values = checked_voxels(chunk);
    if (values < 0) fail<DataError>("{}: chunks of {} values", source_, fmt::join(chunk, " x "));
    check_unpacked_bytes(hdf5().Dget_storage_size(array_.get()),
                         static_cast<uint64_t>(values * bytes_of(type_)), max_unpacked_bytes_,
                         source_);
  }

  int64_t max_unpacked_bytes_;
  std::string source_;
  Handle array_;
  ScalarType type_ = ScalarType::kUint8;
  std::vector<int64_t> shape_;
};

Handle open_file(const std::string& path) {
  const InputFile looked_at(path);  // HDF5 itself would wait for a pipe
  Handle file(hdf5().Fopen(path.c_str(), kReadOnly, H5P_DEFAULT), hdf5().Fclose);
  if (!file.is_open()) {
    fail<DataError>("{}: cannot be opened as HDF5; check the path, or fetch the file again",
                    printable(path));
  }
  return file;
}

class Hdf5Dataset : public Dataset {
 public:
  // The caller uses the library.
  explicit Hdf5Dataset(const Hdf5Config& config)
      : file_(open_file(config.path)),
        images_(file_.get(), config.path, config.images, config.max_unpacked_bytes) {
    axes_ = config.axes.empty() ? guess_axes(images_.shape()) : config.axes;
    rule_ = {config.label_offset, config.num_classes.value_or(0), config.ignore_values};
    class_names_ = config.class_names;
    if (!config.masks.empty())
      masks_.emplace(file_.get(), config.path, config.masks, config.max_unpacked_bytes);
    if (!config.labels.empty()) {
      const Hdf5Array labels(file_.get(), config.path, config.labels, config.max_unpacked_bytes);
      labels_ = labels_of(labels.read(0, labels.shape()[0]));
    }
    // The first sample says whether all fits together; its classes are checked over all labels.
    ArraySet first = set_of(0);
    if (!labels_.empty() && labels_.size() != static_cast<size_t>(size())) {
      fail<DataError>("{}: {} samples, but {} labels; the arrays do not belong together",
                      images_.source(), size(), labels_.size());
    }
    if (masks_ && masks_->shape()[0] != size())
      fail<DataError>("{}: {} masks for {} samples", masks_->source(), masks_->shape()[0], size());
    if (!labels_.empty() && !masks_) {
      const auto largest = *std::max_element(labels_.begin(), labels_.end());
      if (rule_.num_classes == 0 && class_names_.empty()) rule_.num_classes = largest + 1;
      first.rule = rule_;
      first.labels = {largest};
    }
    const auto opened = build_array_dataset(std::move(first));
    form_ = opened->form();
    rule_.num_classes = opened->num_classes();
  }
  ~Hdf5Dataset() override {
    const LibraryUse use;
    masks_.reset();
    { const Hdf5Array closed = std::move(images_); }
    { const Handle closed = std::move(file_); }
  }

  int64_t size() const override { return images_.shape()[0]; }
  SampleForm form() const override { return form_; }
  bool has_masks() const override { return masks_.has_value(); }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  int64_t num_classes() const override { return rule_.num_classes; }
  std::string describe(int64_t index) const override {
    return fmt::format("{}[{}]", images_.source(), index);
  }

  void read(int64_t index, Sample& sample) const override { read_part(index, nullptr, sample); }

  VolumeSize size_of(int64_t /*index*/) const override {
    return {side_along('D'), side_along('H'), side_along('W')};
  }
  int64_t channels_of(int64_t /*index*/) const override { return side_along('C'); }
  bool read_region(int64_t index, const VolumeRegion& region, Sample& sample) const override {
    if (form_ != SampleForm::kVolume) return false;
    check_whole(*this, index, size_of(index), region);
    check_inside(region, size_of(index), images_.source());
    read_part(index, &region, sample);
    return true;
  }

 private:
  // The size of the dimension that `axes` calls so; 1 where there is none.
  int64_t side_along(char axis) const {
    const size_t at = axes_.find(axis);
    return at == std::string::npos ? 1 : images_.shape()[at];
  }

  void read_part(int64_t index, const VolumeRegion* region, Sample& sample) const {
    FOVEA_CHECK(index >= 0 && index < size(), "index={}; expected 0 to {}", index, size() - 1);
    std::shared_ptr<const Dataset> one;
    {
      const LibraryUse use;
      one = build_array_dataset(set_of(index, region));
    }
    one->read(0, sample);
    sample.label = labels_.empty() ? -1 : labels_[static_cast<size_t>(index)];
  }

  // Sample `index`, or a region of it, as a set of one.
  ArraySet set_of(int64_t index, const VolumeRegion* region = nullptr) const {
    const auto read = [&](const Hdf5Array& array, const std::string& axes) {
      return region == nullptr ? array.read(index, 1) : array.read_region(index, *region, axes);
    };
    ArraySet set;
    set.images = read(images_, axes_);
    set.axes = axes_;
    std::string mask_axes = axes_;
    std::erase(mask_axes, 'C');
    if (masks_) set.masks = read(*masks_, mask_axes);
    set.rule = rule_;
    set.class_names = class_names_;
    set.name = images_.source();
    return set;
  }

  Handle file_;
  Hdf5Array images_;
  std::optional<Hdf5Array> masks_;
  std::vector<int64_t> labels_;
  std::string axes_;
  LabelRule rule_;
  std::vector<std::string> class_names_;
  SampleForm form_ = SampleForm::kImage;
};

}  // namespace

std::shared_ptr<const Dataset> build_hdf5_dataset(const Hdf5Config& config) {
  const LibraryUse use;
  return std::make_shared<Hdf5Dataset>(config);
}

std::vector<std::string> hdf5_array_names(const std::string& path) {
  const LibraryUse use;
  const Handle file = open_file(path);
  H5G_info_t root;
  if (hdf5().Gget_info(file.get(), &root) < 0)
    fail<DataError>("{}: its arrays cannot be listed; the file is damaged", printable(path));
  std::vector<std::string> names;
  for (hsize_t i = 0; i < root.nlinks; ++i) {
    std::array<char, 256> name;
    const auto length = hdf5().Lget_name_by_idx(file.get(), ".", H5_INDEX_NAME, H5_ITER_INC, i,
                                                name.data(), name.size(), H5P_DEFAULT);
    if (length <= 0 || length >= static_cast<ssize_t>(name.size())) continue;
    const Handle array(hdf5().Dopen2(file.get(), name.data(), H5P_DEFAULT), hdf5().Dclose);
    if (array.is_open()) names.emplace_back(name.data());
  }
  return names;
}

}  // namespace fovea::data

#else

namespace fovea::data {
namespace {

[[noreturn]] void fail_without_hdf5(const std::string& path) {
  fail<ConfigError>(
      "{}: this fovea was built without HDF5; install libhdf5-dev and build again, or convert the "
      "arrays to .npz",
      path);
}

}  // namespace

std::shared_ptr<const Dataset> build_hdf5_dataset(const Hdf5Config& config) {
  fail_without_hdf5(config.path);
}

std::vector<std::string> hdf5_array_names(const std::string& path) { fail_without_hdf5(path); }

}  // namespace fovea::data

#endif
