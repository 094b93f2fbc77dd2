"""A study: trials of one recipe over a space, by as many workers as are started, each trial an ordinary run."""

from __future__ import annotations

import contextlib
import os
import socket
import statistics
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from vixformer.config import Recipe
from vixformer.experiments.search.plan import METRICS, Plan, fingerprint
from vixformer.experiments.search.space import Choice, Range
from vixformer.experiments.search.storage import (
    BEATS,
    Beating,
    close_storage,
    has_heartbeat,
    open_storage,
    patiently,
    undamaged,
)
from vixformer.jsonfile import Values
from vixformer.notes import want_of_memory
from vixformer.results.runs import SUMMARY, folder_of, read_run
from vixformer.training.lock import InUseError
from vixformer.training.loop import run as train
from vixformer.training.loop import with_parent
from vixformer.training.observer import Observer, Stopped
from vixformer.training.parts import Reader
from vixformer.writing import CannotWriteError

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.distributions import BaseDistribution
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial, TrialState

OPENING = 60.0
"""Seconds after which whoever began a study and did not finish that is taken for dead."""
WAIT = 2.0
"""Seconds between looks at what other workers do."""


@dataclass(frozen=True)
class Standing:
    """How far a study is."""

    done: int
    pruned: int
    running: int
    wanted: int
    best: tuple[float, ...] | None
    attention: str | None
    """Of the best."""


@dataclass(frozen=True)
class Found:
    number: int
    values: tuple[float, ...]
    params: Values
    attention: str
    folders: tuple[str, ...]


class Spectator:
    """What a caller may want to see while it runs. Does nothing."""

    def trial_begins(self, number: int, recipe: Recipe, standing: Standing) -> None: ...
    def epoch_done(self, number: int, record: Values) -> None: ...
    def trial_done(self, number: int, state: str, reason: str | None, standing: Standing) -> None: ...
    def waiting(self, standing: Standing) -> None: ...


def search(
    plan: Plan, out: Path, storage: str | None = None, heartbeat: int | None = None, spectator: Spectator | None = None
) -> list[Found]:
    """Join the study, or begin it, and work until all its trials are done. Returns the best, or the Pareto front of two
    objectives."""
    store = open_storage(storage, out, **({} if heartbeat is None else {"heartbeat": heartbeat}))
    try:
        study = opened(plan, store)
        _work(plan, study, store, out, spectator or Spectator())
        return patiently(lambda: found(study, plan))
    finally:
        close_storage(store)


def opened(plan: Plan, store: BaseStorage) -> Study:
    """The study, all of it read once, so that damage is found here and not on the way."""
    with undamaged(f'the storage of the study "{plan.name}"'):
        study = patiently(lambda: _joined(plan, store))
        patiently(lambda: _standing(study, plan))
    return study


def _work(plan: Plan, study: Study, store: BaseStorage, out: Path, watch: Spectator) -> None:
    read = Reader()
    digest = read.digest(plan.recipe.data)
    while True:
        standing = patiently(lambda: _tidied(study, plan))
        if standing.done + standing.pruned >= plan.wanted:
            return
        # a grid has none but its own
        full = plan.sampler == "grid" or standing.done + standing.pruned + standing.running >= plan.wanted
        if full and not patiently(lambda: _waiting(study)):
            if not has_heartbeat(store) or not standing.running:
                return  # nobody would know if the other workers died, or there are none
            watch.waiting(standing)
            time.sleep(WAIT)
            continue
        trial = patiently(lambda: _asked(study, plan))
        patiently(lambda trial=trial: trial.set_user_attr("worker", f"{socket.gethostname()}:{os.getpid()}"))
        if patiently(lambda trial=trial: _surplus(study, plan, trial)):
            patiently(lambda trial=trial: study.tell(trial, state=_states().FAIL))
            continue
        try:
            with Beating(store, trial._trial_id):
                state, values, reason = _tried(plan, study, trial, out, digest, read, watch)
        except KeyboardInterrupt:
            patiently(lambda trial=trial: _given_back(study, trial), seconds=10.0)
            raise
        # this worker was taken for dead, and another one resumes the trial from the last checkpoint
        except _taken_over():
            continue
        patiently(
            lambda trial=trial, values=values, state=state: study.tell(
                trial, values, state=state, skip_if_finished=True
            )
        )
        watch.trial_done(trial.number, state.name.lower(), reason, patiently(lambda: _standing(study, plan)))


def found(study: Study, plan: Plan) -> list[Found]:
    """The best trial, or the front."""
    complete = [t for t in study.get_trials(deepcopy=False) if t.state == _states().COMPLETE]
    if not complete:
        return []
    best = study.best_trials if plan.minimize else [study.best_trial]
    return [
        Found(
            t.number,
            tuple(t.values),
            dict(t.params),
            t.user_attrs.get("attention", ""),
            tuple(t.user_attrs.get("folders", ())),
        )
        for t in sorted(best, key=lambda t: t.values, reverse=METRICS[plan.metric][1] == "maximize")
    ]


def _taken_over() -> type[Exception]:
    import optuna

    return optuna.exceptions.UpdateFinishedTrialError


