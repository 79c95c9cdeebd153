// The training loop in user code: train_by_hand RECIPE [a.b=c ...]. By itself it is one process;
// torchrun, srun or mpirun start it as several, each with its part of every batch.
#include <fmt/format.h>

#include "fovea/fovea.h"

using namespace fovea;

void train_by_hand(const train::TrainConfig& config, parallel::World& world) {
  const auto mesh = train::make_mesh(config, world);
  auto training = train::open_training_data(config, train::data_shard(mesh));
  auto options = train::step_options(config);
  const auto model = train::make_model(config, options.compute);
  const auto task = train::make_task(config.task, *model);
  const auto optimizer = train::make_optimizer(config, *model);
  const auto reducer = train::make_reducer(config.parallel, *optimizer, mesh.data_parallel());
  options.ranks = &mesh.data_parallel();
  options.reducer = reducer.get();
  const auto num_steps = train::total_steps(config.trainer, training.loader->batches_per_epoch());
  const optim::Schedule schedule(config.schedule, optim::base_lr(config.optim), num_steps);
  for (int64_t step = 0; step < num_steps; ++step) {
    auto batch = training.loader->next();
    const auto outcome = train::compute_gradients(*model, *task, *optimizer, batch, step, options);
    optimizer->step(schedule.lr(step));
    if (world.is_first()) fmt::print("{} {}\n", step + 1, outcome.loss);
    training.loader->recycle(std::move(batch));
  }
}

int main(int argc, char** argv) try {
  if (argc < 2) fail<ConfigError>("expected a recipe: train_by_hand RECIPE [a.b=c ...]");
  const auto config = train::load_any_config(argv[1], {argv + 2, argv + argc});
  parallel::World world(parallel::launch_from(parallel::process_environment()), config.launch);
  train_by_hand(config, world);
  world.leave();
} catch (const std::exception& error) {
  fmt::print(stderr, "error: {}\n", error.what());
  return 1;
}
