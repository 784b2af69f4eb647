"""Fitting one model with Lightning: optimiser, schedules, averaging, selection, resuming.

Everything random derives from (seed, epoch, step), and everything that changes while training is in
the checkpoint, so a run that was killed goes on to the very same weights.
"""

from __future__ import annotations

import gc
import logging
import math
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor

from gad.machine import as_many_threads
from gad.nn import GAD
from gad.nn.norm import synchronise
from gad.settings.recipe import Recipe
from gad.settings.sections import TrainingSettings
from gad.training.batches import Examples
from gad.training.learner import Judge, Learned, Learner, smoothed

# Seconds between checkpoints: what a killed run loses at most.
CHECKPOINT_SECONDS = float(os.environ.get("GAD_CHECKPOINT_SECONDS", "30"))


@dataclass(frozen=True)
class Hardware:
    """On what to train: Lightning's own flags, and PyTorch's threads, see ``as_many_threads``."""

    accelerator: str = "auto"
    devices: str | int = "auto"
    strategy: str = "auto"
    num_nodes: int = 1
    threads: int | None = None


@dataclass(frozen=True)
class Fitted:
    """A trained model with its curve: one row an epoch."""

    model: GAD
    curve: list[dict[str, float]]
    best_epoch: int
    best_loss: float
    seconds: float


class _Leave(Exception):  # noqa: N818
    """Training ends here because it was interrupted; the checkpoint is written."""


class _Keeper(Callback):
    """Keeps the curve and the best weights, stops the run, and writes checkpoints."""

    def __init__(
        self,
        path: Path | None,
        settings: TrainingSettings,
        report: Callable[[dict[str, float]], None] | None,
    ) -> None:
        self.path, self.settings, self.report = path, settings, report
        self.curve: list[dict[str, float]] = []
        self.best: dict[str, Tensor] = {}
        self.best_loss, self.best_epoch = math.inf, -1
        self.seconds = 0.0
        self.stopped = self.interrupted = False
        self.hear: Callable[[], None] = lambda: None
        self._saved = self._clock = time.monotonic()

    def state_dict(self) -> dict[str, Any]:
        self._tick()
        keys = ("curve", "best", "best_loss", "best_epoch", "seconds", "stopped")
        return {key: getattr(self, key) for key in keys}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for key, value in state_dict.items():
            setattr(self, key, value)

    def _tick(self) -> None:
        now = time.monotonic()
        self.seconds += now - self._clock
        self._clock = now

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        del trainer, pl_module
        self._saved = self._clock = time.monotonic()

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        del trainer, pl_module
        # Lightning has put a handler before ours, which speaks to the other processes at once,
        # whatever they are just saying to one another.
        self.hear()

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any,
        batch_idx: int,
    ) -> None:  # fmt: skip
        del pl_module, outputs, batch
        # After an epoch's last batch validation is due, and the epoch's end saves it all.
        if batch_idx + 1 < trainer.num_training_batches and self._save_if_due(trainer):
            raise _Leave

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        assert isinstance(pl_module, Learner)
        module = pl_module
        self._tick()
        total, weight = module.train_loss
        val = float(trainer.callback_metrics["val_loss"])
        rate = float(trainer.optimizers[0].param_groups[0]["lr"])
        row = {
            "epoch": float(trainer.current_epoch),
            "train_loss": total / weight if weight else math.nan,
            "val_loss": val,
            "lr": rate,
            "seconds": self.seconds,
        }
        for layer, diffusion in enumerate(module.evaluated.diffusions()):
            times = diffusion.times.detach()
            row[f"time_min_{layer}"] = float(times.min())
            row[f"time_median_{layer}"] = float(times.median())
            row[f"time_max_{layer}"] = float(times.max())
        error = val
        if module.judge is not None:
            metric = row["val_metric"] = float(trainer.callback_metrics["val_metric"])
            error = -metric if module.judge.higher_is_better else metric
        self.curve.append(row)
        if error < self.best_loss or not self.best:
            self.best_loss, self.best_epoch = error, trainer.current_epoch
            self.best = {k: v.cpu().clone() for k, v in module.evaluated.state_dict().items()}
        if module.plateau is not None:
            losses = (earlier["val_loss"] for earlier in self.curve)
            module.plateau.step(smoothed(losses, self.settings.plateau_smoothing))
        self.stopped = self._is_over(trainer)
        trainer.should_stop = self.stopped
        leave = self._save_if_due(trainer)
        # Who hears of the epoch may end the run: by now it is in the checkpoint, if one was due.
        if self.report is not None:
            self.report(row)
        if leave:
            raise _Leave

    def _save_if_due(self, trainer: L.Trainer) -> bool:
        """Write a checkpoint when it is time; whether the run is to be left.

        Several processes go by the clock and the interruption of the first.
        """
        late = time.monotonic() - self._saved >= CHECKPOINT_SECONDS
        due, leave = late or self.stopped, self.interrupted
        if trainer.world_size > 1:
            due, leave = trainer.strategy.broadcast((due, leave))
        if due or leave:
            self.save(trainer)
        return leave

    def _is_over(self, trainer: L.Trainer) -> bool:
        """Whether epochs or patience are used up, or the plateau schedule is at its end."""
        settings, epoch = self.settings, trainer.current_epoch
        rate = float(trainer.optimizers[0].param_groups[0]["lr"])
        return (
            epoch + 1 >= settings.epochs
            or bool(settings.patience and epoch - self.best_epoch >= settings.patience)
            or (settings.schedule == "plateau" and rate < settings.minimum_rate)
        )

    def save(self, trainer: L.Trainer) -> None:
        """Write a checkpoint beside its place and move it there whole."""
        if self.path is None:
            return
        temporary = self.path.with_name(f".{self.path.name}.tmp")
        trainer.save_checkpoint(temporary)
        if trainer.is_global_zero:
            temporary.replace(self.path)
        self._saved = time.monotonic()


