// fovea data prepare mni152 NILEARN.whl --out DIR
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "apps/fovea/command.h"
#include "apps/fovea/commands/data.h"
#include "apps/fovea/output.h"
#include "fovea/core/json.h"
#include "fovea/data_tools/prepare/mni152.h"

namespace fovea::app {
namespace {

nlohmann::ordered_json to_json(const data::Mni152Part& part) {
  return {{"slabs", part.slabs},
          {"background", part.voxels[0]},
          {"grey_matter", part.voxels[1]},
          {"white_matter", part.voxels[2]}};
}

void print_part(const char* name, const data::Mni152Part& part) {
  const auto total = static_cast<double>(part.voxels[0] + part.voxels[1] + part.voxels[2]);
  say("  {}: {} slabs; background {:.1f} %, grey matter {:.1f} %, white matter {:.1f} %\n", name,
      part.slabs, 100.0 * static_cast<double>(part.voxels[0]) / total,
      100.0 * static_cast<double>(part.voxels[1]) / total,
      100.0 * static_cast<double>(part.voxels[2]) / total);
}

}  // namespace

void add_data_prepare_mni152(Command prepare) {
  auto command = prepare.add_command(
      "mni152", "The MNI152 T1 brain with grey and white matter, from nilearn's wheel");
  struct Arguments {
    data::Mni152Options options;
    bool json = false;
  };
  auto arguments = std::make_shared<Arguments>();
  auto& options = arguments->options;
  command
      .add_option("wheel", options.wheel, "nilearn's wheel: pip download --no-deps nilearn==0.14.1")
      .required()
      .existing_file()
      .type_name("NILEARN.whl");
  command.add_option("--out", options.out, "folder that gets train and val").required();
  command.add_option("--slabs", options.num_slabs, "slabs that the head is cut into")
      .in_range(2, 100)
      .show_default();
  command
      .add_option("--held-out", options.held_out,
                  "of so many slabs in a row, the second one is for validation")
      .in_range(2, 100)
      .show_default();
  command.add_flag("--json", arguments->json,
                   "print one JSON object on standard output and nothing else there");
  command.examples({"fovea data prepare mni152 nilearn-0.14.1-py3-none-any.whl --out mni152"});
  command.callback([arguments] {
    const auto report = data::prepare_mni152(arguments->options);
    if (arguments->json) {
      const nlohmann::ordered_json out = {{"out", arguments->options.out},
                                          {"train", to_json(report.train)},
                                          {"val", to_json(report.val)}};
      say_as_is("{}\n", json_text(out));
      return;
    }
    say("{}:\n", arguments->options.out);
    print_part("train", report.train);
    print_part("val", report.val);
  });
}

}  // namespace fovea::app
