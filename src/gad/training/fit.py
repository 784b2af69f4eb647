"""Fitting one model with Lightning: optimiser, schedules, averaging, selection, resuming.

Everything random derives from (seed, epoch, step), and everything that changes while training is in
the checkpoint, so a run that was killed goes on to the very same weights.
"""

from __future__ import annotations

import copy
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
from typing import Any, Protocol

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor

from gad.data.store.molecules import Batch
from gad.nn import GAD, decay_groups
from gad.nn.model import frozen_parts, layer_rates
from gad.settings.recipe import Recipe
from gad.settings.sections import TrainingSettings
from gad.training.batches import Batches, Examples, mix

# Seconds between checkpoints: what a killed run loses at most.
CHECKPOINT_SECONDS = float(os.environ.get("GAD_CHECKPOINT_SECONDS", "30"))


@dataclass(frozen=True)
class Hardware:
    """Lightning's own flags: on what to train."""

    accelerator: str = "auto"
    devices: str | int = "auto"
    strategy: str = "auto"


@dataclass(frozen=True)
class Fitted:
    """A trained model with its curve: one row an epoch."""

    model: GAD
    curve: list[dict[str, float]]
    best_epoch: int
    best_loss: float
    seconds: float


class Learned(Protocol):
    """What is learned; :class:`~gad.settings.task.Task` for the labels of a table."""

    def losses(self, outputs: Tensor, targets: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """The summed loss, and the sum of the weights."""


class Judge(Protocol):
    """A metric of the validation rows by which the best epoch is chosen."""

    @property
    def higher_is_better(self) -> bool:
        """The direction in which it improves."""

    def __call__(self, outputs: Tensor) -> float:
        """What these outputs [n, W] of the validation rows are worth."""


class _Module(L.LightningModule):
    """The model with its loss, optimiser and schedule."""

    def __init__(
        self,
        model: GAD,
        recipe: Recipe,
        task: Learned,
        data: Examples,
        rows: Any,
        judge: Judge | None,
    ) -> None:
        super().__init__()
        self.model = model
        self.settings, self.dropout = recipe.training, recipe.model.dropout
        self.frozen = frozen_parts(model, self.settings.freeze)
        for part in self.frozen:
            part.requires_grad_(False)
        self.average = copy.deepcopy(model).requires_grad_(False) if self.settings.ema else None
        self.task, self.data, self.rows = task, data, rows
        self.train_loss, self.val_loss = [0.0, 0.0], [0.0, 0.0]
        self.judge, self.val_outputs = judge, list[Tensor]()
        self.plateau: torch.optim.lr_scheduler.ReduceLROnPlateau | None = None
        self._plateau_state: dict[str, Any] | None = None

    @property
    def evaluated(self) -> GAD:
        """The model that validation judges and that is kept: the average, if there is one."""
        return self.model if self.average is None else self.average

    def train_dataloader(self) -> Batches:
        return self._batches("train", self.settings.batch_size, self.settings.seed)

    def val_dataloader(self) -> Batches:
        return self._batches("val", 4 * self.settings.batch_size, None)

    def _batches(self, part: str, size: int, seed: int | None) -> Batches:
        rank, world = self.trainer.global_rank, self.trainer.world_size
        return Batches(self.data, self.rows[part], size, seed=seed, rank=rank, world=world)

    def transfer_batch_to_device(
        self, batch: tuple[Batch, Tensor, Tensor], device: torch.device, dataloader_idx: int
    ) -> tuple[Batch, Tensor, Tensor]:
        del dataloader_idx
        molecules, targets, weights = batch
        if device.type == "cpu":
            return batch
        return molecules.to(device), targets.to(device), weights.to(device)

    def on_train_epoch_start(self) -> None:
        self.train_loss = [0.0, 0.0]
        for part in self.frozen:  # its batch norm, too, stays as it is
            part.eval()
        loader = self.trainer.train_dataloader
        assert isinstance(loader, Batches)
        loader.set_epoch(self.current_epoch)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["train_loss"] = list(self.train_loss)
        checkpoint["plateau"] = self.plateau.state_dict() if self.plateau else None

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.train_loss = list(checkpoint["train_loss"])
        self._plateau_state = checkpoint["plateau"]

    def on_fit_start(self) -> None:
        if self.plateau is not None and self._plateau_state is not None:
            self.plateau.load_state_dict(self._plateau_state)

    def training_step(self, batch: tuple[Batch, Tensor, Tensor], batch_idx: int) -> Tensor | None:
        molecules, targets, weights = batch
        if self.dropout:
            torch.manual_seed(mix(self.settings.seed, self.current_epoch, batch_idx, 1))
        loss, weight = self.task.losses(self.model(**molecules.inputs()), targets, weights)
        if float(weight) == 0:
            return None
        self.train_loss[0] += float(loss.detach())
        self.train_loss[1] += float(weight)
        mean = loss / weight
        if not math.isfinite(float(mean.detach())):
            raise FloatingPointError(
                f"the loss is not finite in epoch {self.current_epoch}: "
                "try a smaller learning_rate, or clip"
            )
        return mean

    def optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        super().optimizer_step(*args, **kwargs)
        if self.average is not None:
            self._move_average(self.average)

    def _move_average(self, average: GAD) -> None:
        """The running average of the weights, quick to follow at first."""
        decay = min(self.settings.ema, (1 + self.global_step) / (10 + self.global_step))
        pairs = zip(average.state_dict().values(), self.model.state_dict().values(), strict=True)
        for kept, new in pairs:
            if kept.is_floating_point():
                kept.lerp_(new, 1 - decay)
            else:
                kept.copy_(new)

    def on_validation_epoch_start(self) -> None:
        self.val_loss = [0.0, 0.0]

    def validation_step(self, batch: tuple[Batch, Tensor, Tensor], batch_idx: int) -> None:
        del batch_idx
        molecules, targets, weights = batch
        outputs = self.evaluated(**molecules.inputs())
        loss, weight = self.task.losses(outputs, targets, weights)
        self.val_loss[0] += float(loss)
        self.val_loss[1] += float(weight)
        if self.judge is not None:
            self.val_outputs.append(outputs.detach())

    def on_validation_epoch_end(self) -> None:
        if self.trainer.world_size > 1:
            sums: Any = self.all_gather(torch.tensor(self.val_loss, device=self.device))
            self.val_loss = sums.sum(0).tolist()
        total, weight = self.val_loss
        self.log("val_loss", total / weight if weight else math.nan, logger=False)
        if self.judge is not None:
            self.log("val_metric", self._judged(self.judge), logger=False)

    def _judged(self, judge: Judge) -> float:
        """What the outputs of the validation rows, in their order, are worth."""
        outputs = torch.cat(self.val_outputs)
        self.val_outputs.clear()
        if self.trainer.world_size > 1:  # every process had each so-many-th row
            gathered: Any = self.all_gather(outputs)
            outputs = gathered.transpose(0, 1).flatten(0, 1)
        return judge(outputs[: self.rows["val"].numel()])

    def configure_optimizers(self) -> Any:
        settings = self.settings
        rates = layer_rates(self.model, settings.rate_decay)
        groups = decay_groups(self.model, settings.weight_decay, rates)
        for group in groups:
            group["lr"] = settings.learning_rate * group["rate"]
        kind = torch.optim.Adam if settings.optimizer == "adam" else torch.optim.AdamW
        optimiser = kind(groups, lr=settings.learning_rate, fused=True)
        if settings.schedule == "plateau":
            # Stepped by the keeper and not by Lightning, which does so only after the moment at
            # which an epoch's checkpoint is written.
            self.plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
                optimiser,
                factor=settings.plateau_factor,
                patience=settings.plateau_patience,
                threshold=settings.plateau_threshold,
            )
            return optimiser
        rate = _rate(settings, max(1, len(self.train_dataloader())))
        schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, rate)
        return {
            "optimizer": optimiser,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }

    def on_before_optimizer_step(self, optimizer: Any) -> None:
        settings = self.settings
        if settings.clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip)
        if settings.schedule == "plateau" and self.current_epoch < settings.warmup:
            step = self.global_step + 1
            whole = settings.warmup * max(1, self.trainer.num_training_batches)
            for group in optimizer.param_groups:
                group["lr"] = settings.learning_rate * group["rate"] * min(1.0, step / whole)


