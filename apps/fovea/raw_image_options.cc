#include "apps/fovea/raw_image_options.h"

#include "fovea/data/large_image/raw_regions.h"

namespace fovea::app {

void add_raw_image_options(Command command, RawImageArguments& arguments,
                           const std::string& prefix) {
  const auto named = [&](const char* word) { return "--" + prefix + word; };
  command
      .add_option(named("dtype"), arguments.dtype,
                  "of a raw file, which has no header: the type of its numbers")
      .one_of(data::scalar_type_names());
  command.add_option(named("shape"), arguments.shape, "of a raw file: sizes, the last one fastest")
      .delimiter(',');
  command.add_option(named("axes"), arguments.axes, "of a raw file: what the sizes are")
      .one_of({"HW", "HWC", "CHW"})
      .show_default();
  command.add_option(named("offset"), arguments.offset, "of a raw file: bytes before the numbers");
  command.add_flag(named("big-endian"), arguments.big_endian, "of a raw file: its byte order");
}

std::unique_ptr<data::RegionSource> open_large_image(const std::string& path,
                                                     const RawImageArguments& arguments,
                                                     const data::SlideScale& scale) {
  if (!arguments.is_given()) return data::open_region_source(path, scale);
  data::RawRegionLayout layout;
  layout.type = data::scalar_type_named(arguments.dtype);
  layout.shape = arguments.shape;
  layout.axes = arguments.axes;
  layout.offset = arguments.offset;
  layout.order = arguments.big_endian ? std::endian::big : std::endian::little;
  return data::open_raw_regions(path, layout);
}

}  // namespace fovea::app