def fit(
    model: GAD,
    recipe: Recipe,
    task: Learned,
    data: Examples,
    rows: dict[str, Tensor],
    *,
    checkpoint: Path | None = None,
    resume: bool = False,
    hardware: Hardware | None = None,
    report: Callable[[dict[str, float]], None] | None = None,
    logger: Any = None,
    judge: Judge | None = None,
) -> Fitted:
    """Train a model and return it with the weights of its best validation epoch.

    Args:
        model: to train, in place.
        recipe: how.
        task: what.
        data: all labelled molecules.
        rows: which of them are "train" and "val".
        checkpoint: where the state is kept against interruption.
        resume: go on from the checkpoint if there is one.
        hardware: Lightning's flags.
        report: called with the row of the curve after each epoch.
        logger: a Lightning logger, if any.
        judge: chooses the best epoch; the validation loss does if left out.
    """
    hardware = hardware or Hardware()
    keeper = _Keeper(checkpoint, recipe.training, report)
    module = Learner(model, recipe, task, data, rows, judge)
    with _quiet_lightning():
        trainer = L.Trainer(
            accelerator=hardware.accelerator,
            devices=hardware.devices,
            strategy=hardware.strategy,
            num_nodes=hardware.num_nodes,
            max_epochs=recipe.training.epochs,
            callbacks=[keeper],
            logger=logger or False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,
            inference_mode=False,
        )
        known = checkpoint if resume and checkpoint is not None and checkpoint.exists() else None
        if known is None or not _was_over(known, keeper, trainer.world_size):
            threads = as_many_threads(hardware.threads)
            with threads, _still_collector(), _after_the_batch(keeper):
                trainer.fit(module, ckpt_path=known, weights_only=False)
    synchronise(model, None)
    best = module.evaluated
    best.load_state_dict(keeper.best)
    best.eval().requires_grad_(True)
    return Fitted(best, keeper.curve, keeper.best_epoch, keeper.best_loss, keeper.seconds)


def _was_over(checkpoint: Path, keeper: _Keeper, processes: int) -> bool:
    """Whether the run had stopped by itself when it was cut off; if so, the keeper has it all.

    Otherwise as many processes have to go on with it as have begun it: their batches are others.
    """
    state = torch.load(checkpoint, weights_only=False)
    keeper.load_state_dict(state["callbacks"][keeper.state_key])
    before = state.get("processes", processes)
    if before != processes and not keeper.stopped:
        raise ValueError(
            f"the run began with {before} process{'es' if before > 1 else ''} and cannot go on "
            f"with {processes}: resume with as many (--devices, --num-nodes), or name another --out"
        )
    return keeper.stopped


@contextmanager
def _still_collector() -> Iterator[None]:
    """Spare the garbage collector what is there already: it would walk it again and again."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def _after_the_batch(keeper: _Keeper) -> Iterator[None]:
    """Let an interruption wait for the end of the batch and its checkpoint; a second does not."""
    usual = signal.default_int_handler
    heard = [s for s in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(s) is usual]
    if threading.current_thread() is not threading.main_thread() or not heard:
        yield
        return

    def note(number: int, frame: FrameType | None) -> None:
        if keeper.interrupted:
            usual(number, frame)
        keeper.interrupted = True

    def hear() -> None:
        for number in heard:
            signal.signal(number, note)

    hear()
    keeper.hear = hear
    try:
        yield
    except _Leave:
        raise KeyboardInterrupt from None
    finally:
        for number in heard:
            signal.signal(number, usual)
    if keeper.interrupted:  # too late for the last checkpoint, which there is anyway
        raise KeyboardInterrupt


@contextmanager
def _quiet_lightning() -> Iterator[None]:
    """Lightning speaks to its own users; ours have a progress bar."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [log.level for log in loggers]
    for log in loggers:
        log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="lightning")
            warnings.filterwarnings("ignore", message=".*does not have many workers.*")
            warnings.filterwarnings("ignore", message=".*LeafSpec.*")
            yield
    finally:
        for log, level in zip(loggers, levels, strict=True):
            log.setLevel(level)
