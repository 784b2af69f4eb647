"""What Lightning trains: the model with its loss, optimiser and schedule.

Several processes train as one would on their batches together: the loss is Σ loss / Σ weight over
all of them, every row counts once, and batch norm sees all nodes.
"""

# ruff: noqa: D102 - the hooks are Lightning's, and explained there

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import lightning as L
import torch
from torch import Tensor, distributed

from gad.data.store.molecules import Batch
from gad.nn import GAD, decay_groups
from gad.nn.model import frozen_parts, layer_rates
from gad.nn.norm import synchronise
from gad.settings.recipe import Recipe
from gad.settings.sections import TrainingSettings
from gad.training.batches import Batches, Examples, mix


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


class Learner(L.LightningModule):
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
        self.weightless = False
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
        checkpoint["processes"] = self.trainer.world_size

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.train_loss = list(checkpoint["train_loss"])
        self._plateau_state = checkpoint["plateau"]

    def on_fit_start(self) -> None:
        if self.plateau is not None and self._plateau_state is not None:
            self.plateau.load_state_dict(self._plateau_state)

    def training_step(self, batch: tuple[Batch, Tensor, Tensor], batch_idx: int) -> Tensor | None:
        molecules, targets, weights = batch
        if self.dropout:
            step = self.current_epoch, batch_idx, 1 + self.global_rank
            torch.manual_seed(mix(self.settings.seed, *step))
        world = self.trainer.world_size
        if world > 1:
            synchronise(self.model, float(targets.shape[0] > 0))
        outputs = self.model(**molecules.inputs())[: targets.shape[0]]
        loss, weight = self.task.losses(outputs, targets, weights)
        total, whole = self._over_all([float(loss.detach()), float(weight)])
        self.weightless = whole == 0
        if self.weightless:  # every process has to take its gradients back, even if they are 0
            return None if world == 1 else loss
        self.train_loss[0] += total
        self.train_loss[1] += whole
        # Gradients become the mean over the processes: world · loss / Σ weight is each one's part.
        mean = loss / (weight if world == 1 else whole / world)
        if not math.isfinite(total):
            raise FloatingPointError(
                f"the loss is not finite in epoch {self.current_epoch}: "
                "try a smaller learning_rate, or clip"
            )
        return mean

    def _over_all(self, values: list[float]) -> list[float]:
        """The sums over all processes."""
        if self.trainer.world_size == 1:
            return values
        own = torch.tensor(values, dtype=torch.float64, device=self.device)
        summed: list[float] = self.trainer.strategy.reduce(own, reduce_op="sum").tolist()
        return summed

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
        outputs = self.evaluated(**molecules.inputs())[: targets.shape[0]]
        loss, weight = self.task.losses(outputs, targets, weights)
        self.val_loss[0] += float(loss)
        self.val_loss[1] += float(weight)
        if self.judge is not None:
            self.val_outputs.append(outputs.detach())

    def on_validation_epoch_end(self) -> None:
        self.val_loss = self._over_all(self.val_loss)
        total, weight = self.val_loss
        self.log("val_loss", total / weight if weight else math.nan, logger=False)
        if self.judge is not None:
            self.log("val_metric", self._judged(self.judge), logger=False)

    def _judged(self, judge: Judge) -> float:
        """What the outputs of the validation rows, in their order, are worth."""
        shares = [self.val_outputs]
        if self.trainer.world_size > 1:  # every process had its share of every batch
            shares = [[] for _ in range(self.trainer.world_size)]
            distributed.all_gather_object(shares, [share.cpu() for share in self.val_outputs])
        outputs = torch.cat([share for batch in zip(*shares, strict=True) for share in batch])
        self.val_outputs.clear()
        return judge(outputs)

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
        share = rate(settings, max(1, len(self.train_dataloader())))
        schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, share)
        return {
            "optimizer": optimiser,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }

    def on_before_optimizer_step(self, optimizer: Any) -> None:
        settings = self.settings
        if self.weightless:  # nothing was learned: as without a gradient, nothing moves
            optimizer.zero_grad(set_to_none=True)
        if settings.clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip)
        if settings.schedule == "plateau" and self.current_epoch < settings.warmup:
            step = self.global_step + 1
            whole = settings.warmup * max(1, self.trainer.num_training_batches)
            for group in optimizer.param_groups:
                group["lr"] = settings.learning_rate * group["rate"] * min(1.0, step / whole)


def rate(settings: TrainingSettings, steps: int) -> Callable[[int], float]:
    """The learning rate of a step as a share of the highest: a rise, then a cosine or nothing."""
    rise, whole = settings.warmup * steps, settings.epochs * steps

    def share(step: int) -> float:
        if step < rise:
            return (step + 1) / rise
        if settings.schedule == "constant":
            return 1.0
        return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - rise) / max(1, whole - rise))))

    return share


def smoothed(losses: Iterable[float], decay: float) -> float:
    """The running average s ← decay · s + (1 − decay) · loss, from the first loss on.

    >>> smoothed([4.0, 2.0, 2.0], 0.5), smoothed([4.0, 2.0, 2.0], 0.0)
    (2.5, 2.0)
    """
    average = math.nan
    for loss in losses:
        average = loss if math.isnan(average) else decay * average + (1 - decay) * loss
    return average
