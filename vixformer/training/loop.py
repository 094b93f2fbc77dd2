"""The loop: a recipe in, a trained and honestly measured model out."""

from __future__ import annotations

import contextlib
import copy
import json
import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_model
from torch import Tensor, nn

from vixformer import ops
from vixformer.attention.base import redraw, shrink
from vixformer.backbones.backbone import BEST, WEIGHTS_FILE, Backbone, from_pretrained
from vixformer.config import Recipe, recipe_from_dict
from vixformer.conversion.parent import parent_model, parent_of, parent_run
from vixformer.conversion.reduce import reduced
from vixformer.conversion.start import TEACHING, Start, check_start, start
from vixformer.data.dataset import Whole, are_numbers, is_right
from vixformer.data.loader import Loader
from vixformer.data.preprocess import Preprocessing
from vixformer.jsonfile import Values
from vixformer.measure import footprint
from vixformer.measure.accuracy import VIEWS, Scores, evaluate
from vixformer.measure.load import Sample
from vixformer.measure.machine import kernel_calls, machine
from vixformer.notes import note
from vixformer.results.runs import HISTORY, LAST, RECIPE, SUMMARY
from vixformer.training.allocator import keep_freed_memory
from vixformer.training.group import Alone, Group, is_of_the_group, process_device, whole
from vixformer.training.lock import locked
from vixformer.training.loggers import make_loggers, side_by_side
from vixformer.training.losses import loss_of
from vixformer.training.observer import Interrupt, NotFiniteError, Observer, Stopped, first_not_finite
from vixformer.training.optim import Average, learning_rate, make_optimizer, set_rate
from vixformer.training.parts import load_parts, pick_device
from vixformer.training.state import State
from vixformer.training.summary import prefixed, summarize
from vixformer.writing import CannotWriteError, write_json, write_text

CHECKPOINT_SECONDS = 60.0
MOST_RETREATS = 5
AVERAGE = "ema"
"""Folder of the best averaged weights, in the folder of a run."""


@dataclass(frozen=True)
class Result:
    """Facts about a finished run."""

    recipe: Recipe
    summary: Values
    history: list[Values]
    model: Any

    @property
    def test_top1(self) -> float:
        return self.summary["test_top1"]

    @property
    def val_top1(self) -> float:
        return self.summary["val_top1"]


def train(
    recipe: Recipe, out: str | Path | None = None, *, resume: bool = False, observer: Observer | None = None
) -> Result:
    """Train, and choose the epoch on the validation part; the test set is read at the end and chooses nothing. With
    `out`, a run folder that can be resumed."""
    recipe = recipe_from_dict(recipe.to_dict(), "the recipe")  # dataclasses.replace checks nothing
    folder = None if out is None else Path(out)
    if parent_of(recipe) is None:
        return run(recipe, folder, resume=resume, observer=observer)
    data = recipe.data.source().whole()
    with tempfile.TemporaryDirectory() as nowhere:
        place = Path(nowhere) if folder is None else folder.parent
        recipe = with_parent(recipe, data, place, lambda *_: observer or Observer())
        return run(recipe, folder, resume=resume, observer=observer, data=data)


def with_parent(recipe: Recipe, data: Whole, out: Path, observer: Callable[[str, Recipe], Observer]) -> Recipe:
    """A recipe that starts from another one gets the folder of that one's run under `out`, which is trained where it is
    not there."""
    found = parent_run(recipe, out, data.digest)
    if found is None:
        return recipe
    if not (found.folder / SUMMARY).exists():
        parent = with_parent(found.recipe, data, out, observer)
        run(parent, found.folder, resume=True, observer=observer(found.name, parent), name=found.name, data=data)
    return found.started(recipe)