# --- one trial


def _tried(
    plan: Plan, study: Study, trial: Trial, out: Path, digest: str, read: Reader, watch: Spectator
) -> tuple[TrialState, list[float] | None, str | None]:
    """Its state, values and, where it has none, the reason."""
    states = _states()

    def pruned(reason: str) -> tuple[TrialState, None, str]:
        patiently(lambda: trial.set_user_attr("reason", reason))
        return states.PRUNED, None, reason

    try:
        recipe = plan.space.applied(plan.recipe, trial.params)
        recipe.build(read(recipe.data).test)
    except ValueError as error:
        return pruned(str(error))
    runs = [recipe] if plan.folds is None else [
        replace(recipe, data=replace(recipe.data, folds=plan.folds, fold=fold)) for fold in range(plan.folds)
    ]  # fmt: skip
    folders = [folder_of(out, plan.name, run, digest) for run in runs]
    patiently(lambda: trial.set_user_attr("folders", [str(folder) for folder in folders]))
    if (twin := patiently(lambda: _twin(study, trial, folders))) is not None:
        return pruned(f"the same as trial {twin}, which is running")
    watch.trial_begins(trial.number, recipe, patiently(lambda: _standing(study, plan)))
    summaries = []
    for i, (run, folder) in enumerate(zip(runs, folders, strict=True)):
        while not (folder / SUMMARY).exists():
            try:
                data = read(run.data)
                run = with_parent(run, data, out, lambda *_: Observer())
                train(
                    run,
                    folder,
                    resume=True,
                    observer=_Reporting(plan, trial, watch, first=i == 0),
                    name=plan.name,
                    data=data,
                )
            # a worker that was taken for dead and is only slow: it stops at its next epoch, or ends the run
            except InUseError:
                time.sleep(WAIT)
            except Stopped:
                return pruned(f"behind the others after epoch {len(read_run(folder).history())}")
            # a full disk says nothing about a trial: without this, it would end all that are left
            except CannotWriteError:
                raise
            except ValueError as error:
                return pruned(str(error))
            except (MemoryError, RuntimeError) as error:
                if want_of_memory(error) is None:
                    raise
                return pruned("it does not fit into memory")
        summaries.append(read_run(folder).summary or {})
    patiently(lambda: trial.set_user_attr("attention", summaries[0]["attention"]))
    keys = [METRICS[metric][0] for metric in plan.metrics]
    missing = [key for key in keys if any(summary.get(key) is None for summary in summaries)]
    if missing:
        return pruned(f"its runs have no {missing[0]}: train.measure or a validation part is off")
    return states.COMPLETE, [statistics.fmean(summary[key] for summary in summaries) for key in keys], None


class _Reporting(Observer):
    """Tells the study about every epoch of the first fold, and stops a run that the pruner gives up."""

    def __init__(self, plan: Plan, trial: Trial, watch: Spectator, first: bool) -> None:
        self.plan, self.trial, self.watch = plan, trial, watch
        self.reports = first and plan.minimize is None

    def epoch_done(self, record: Values) -> None:
        self.watch.epoch_done(self.trial.number, record)
        value = record.get(METRICS[self.plan.metric][0])
        if self.reports and value is not None:
            patiently(lambda: self.trial.report(value, record["epoch"]))
            if record["epoch"] < self.plan.recipe.train.epochs and patiently(self.trial.should_prune):
                raise Stopped


def _twin(study: Study, trial: Trial, folders: list[Path]) -> int | None:
    """An earlier trial that is at work on the same runs."""
    for t in study.get_trials(deepcopy=False, states=(_states().RUNNING,)):
        if t.number < trial.number and t.user_attrs.get("folders") == [str(folder) for folder in folders]:
            return t.number
    return None


# --- the study


def _joined(plan: Plan, store: BaseStorage) -> Study:
    import optuna

    facts = plan.facts()
    given: Values = dict(study_name=plan.name, storage=store, pruner=_pruner(plan))
    directions: list[Literal["maximize", "minimize"]] = [METRICS[metric][1] for metric in plan.metrics]
    first = list(_first_ones(plan))  # before there is a study: what is wrong with them shall not leave one behind
    try:
        with _quietly():
            study = optuna.create_study(**given, sampler=_sampler(plan, alone=True), directions=directions)
    except optuna.exceptions.DuplicatedStudyError:
        study = optuna.load_study(**given, sampler=_sampler(plan, alone=False))
        deadline = time.monotonic() + OPENING
        while not study.user_attrs and time.monotonic() < deadline:  # who began it is still filling it
            time.sleep(0.2)
    known = study.user_attrs
    if not known:
        for params in first:
            study.enqueue_trial(params, skip_if_exists=True)
        for name, value in facts.items():
            study.set_user_attr(name, value)
        return study
    # more of it may be wanted than before
    if plan.sampler == "grid" and all(known.get(name) == facts[name] for name in facts):
        there = [t.system_attrs.get("fixed_params", t.params) for t in study.get_trials(deepcopy=False)]
        for params in first:
            if params not in there:
                study.enqueue_trial(params)
    for name, what in (("recipe", "another recipe"), ("plan", "another space, sampler, metric or number of folds")):
        if known.get(name) not in (None, facts[name]):
            raise ValueError(
                f'there is a study called "{plan.name}" with {what}: give this one another name with --study'
            )
    return study


