// fovea data prepare imagenet TRAIN.tar VAL.tar DEVKIT.tar.gz --out DIR [--to folder|wds|packed]
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/fovea/command.h"
#include "apps/fovea/commands/data.h"
#include "apps/fovea/output.h"
#include "apps/fovea/progress_counter.h"
#include "fovea/core/json.h"
#include "fovea/data_tools/prepare/imagenet.h"

namespace fovea::app {
namespace {

struct PrepareArguments {
  data::ImagenetOptions options;
  int64_t shard_mib = 256;
  bool json = false;
};

void run(const PrepareArguments& arguments) {
  auto options = arguments.options;
  options.pack.shard_bytes = static_cast<uint64_t>(arguments.shard_mib) << 20;
  ProgressCounter progress("preparing", arguments.json);
  options.pack.progress = progress.callback();
  const auto report = data::prepare_imagenet(options);
  progress.clear();
  if (arguments.json) {
    const nlohmann::ordered_json out = {{"out", options.out},
                                        {"to", options.to},
                                        {"num_classes", report.classes},
                                        {"train_samples", report.train},
                                        {"val_samples", report.val},
                                        {"resumed_samples", report.resumed}};
    say_as_is("{}\n", json_text(out));
    return;
  }
  say("{}: {} classes, {} training and {} validation images{}\n", options.out, report.classes,
      report.train, report.val,
      report.resumed > 0 ? fmt::format(" ({} were there)", report.resumed) : "");
  const std::string more =
      options.to == "wds" ? fmt::format(", num_classes: {}", report.classes) : "";
  for (const char* part : {"train", "val"}) {
    say("  recipe: data.{0}: {{format: {1}, path: {2}/{0}{3}}}\n", part, options.to, options.out,
        more);
  }
}

}  // namespace

void add_data_prepare(Command group) {
  auto prepare = group.add_command("prepare", "Publishers' archives as a data set");
  prepare.require_command();
  prepare.examples({"fovea data prepare mni152 nilearn-0.14.1-py3-none-any.whl --out mni152",
                    "fovea data prepare imagenet train.tar val.tar devkit.tar.gz --out imagenet"});
  add_data_prepare_mni152(prepare);
  auto command = prepare.add_command(
      "imagenet", "ILSVRC2012 from its two image archives and its devkit; resumable");
  auto arguments = std::make_shared<PrepareArguments>();
  auto& options = arguments->options;
  command.add_option("train", options.train, "ILSVRC2012_img_train.tar")
      .required()
      .type_name("TRAIN.tar");
  command.add_option("val", options.val, "ILSVRC2012_img_val.tar").required().type_name("VAL.tar");
  command.add_option("devkit", options.devkit, "ILSVRC2012_devkit_t12.tar.gz")
      .required()
      .type_name("DEVKIT.tar.gz");
  command.add_option("--out", options.out, "folder that gets train and val").required();
  command.add_option("--to", options.to, "class folders, WebDataset tars or Fovea's packed format")
      .one_of({"folder", "wds", "packed"})
      .show_default();
  command
      .add_option("--max-side", options.pack.max_side,
                  "of wds and packed: shrink images whose longer side is above this; 0: keep all "
                  "files as they are")
      .in_range(0, 65500)
      .show_default();
  command.add_option("--quality", options.pack.quality, "of the JPEGs that --max-side makes")
      .in_range(1, 100)
      .show_default();
  command.add_flag("--raw", options.pack.raw, "of packed: store pixels");
  command.add_option("--shard-mib", arguments->shard_mib, "size of a shard, in MiB")
      .in_range(1, 1 << 20)
      .show_default();
  command.add_option("--threads", options.pack.threads, "0: one for each core").in_range(0, 1024);
  command.add_flag("--json", arguments->json,
                   "print one JSON object on standard output and nothing else there");
  command.examples(
      {"fovea data prepare imagenet ILSVRC2012_img_train.tar ILSVRC2012_img_val.tar "
       "ILSVRC2012_devkit_t12.tar.gz --out imagenet"});
  command.callback([arguments] { run(*arguments); });
}

}  // namespace fovea::app