def _rate(settings: TrainingSettings, steps: int) -> Callable[[int], float]:
    """The learning rate of a step as a share of the highest: a rise, then a cosine or nothing."""
    rise, whole = settings.warmup * steps, settings.epochs * steps

    def share(step: int) -> float:
        if step < rise:
            return (step + 1) / rise
        if settings.schedule == "constant":
            return 1.0
        return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - rise) / max(1, whole - rise))))

    return share


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

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any,
        batch_idx: int,
    ) -> None:  # fmt: skip
        del pl_module, outputs, batch
        # After an epoch's last batch validation is due, and the epoch's end saves it all.
        if batch_idx + 1 < trainer.num_training_batches and self._save_if_due(trainer):
            raise _Leave

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        assert isinstance(pl_module, _Module)
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
            module.plateau.step(val)
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
    module = _Module(model, recipe, task, data, rows, judge)
    with _quiet_lightning():
        trainer = L.Trainer(
            accelerator=hardware.accelerator,
            devices=hardware.devices,
            strategy=hardware.strategy,
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
        if known is None or not _was_over(known, keeper):
            with _still_collector(), _after_the_batch(keeper):
                trainer.fit(module, ckpt_path=known, weights_only=False)
    best = module.evaluated
    best.load_state_dict(keeper.best)
    best.eval().requires_grad_(True)
    return Fitted(best, keeper.curve, keeper.best_epoch, keeper.best_loss, keeper.seconds)


def _was_over(checkpoint: Path, keeper: _Keeper) -> bool:
    """Whether the run had stopped by itself when it was cut off; if so, the keeper has it all."""
    callbacks = torch.load(checkpoint, weights_only=False)["callbacks"]
    keeper.load_state_dict(callbacks[keeper.state_key])
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

    for number in heard:
        signal.signal(number, note)
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
