// The training loop in user code: train_by_hand RECIPE [a.b=c ...]. By itself it is one process;
// torchrun, srun or mpirun start it as several, each with its part of every batch.
#include <fmt/format.h>

#include "fovea/fovea.h"

using namespace fovea;

void train_by_hand(const train::TrainConfig& config, parallel::World& world) {
  const auto mesh = train::make_mesh(config, world);
  auto training = train::open_training_data(config, train::data_share(mesh, config.parallel));
  train::MeshState state(config, mesh, train::step_options(config));
  const auto num_steps = train::total_steps(config.trainer, training.loader->batches_per_epoch());
  const optim::Schedule schedule(config.schedule, optim::base_lr(config.optim), num_steps);
  for (int64_t step = 0; step < num_steps; ++step) {
    auto batch = training.loader->next();
    const auto prepared = train::prepare_step(state.step_parts(), batch, step);
    const auto outcome = train::outcome_of(prepared, state.options);
    // The loss scale of float16 may leave a step out.
    if (!outcome.is_skipped) train::apply_step(state.step_parts(), prepared, schedule.lr(step));
    if (world.is_first()) fmt::print("{} {}\n", step + 1, outcome.loss);
    training.loader->recycle(std::move(batch));
  }
  const optim::EmaScope with_average(state.ema.get());
  const auto whole = state.whole_model(world.is_first());  // of all processes' parts
  if (world.is_first()) {
    train::save_inference_weights(config.run.dir + ".safetensors", *whole, config,
                                  training.dataset->class_names());
  }
}

int main(int argc, char** argv) try {
  if (argc < 2) fail<ConfigError>("expected a recipe: train_by_hand RECIPE [a.b=c ...]");
  const auto config = train::load_any_config(argv[1], {argv + 2, argv + argc});
  parallel::World world(parallel::launch_from(parallel::process_environment()), config.launch);
  try {
    train_by_hand(config, world);
  } catch (const Error& error) {
    world.fail(error.what(), error.exit_code());  // the others end, too, and say why
    throw;
  }
  world.leave();
} catch (const std::exception& error) {
  fmt::print(stderr, "error: {}\n", error.what());
  return 1;
}
