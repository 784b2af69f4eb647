"""Which settings are tried next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, TPESampler

from gad.training.batches import mix
from gad.tuning.storage import is_cut_off

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optuna.study import Study
    from optuna.trial import FrozenTrial, TrialState


class SeededTPE(BaseSampler):
    """Optuna's TPE, seeded anew for every trial by how many were there before it.

    So a search that is stopped and goes on tries the same as one that is not, and processes side by
    side do not try the same.
    """

    def __init__(self, seed: int) -> None:
        self._seed, self._number = seed, -1
        self._inner = TPESampler(seed=seed)

    def _of(self, study: Study, trial: FrozenTrial) -> TPESampler:
        if trial.number != self._number:
            others = study.get_trials(deepcopy=False)
            rank = sum(t.number < trial.number and not is_cut_off(t) for t in others)
            own = mix(self._seed, rank) & 0x7FFFFFFF
            self._inner, self._number = TPESampler(seed=own, constant_liar=True), trial.number
        return self._inner

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """As TPE does."""
        return self._of(study, trial).infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """As TPE does."""
        return self._of(study, trial).sample_relative(study, trial, search_space)

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """As TPE does."""
        inner = self._of(study, trial)
        return inner.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(
        self,
        study: Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """As TPE does."""
        self._of(study, trial).after_trial(study, trial, state, values)
