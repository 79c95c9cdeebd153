"""The training loop, with callbacks."""
import dataclasses
import signal

from fovea._arguments import overrides_of
from fovea._library import core
from fovea.data._values import path_of


@dataclasses.dataclass(frozen=True)
class TrainResult:
    """How far a run has come. stopped: before its end; the same call, or `fovea train RUN_DIR`, goes on from there."""
    run_dir: str
    step: int
    epoch: float
    stopped: bool
    metrics: dict  # of the last evaluation


class Progress:
    """What a callback is given: step (those that are done), epoch, and metrics by the names that metrics.jsonl has."""

    def __init__(self, step, epoch, metrics):
        self.step, self.epoch, self.metrics = step, epoch, metrics
        self.is_stopped = False

    def stop(self):
        """The run ends behind this step, with its state saved, so that it can go on later."""
        self.is_stopped = True

    def __repr__(self):
        return f"Progress(step={self.step}, epoch={self.epoch:.3g}, metrics={self.metrics})"


def train(recipe, *, on_step=None, on_evaluation=None, progress=True, **overrides):
    """Trains as `fovea train RECIPE` does, in this process, to the same bits; a run folder in place of a recipe goes on with its run.

    on_step, on_evaluation: called with a Progress after each step, or evaluation. What they raise ends the run, and comes out here; the
        last checkpoint stands. They run between steps: what they cost is added to each.
    progress: whether the progress line is shown, on standard error.
    overrides: keys of the recipe: optim={"lr": 3e-4}, or **{"optim.lr": 3e-4}.

    Ctrl-C ends the run at the next step with its state saved, and then raises KeyboardInterrupt; other stop signals (SIGTERM, SIGUSR1,
    SIGHUP) likewise do what they would have done. A second Ctrl-C ends the process at once.
    """
    source = path_of(recipe, "train: recipe")
    result = core.train(source, overrides_of(overrides), progress, _observer(on_step, on_evaluation))
    told_by = result.pop("signal")
    if told_by and result["stopped"]:
        signal.raise_signal(told_by)
    return TrainResult(**result)


def _observer(on_step, on_evaluation):
    callbacks = {"train": on_step, "val": on_evaluation}
    for name, callback in (("on_step", on_step), ("on_evaluation", on_evaluation)):
        if callback is not None and not callable(callback):
            raise TypeError(f"train: {name}: found a {type(callback).__name__}; expected a function of one argument, a fovea.Progress")
    if on_step is None and on_evaluation is None:
        return None

    def observe(split, step, epoch, metrics):
        if callbacks.get(split) is None:
            return True
        stands = Progress(step, epoch, metrics)
        callbacks[split](stands)
        return not stands.is_stopped
    return observe