def _first_ones(plan: Plan) -> Iterator[Values]:
    """A grid whole; for a mechanism a layer, where the documents say to look: efficient layers first, exact ones
    last."""
    if plan.sampler == "grid":
        for number, params in enumerate(plan.space.grid(plan.depth)):
            if number == plan.wanted:
                return
            yield params
    elif plan.space.layers and "softmax" in plan.space.layers and not plan.space.varied and not plan.space.bundles:
        for attention in plan.space.layers:
            yield {f"layer{i}": attention if i < plan.depth // 2 else "softmax" for i in range(plan.depth)}


def _tidied(study: Study, plan: Plan) -> Standing:
    """Trials whose worker died go back to the queue."""
    import optuna

    with _quietly():
        optuna.storages.fail_stale_trials(study)
    store = study._storage
    if has_heartbeat(store):  # and those whose worker died before its first sign of life
        now, grace = datetime.now(), max(60, 4 * (store.get_heartbeat_interval() or 0))
        for t in study.get_trials(deepcopy=False, states=(_states().RUNNING,)):
            if (
                BEATS not in t.user_attrs
                and t.datetime_start is not None
                and (now - t.datetime_start).total_seconds() > grace
            ):
                with contextlib.suppress(ValueError, RuntimeError):  # another worker was quicker
                    _given_back(study, t)
    return _standing(study, plan)


def _given_back(study: Study, trial: Trial | FrozenTrial) -> None:
    """An interrupted trial, to whoever comes next; its run resumes from its checkpoint."""
    import optuna

    study.tell(trial.number, state=_states().FAIL)
    with _quietly():
        optuna.storages.RetryHeartbeatStaleTrialCallback()(study, study.get_trials(deepcopy=True)[trial.number])


def _standing(study: Study, plan: Plan) -> Standing:
    states = _states()
    trials = study.get_trials(deepcopy=False)
    counts = {
        state: sum(t.state == state for t in trials) for state in (states.COMPLETE, states.PRUNED, states.RUNNING)
    }
    best = found(study, plan)
    return Standing(
        counts[states.COMPLETE], counts[states.PRUNED], counts[states.RUNNING], plan.wanted,
        best[0].values if best else None, best[0].attention if best else None,
    )  # fmt: skip


def _waiting(study: Study) -> bool:
    return bool(study.get_trials(deepcopy=False, states=(_states().WAITING,)))


def _surplus(study: Study, plan: Plan, trial: Trial) -> bool:
    """Two workers may both have seen room for one more; the later one gives way. A grid has no trials but its own."""
    states = _states()
    alive = (states.COMPLETE, states.PRUNED, states.RUNNING, states.WAITING)
    trials = study.get_trials(deepcopy=False)
    mine = next(t for t in trials if t.number == trial.number)
    if plan.sampler == "grid" and not ({"fixed_params", "failed_trial"} & mine.system_attrs.keys()):
        return True
    return sum(t.state in alive and t.number < trial.number for t in trials) >= plan.wanted


def _asked(study: Study, plan: Plan) -> Trial:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Heartbeat of storage is supposed")  # `Beating` sends them
        return study.ask(_distributions(plan))


def _distributions(plan: Plan) -> Values:
    import optuna

    kinds = optuna.distributions

    def one(domain: Choice | Range) -> BaseDistribution:
        if isinstance(domain, Choice):
            return kinds.CategoricalDistribution(domain.values)
        if domain.whole:
            return kinds.IntDistribution(int(domain.low), int(domain.high), log=domain.log)
        return kinds.FloatDistribution(domain.low, domain.high, log=domain.log)

    return {name: one(domain) for name, domain in plan.space.variables(plan.depth).items()}


def _sampler(plan: Plan, alone: bool) -> BaseSampler:
    """Who begins a study draws from its seed. Who joins it draws from another: the same one would have them all try the
    same."""
    import optuna

    seed = plan.seed if alone else int(fingerprint(f"{plan.seed} {socket.gethostname()} {os.getpid()}")[:8], 16)
    if plan.sampler == "tpe":
        with _quietly():
            return optuna.samplers.TPESampler(seed=seed, constant_liar=True)
    return optuna.samplers.RandomSampler(seed=seed)


def _pruner(plan: Plan) -> BasePruner:
    import optuna

    epochs = plan.recipe.train.epochs
    if plan.pruner == "median":
        return optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=max(1, epochs // 5))
    return (
        optuna.pruners.HyperbandPruner(min_resource=1, max_resource=epochs)
        if plan.pruner == "hyperband"
        else optuna.pruners.NopPruner()
    )


def _states() -> type[TrialState]:
    from optuna.trial import TrialState

    return TrialState


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Without optuna's words on what it calls experimental."""
    import optuna

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield


def described(params: Values) -> str:
    return ", ".join(
        f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}" for name, value in params.items()
    )
