#include "python/fovea-data/src/recipe_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <variant>

#include "fovea/config/config.h"
#include "fovea/config/merge.h"
#include "fovea/config/node.h"
#include "fovea/config/read.h"
#include "fovea/core/error.h"
#include "fovea/data/config.h"
#include "fovea/data/datasets/mix.h"
#include "fovea/data/datasets/registry.h"
#include "fovea/data/transforms/image/pipeline.h"

namespace fovea::python {
namespace {

// The part of a recipe that is read. Its keys are as in the whole, so that messages are, too.
struct RecipeData {
  data::DataConfig data;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("data", self.data, "what is loaded");
  }
};

ConfigNode data_alone(const ConfigNode& root) {
  ConfigNode alone;
  alone.kind = ConfigNode::Kind::kMap;
  alone.origin = root.origin;
  if (const ConfigNode* found = root.find("data")) alone.add("data", *found);
  return alone;
}

ConfigNode changed_recipe(const RecipeDataOptions& options, const ConfigNode& written) {
  ConfigNode root = written;
  for (const auto& [key, value] : options.changes) {
    const auto source = fmt::format("{}, {}", options.source, key);
    detail::put_at(root, key, parse_override_value(value, source), source);
  }
  return root;
}

data::DataConfig read_data(const std::string& source, const ConfigNode& written,
                           const ConfigNode& changed) {
  RecipeData recipe;
  const detail::BoundSection<RecipeData> binding(recipe);
  ConfigNode root = data_alone(changed);
  detail::drop_old_keys(binding, data_alone(written), root);
  detail::ConfigReader reader(source, binding);
  reader.read_root(binding, root);
  reader.throw_faults();
  return recipe.data;
}

// The first key of that name within `node`: of a model, its own or its encoder's.
const ConfigNode* find_within(const ConfigNode* node, std::string_view key) {
  if (node == nullptr || node->kind != ConfigNode::Kind::kMap) return nullptr;
  if (const ConfigNode* own = node->find(key)) return own;
  for (const ConfigNode& child : node->children) {
    if (const ConfigNode* found = find_within(&child, key)) return found;
  }
  return nullptr;
}

std::optional<int64_t> whole_number(const ConfigNode* node) {
  if (node == nullptr || node->kind != ConfigNode::Kind::kScalar) return std::nullopt;
  return detail::to_integer(node->scalar);
}

// A ViT's: its sides are those of the longer of two lists, and two where both are numbers.
int64_t spatial_dims_of(const ConfigNode& model) {
  size_t sides = 2;
  for (const char* key : {"img_size", "patch_size"}) {
    const ConfigNode* found = find_within(&model, key);
    if (found != nullptr) sides = std::max(sides, found->children.size());
  }
  return static_cast<int64_t>(sides);
}

// What is known of the model before any sample is.
struct KnownForm {
  std::optional<int64_t> in_chans, spatial_dims;
};

KnownForm known_form(const RecipeDataOptions& options, const ConfigNode* model) {
  KnownForm form{options.in_chans, options.spatial_dims};
  if (model == nullptr) return form;
  if (!form.in_chans) form.in_chans = whole_number(find_within(model, "in_chans")).value_or(3);
  if (!form.spatial_dims) form.spatial_dims = spatial_dims_of(*model);
  return form;
}

// The model's labels are those of training, whose classes are known only once it is opened.
std::vector<std::string> learned_classes(const RecipeDataOptions& options,
                                         const data::DataConfig& config) {
  if (!options.class_names.empty() || !config.train) return options.class_names;
  if (const auto* mix = config.train->get_if<data::MixConfig>()) {
    return data::build_mix_dataset(*mix, config.tiling)->class_names();
  }
  return data::build_dataset(config.train->as<data::DatasetFormat>().value())->class_names();
}

// Of volumes without a model: each set's pipeline for as many channels as its first sample has.
void take_channels_of_samples(const data::DataSectionConfig& section, data::LoaderSetup& opened) {
  if (opened.transforms.size() != 1 || opened.dataset->form() != data::SampleForm::kVolume) return;
  opened.transforms = {data::make_transforms(section->transforms(), opened.dataset->form(),
                                             opened.dataset->channels_of(0))};
}

std::optional<int64_t> packed_patch_size(const data::LoaderSetup& opened) {
  using Images = std::shared_ptr<const data::TransformPipeline>;
  const auto* images = std::get_if<Images>(&opened.transforms.front());
  if (images == nullptr || (*images)->to_patches() == nullptr) return std::nullopt;
  return (*images)->to_patches()->patch_size;
}

void take_bytes(const std::string& section, data::LoaderSetup& opened) {
  if (opened.options.mixup || !data::can_be_bytes(opened)) {
    fail<ConfigError>(
        "pixels='uint8': batches of data.{} are floats after all that is done to them (volumes, "
        "patches, random_erasing, mixup); leave pixels out, or those steps",
        section);
  }
  opened.options.pixel_type = data::PixelType::kUint8;
}

void check_rank(const RecipeDataOptions& options) {
  if (options.world_size >= 1 && options.rank >= 0 && options.rank < options.world_size) return;
  fail<ConfigError>("rank={}, world_size={}: expected a rank from 0 to world_size - 1",
                    options.rank, options.world_size);
}

}  // namespace

data::LoaderSetup open_recipe_data(const RecipeDataOptions& options) {
  check_rank(options);
  const ConfigNode written = parse_config_yaml(options.yaml, options.source);
  const ConfigNode changed = changed_recipe(options, written);
  const auto config = read_data(options.source, written, changed);
  const bool is_training = options.section == "train";
  const auto& section = is_training ? config.train : config.val;
  if (!section) {
    fail<ConfigError>("{}: data.{} is not set, so there is nothing to load", options.source,
                      options.section);
  }
  const KnownForm form = known_form(options, changed.find("model"));
  data::InputForm input{.in_chans = form.in_chans.value_or(3)};
  if (!is_training) input.class_names = learned_classes(options, config);
  auto opened = data::open_loader_setup(config, *section, input, is_training);
  if (!form.in_chans) take_channels_of_samples(*section, opened);
  opened.options.spatial_dims.reset();
  if (form.spatial_dims) opened.options.spatial_dims = static_cast<int>(*form.spatial_dims);
  opened.options.packed_patch_size = packed_patch_size(opened);
  const auto run_seed = whole_number(find_within(changed.find("run"), "seed"));
  opened.options.seed = static_cast<uint64_t>(options.seed.value_or(run_seed.value_or(42)));
  opened.options.share = data::BatchShare::of_rank(options.rank, options.world_size);
  if (options.is_uint8) take_bytes(options.section, opened);
  return opened;
}

std::vector<std::string> data_keys() {
  data::DataConfig config;
  std::vector<std::string> names;
  for (const auto& field : detail::BoundSection<data::DataConfig>(config).fields()) {
    if (field.name != "train" && field.name != "val") names.push_back(field.name);
  }
  return names;
}

}  // namespace fovea::python