def run(
    recipe: Recipe,
    folder: Path | None,
    *,
    resume: bool = False,
    observer: Observer | None = None,
    name: str | None = None,
    data: Whole | None = None,
    given: Backbone | None = None,
    seconds: float | None = None,
) -> Result:
    """`train` for a recipe called `name` that was checked, and whose parent is in its folder. `data` is the data set
    where it was read before, `given` the model that `train.weights` names where it was loaded before. After `seconds`
    training ends, however many epochs are left; the learning rate has fallen by then."""
    keep_freed_memory()
    with contextlib.ExitStack() as held:
        return _Run(recipe, folder, observer or Observer(), resume, held, name, data, given, seconds).finish()


class _Run:
    def __init__(
        self,
        recipe: Recipe,
        folder: Path | None,
        observer: Observer,
        resume: bool,
        held: contextlib.ExitStack,
        name: str | None,
        data: Whole | None,
        given: Backbone | None,
        seconds: float | None,
    ) -> None:
        """`held` gets the lock of the run folder."""
        self.began, self.limit = time.perf_counter(), seconds
        self.recipe, self.folder, self.observer, self.interrupt = recipe, folder, observer, Interrupt()
        self.calls = kernel_calls()
        self.device = process_device(pick_device(recipe.train.device))
        self.group = Group(self.device, recipe.train.shard)
        if not self.group.writes:
            self.observer = Observer()
        self.parts = load_parts(recipe, self.device, data)
        self.precision: torch.dtype = getattr(torch, recipe.train.precision)
        self.monitor = recipe.train.monitor if self.parts.target is None else "val_loss"
        self.loss = loss_of(recipe.train, self.parts.train.images.labels, self.parts.classes, self.device)
        unlocked = folder if self.group.writes else None
        if unlocked is not None and unlocked.is_dir():  # before anything in it is read
            held.enter_context(locked(unlocked))
            unlocked = None
        last = None if folder is None or not resume or not (folder / LAST).exists() else folder / LAST
        given = None if last is not None else given or parent_model(recipe)
        torch.manual_seed(recipe.train.seed)
        fresh = recipe.build(self.parts.test.images).to(self.device)
        if given is not None:
            check_start(fresh, given, recipe)
        if folder is not None and self.group.writes:  # from here on nothing is wrong with what was asked for
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ValueError(
                    f"cannot write to {folder}: {error.strerror}; choose another folder with --out"
                ) from None
            if unlocked is not None:
                held.enter_context(locked(unlocked))
            write_text(folder / RECIPE, recipe.to_json(name))
        seeds = torch.Generator().manual_seed(recipe.train.seed)
        order, augment, features = (
            torch.Generator().manual_seed(int(torch.randint(2**40, (), generator=seeds))) for _ in range(3)
        )
        begun = Start(fresh, None) if given is None else self._begun(fresh, given.to(self.device))
        if begun.note is not None:
            self.observer.begins_with(begun.note)
        if recipe.train.checkpoint:
            begun.model.set_grad_checkpointing()
        scaler = torch.amp.GradScaler(self.device.type, enabled=recipe.train.precision == "float16")
        wrapped = self.group.wrapped(begun.model)
        optimizer = make_optimizer(begun.model, recipe.train)
        self.state = State(begun.model, optimizer, scaler, order, augment, features, conversion=begun.conversion)
        self.forward: Callable[[Tensor], Tensor] = ops.compiled(wrapped) if recipe.train.compile else wrapped
        if recipe.train.ema:
            self.state.average = Average(begun.model, recipe.train.ema)
        self.kept: dict[str, dict[str, Tensor]] = {}
        """Where there is no folder: the best weights, and the best averaged ones."""
        self.retreats = 0
        self.snapshot: Any = None
        if last is not None:
            self.state.load(last, None if self.parts.val is None else self.monitor)
        elif begun.conversion is not None:
            self._keep_best()
            self._save()  # teaching may have taken minutes
            if folder is not None and self.group.alone:
                (folder / TEACHING).unlink(missing_ok=True)
        if not self.group.writes:
            torch.manual_seed(torch.initial_seed() + self.group.rank)  # dropout is not the same everywhere
        if recipe.train.loggers and folder is None:
            raise ValueError("train.loggers need a run folder to write to: give out")
        self.loggers = [] if folder is None or not self.group.writes else make_loggers(self._resolved(), folder)
        if self.loggers and last is None:
            picture = side_by_side(self.parts.train, recipe.train.seed)
            for logger in self.loggers:
                logger.images(picture)

    # --- the path of a run

    def _resolved(self) -> Recipe:
        """The recipe with the sizes that the data set gave its model, and its statistics."""
        loader = self.parts.train
        data = replace(self.recipe.data, mean=loader.mean, std=loader.std)
        return replace(self.recipe, data=data, model=self.state.model.config)

    def _begun(self, fresh: Backbone, given: Backbone) -> Start:
        def judge(candidate: nn.Module) -> dict[str, float]:
            loaders = {"val": self.parts.val, "test": self.parts.test}
            scores = {name: self._evaluate(loader, candidate) for name, loader in loaders.items() if loader is not None}
            return {key: value for name, score in scores.items() for key, value in prefixed(name, score).items()}

        def taught(steps: int, step: int, error: float) -> None:
            self.observer.taught(step + 1, steps, error)
            if self.interrupt.asked:
                raise KeyboardInterrupt

        # several would write over each other
        keep = self.folder / TEACHING if self.folder is not None and self.group.alone else None
        with self.interrupt:
            begun = start(fresh, given, self.recipe, self.parts.train, judge, taught, keep)
        if self.interrupt.asked:
            raise KeyboardInterrupt
        return replace(begun, model=begun.model.to(self.device))

    def finish(self) -> Result:
        sample = Sample()
        with self.interrupt:
            self._all_epochs()
        if self.group.any(self.interrupt.asked):  # while the last epoch was validated: it is saved
            raise KeyboardInterrupt
        self.load = sample.since() if self.group.alone else None  # processes of a group would count each other
        self.state.model = self._plain()
        group, self.group = self.group, Alone()  # the first process measures, the others wait
        # it holds on to the group, whose threads would otherwise end with it: under a lock that they may wait for
        del self.forward
        result = (
            self._measured(group.alone)
            if group.writes
            else Result(self.recipe, {}, self.state.history, self.state.model.eval())
        )
        group.wait()
        return result

    def _all_epochs(self) -> None:
        train, state = self.recipe.train, self.state
        if train.epochs == 0 and state.conversion is None:
            self._keep_best()
        while state.epoch < train.epochs and not self._patience_is_over():
            if state.epoch and self._progress(0) >= train.epochs:
                break
            try:
                self._epoch()
            except NotFiniteError:
                self._go_back()
                continue
            except (KeyboardInterrupt, Stopped):
                if not self.interrupt.at_once:  # in the middle of a step nothing agrees
                    self._save()
                raise
            except RuntimeError as error:
                if self.group.alone or not is_of_the_group(error):
                    raise
                self._save()  # of the last whole step: this one has not changed anything
                raise ValueError(self.group.lost(error, self.folder)) from None
            self._save()

    def _epoch(self) -> None:
        train, state, loader = self.recipe.train, self.state, self.parts.train
        self.snapshot = (
            copy.deepcopy((state.model.state_dict(), state.optimizer.state_dict(), state.average))
            if train.on_nan == "back"
            else None
        )
        before = state.order.get_state()
        order = loader.order(state.order)
        state.order.set_state(before)  # until the epoch is over, so that a checkpoint inside it finds the same order
        self.observer.epoch_begins(state.epoch, len(loader))
        state.model.train()
        began = saved = time.perf_counter()
        for images, labels in loader.batches(order, state.augment, state.batch):
            if state.batch and state.batch % train.accumulate == 0 and self._progress(state.batch) >= train.epochs:
                break  # the time is over
            rate = state.rate_factor * learning_rate(train, self._progress(state.batch))
            loss = self._step(images, labels, rate)
            state.batch += 1
            self.observer.batch_done(state, loss)
            # gradients that wait for more batches are not in a checkpoint
            whole_step = state.batch % train.accumulate == 0
            due = self.folder is not None and whole_step and time.perf_counter() - saved > CHECKPOINT_SECONDS
            if due if not self.group.sharded else self.group.any(due):
                saved = time.perf_counter()
                state.seconds += saved - began
                began = saved
                self._save()
            if whole_step and self.group.any(self.interrupt.asked):
                state.seconds += time.perf_counter() - began
                raise KeyboardInterrupt
        state.seconds += time.perf_counter() - began
        loader.order(state.order)
        self._record()

    def _step(self, images: Tensor, labels: Tensor, rate: float) -> float:
        train, state = self.recipe.train, self.state
        set_rate(state.optimizer, rate)
        count = len(labels)
        images, labels = self.group.share(images, labels)
        with torch.autocast(self.device.type, dtype=self.precision, enabled=self.precision != torch.float32):
            scores = self.forward(images)
        scores = scores.float()
        loss = self.loss(scores, labels)
        weight = self.group.weight(count)
        loss = loss * weight
        right = float(is_right(scores.argmax(1), labels).sum()) if weight and not are_numbers(labels) else 0.0
        value, hits = self.group.sums(loss.item() / self.group.size, right)
        if not math.isfinite(value):
            self._complain(images, rate, value)
        state.scaler.scale(loss / train.accumulate).backward()
        state.sums["loss"] += value * count
        state.sums["hits"] += hits
        state.sums["images"] += count
        if (state.batch + 1) % train.accumulate == 0 or state.batch + 1 == len(self.parts.train):
            if train.clip is not None:
                state.scaler.unscale_(state.optimizer)
                nn.utils.clip_grad_norm_(state.model.parameters(), train.clip)
            state.scaler.step(state.optimizer)
            state.scaler.update()
            state.optimizer.zero_grad(set_to_none=True)
            state.steps += 1
            shrink(state.model, rate)
            if self._redraws():
                redraw(state.model, state.redraw)
            if state.average is not None:
                state.average.update(state.model, state.steps)
        return value

    def _progress(self, batch: int) -> float:
        """Epochs into training before this batch; where the time is limited and shorter than planned, as far as the
        time is."""
        done = self.state.epoch + batch / len(self.parts.train)
        if self.limit is None:
            return done
        return max(done, self.recipe.train.epochs * (time.perf_counter() - self.began) / self.limit)

    def _redraws(self) -> bool:
        """Every `redraw_every` steps, if as many steps are left: new features near the end would undo what was
        learned."""
        train, every = self.recipe.train, self.recipe.train.redraw_every
        total = train.epochs * -(-len(self.parts.train) // train.accumulate)
        return every is not None and self.state.steps % every == 0 and total - self.state.steps >= every

    def _record(self) -> None:
        """The epoch is over: validate, write it down, keep the best."""
        train, state = self.recipe.train, self.state
        sums = state.sums
        record: Values = {
            "epoch": state.epoch + 1,
            "lr": state.rate_factor * learning_rate(train, self._progress(state.batch - 1)),
            "train_loss": sums["loss"] / sums["images"],
            **({} if self.parts.target else {"train_top1": 100 * sums["hits"] / sums["images"]}),
            "seconds": state.seconds,
        }
        began = time.perf_counter()
        if self.parts.val is not None:
            record |= prefixed("val", self._evaluate(self.parts.val))
            if state.average is not None:
                with state.average.in_place_of(state.model):
                    record |= prefixed("ema_val", self._evaluate(self.parts.val))
        if train.track_test:
            record |= prefixed("test", self._evaluate(self.parts.test))
        record["evaluation_seconds"] = time.perf_counter() - began
        # learned scalars of a mechanism
        record |= {name: whole(p).item() for name, p in state.model.named_parameters() if p.numel() == 1}
        state.history.append(record)
        if self._best_epoch() == len(state.history) - 1:
            self._keep_best()
        if state.average is not None and self._best_epoch("ema_") == len(state.history) - 1:
            with state.average.in_place_of(state.model):
                self._keep(state.model, AVERAGE)
        state.epoch, state.batch, state.seconds = state.epoch + 1, 0, 0.0
        state.sums = dict.fromkeys(sums, 0.0)
        for logger in self.loggers:
            logger.epoch(state.history)
        self.observer.epoch_done(record)

    def _measured(self, alone: bool) -> Result:
        """`alone` says whether the run had one process."""
        state, history = self.state, self.state.history
        best_model = self._best_model(alone, BEST, state.model)
        state.model = reduced(best_model)
        if state.model is not best_model:
            self._keep_best()
        began = time.perf_counter()
        scores = self._evaluate(self.parts.test)
        test_seconds = time.perf_counter() - began
        best = self._best_epoch() + 1
        chosen = history[best - 1] if best else self._beginning()
        summary = summarize(self.recipe, self.parts, state, scores, {"best_epoch": best, **chosen})
        summary |= self._labelled(alone, best_model)
        summary |= {"test_seconds": test_seconds, **self._costs(), "machine": machine(self.device, self.calls)}
        if self.load is not None:
            summary |= {"train_others": self.load.others, "train_cores": self.load.cores}
        if self.folder is not None:
            write_json(self.folder / SUMMARY, summary)
        for logger in self.loggers:
            logger.finish(summary)
        return Result(self.recipe, summary, history, state.model.eval())

    # --- its parts

    def _labelled(self, alone: bool, like: Backbone) -> Values:
        """Numbers of the test set beside the one that counts: of the averaged weights, which fit a model `like` this
        one, and of several views."""
        train, found = self.recipe.train, {}
        if train.ema and self.state.history:
            model = self._best_model(alone, AVERAGE, copy.deepcopy(like))
            found = {
                "ema_best_epoch": self._best_epoch("ema_") + 1,
                **prefixed("ema_test", self._evaluate(self.parts.test, model)),
            }
        if train.tta is not None:
            scores = evaluate(self.state.model, self.parts.test, self.precision, VIEWS[train.tta])
            found |= {"tta": train.tta, **prefixed("tta_test", scores)}
        return found

    def _costs(self) -> Values:
        """A measurement that fails is left out, with a note, so that no finished training is lost."""
        model, train = self.state.model.eval(), self.recipe.train
        measures: dict[str, Callable[[], Values]] = {"costs": lambda: footprint.counted(model)}
        if train.measure:
            measures["inference time"] = lambda: footprint.timed(
                model, next(self.parts.test.plain())[0], self.precision
            )
            measures["peak memory"] = lambda: footprint.peaks(
                model, train.batch_size, train.precision, train.checkpoint
            )
        found = footprint.sizes(model)
        for what, measure in measures.items():
            try:
                found |= measure()
            except Exception as error:
                note(f"{what} could not be measured and is left out of the summary: {error or repr(error)}")
        return found

    def _evaluate(self, loader: Loader, model: nn.Module | None = None) -> Scores:
        model = model or self.state.model
        # processes that have parts of the weights go in step, through all of it
        if self.group.alone or self.group.sharded:
            return evaluate(model, loader, self.precision)
        (mine,) = self.group.share(torch.arange(len(loader.images)))
        return self.group.scores(evaluate(model, replace(loader, images=loader.images.take(mine)), self.precision))

    def _best_epoch(self, whose: str = "") -> int:
        """By the validation part; the last one where there is none; -1 where what was started from was better than all
        that came. `whose` is "ema_" for the averaged weights."""
        history, monitor = self.state.history, self.monitor
        if self.parts.val is None:
            return len(history) - 1
        best = max if monitor == "val_top1" else min  # the earlier of two that are equal
        values = {i: record[whose + monitor] for i, record in enumerate(history)}
        if not whose and (self.state.conversion is not None or not history):
            values = {-1: self._beginning()[monitor], **values}
        return best(values, key=lambda i: values[i])

    def _beginning(self) -> Values:
        """How good the model was before its first epoch, where it did not start from nothing."""
        if self.state.conversion is not None:
            return self.state.conversion["stages"][-1]
        return {} if self.parts.val is None else prefixed("val", self._evaluate(self.parts.val))

    def _patience_is_over(self) -> bool:
        patience = self.recipe.train.patience
        return (
            patience is not None
            and bool(self.state.history)
            and len(self.state.history) - 1 - self._best_epoch() >= patience
        )

    def _keep_best(self) -> None:
        self._keep(self._plain(), BEST)

    def _keep(self, model: Backbone, name: str) -> None:
        if self.folder is None:
            self.kept[name] = copy.deepcopy(model.state_dict())
        elif self.group.writes:
            try:
                model.save_pretrained(self.folder / name)
                Preprocessing.of(self.parts.train).save(self.folder / name)
            except CannotWriteError as error:
                last = self.folder / LAST
                raise CannotWriteError(
                    f"{error}" + (f"; the checkpoint {last} is kept" if last.exists() else "")
                ) from None

    def _plain(self) -> Backbone:
        """The model with all of its weights here."""
        model = self.state.model
        if not self.group.sharded:
            return model
        weights = {name: whole(t) for name, t in model.state_dict().items()}
        plain = self.recipe.build(self.parts.test.images).to(self.device)
        plain.load_state_dict(weights)
        return plain

    def _best_model(self, alone: bool, name: str, model: Backbone) -> Backbone:
        """What was stored under this name, in this model if it fits."""
        if self.folder is None:
            model.load_state_dict(self.kept[name])
            return model
        if alone:
            # it was reduced before an interruption, or is damaged
            with contextlib.suppress(OSError, RuntimeError, SafetensorError):
                load_model(model, self.folder / name / WEIGHTS_FILE)
                return model
        return from_pretrained(self.folder / name).to(self.device)

    def _save(self) -> None:
        if self.folder is None or not (self.group.writes or self.group.sharded):
            return
        self.state.save(self.folder / LAST, self.group.writes)
        if self.group.writes:
            write_text(self.folder / HISTORY, "".join(json.dumps(record) + "\n" for record in self.state.history))

    def _complain(self, images: Tensor, rate: float, loss: float) -> None:
        state = self.state
        norm = float(sum(p.grad.float().square().sum() for p in state.model.parameters() if p.grad is not None)) ** 0.5
        raise NotFiniteError(
            f"the loss became {loss} in epoch {state.epoch + 1}, batch {state.batch + 1}, at the rate {rate:.3g}, "
            f"gradient norm {norm:.3g}; "
            f"first in {first_not_finite(state.model, images)}"
            + (f"; the last good checkpoint is {self.folder / LAST}" if self.folder else "")
            + f"; a smaller train.lr{'' if self.recipe.train.on_nan == 'back' else ', train.on_nan=back'} or train.clip"
            " may help"
        )

    def _go_back(self) -> None:
        """To the beginning of the epoch, with half the rate; or give up."""
        self.retreats += 1
        if self.recipe.train.on_nan == "stop" or self.retreats > MOST_RETREATS:
            raise
        model, optimizer, self.state.average = self.snapshot
        self.state.model.load_state_dict(model)
        self.state.optimizer.load_state_dict(optimizer)
        self.state.optimizer.zero_grad(set_to_none=True)
        self.state.batch, self.state.sums = 0, dict.fromkeys(self.state.sums, 0.0)
        self.state.rate_factor /= 2
