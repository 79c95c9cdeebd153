// By which variables a launcher is known.
#pragma once

namespace fovea::parallel {

struct LaunchersThere {
  bool torch = false;  // torchrun, and others that set RANK and WORLD_SIZE
  bool mpi = false;
  bool slurm = false;

  bool any() const { return torch || mpi || slurm; }
};

// has(name): whether a variable is set, to something.
template <class Has>
LaunchersThere launchers_there(const Has& has) {
  return {.torch = has("RANK") || has("WORLD_SIZE"),
          .mpi = has("OMPI_COMM_WORLD_RANK") || has("OMPI_COMM_WORLD_SIZE"),
          // The shell of a batch job has SLURM_PROCID too, but no step: it is no rank of anything.
          .slurm = has("SLURM_STEP_ID") && has("SLURM_PROCID")};
}

}  // namespace fovea::parallel
