"""Which settings are tried next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optuna.samplers import TPESampler

from gad.training.batches import mix
from gad.tuning.storage import is_cut_off

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial


class SeededTPE(TPESampler):
    """Optuna's TPE, seeded anew for every trial by how many were there before it.

    So a search that is stopped and goes on tries the same as one that is not, and processes side by
    side do not try the same.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed=seed)
        self.seed = seed

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Begin again with the seed of this trial."""
        others = study.get_trials(deepcopy=False)
        rank = sum(t.number < trial.number and not is_cut_off(t) for t in others)
        super().__init__(seed=mix(self.seed, rank) & 0x7FFFFFFF, constant_liar=True)
