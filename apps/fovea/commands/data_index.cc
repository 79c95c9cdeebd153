// fovea data index SHARDS... [--out DIR]
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/commands/data.h"
#include "apps/fovea/output.h"
#include "apps/fovea/progress_counter.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/core/parallel_for.h"
#include "fovea/data/archive/wds_index.h"
#include "fovea/data/datasets/wds.h"
#include "fovea/files/atomic_file.h"

namespace fovea::app {
namespace {

namespace fs = std::filesystem;

struct IndexArguments {
  std::vector<std::string> shards;
  std::string out;
  int64_t threads = 0;
  bool json = false;
};

void run(const IndexArguments& arguments) {
  const auto tars = data::wds_tars(arguments.shards);
  if (!arguments.out.empty()) fs::create_directories(arguments.out);
  std::vector<data::WdsIndex> indices(tars.size());
  ProgressCounter progress("indexing", arguments.json);
  std::mutex mutex;
  int64_t done = 0;
  parallel_for(static_cast<int64_t>(tars.size()), arguments.threads, [&](int64_t i) {
    const auto t = static_cast<size_t>(i);
    indices[t] = data::build_wds_index(FileSource(tars[t]));
    const auto path = arguments.out.empty()
                          ? data::wds_index_path(tars[t])
                          : (fs::path(arguments.out) / fmt::format("idx_{}.txt", t)).string();
    write_file_atomic(path, data::format_wds_index(indices[t]));
    const std::lock_guard lock(mutex);
    progress.callback()(++done, static_cast<int64_t>(tars.size()));
  });
  progress.clear();
  data::check_wds_keys(indices, tars);
  int64_t samples = 0;
  for (const auto& index : indices) samples += index.size();
  if (arguments.json) {
    say_as_is("{}\n",
              json_text(nlohmann::ordered_json{{"shards", tars.size()}, {"num_samples", samples}}));
  } else {
    say("{}, {}; indices {}\n", counted(static_cast<int64_t>(tars.size()), "tar"),
        counted(samples, "sample"),
        arguments.out.empty() ? "beside the tars" : "in " + arguments.out);
  }
}

}  // namespace

void add_data_index(Command group) {
  auto command = group.add_command(
      "index", "Where the samples of WebDataset tars stand, as files of DALI's wds2idx format");
  auto arguments = std::make_shared<IndexArguments>();
  command
      .add_option("shards", arguments->shards,
                  "tars, with braces where there are many, or folders of tars")
      .required()
      .type_name("SHARDS...");
  command.add_option("--out", arguments->out,
                     "folder for idx_0.txt, idx_1.txt, ...; by default x.idx beside x.tar");
  command.add_option("--threads", arguments->threads, "0: one for each core").in_range(0, 1024);
  command.add_flag("--json", arguments->json,
                   "print one JSON object on standard output and nothing else there");
  command.examples(
      {"fovea data index 'shards/train-{0000..0146}.tar'", "fovea data index shards --out index"});
  command.callback([arguments] { run(*arguments); });
}

}  // namespace fovea::app
