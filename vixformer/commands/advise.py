"""Recommend an attention for your images and your machine: accuracy from the atlas, time and memory measured here."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace

from rich.console import Console

from vixformer.commands.flags import ModelFolder, left_out
from vixformer.measure.advise import Advice, check, mixers
from vixformer.measure.advise import advise as ask
from vixformer.measure.bench import Measured
from vixformer.measure.latency import processor_time
from vixformer.measure.question import Question, with_sizes_of_model
from vixformer.measure.weigh import same_accuracy
from vixformer.options import as_typed, only, words
from vixformer.registry import checked
from vixformer.tables import Columns, say, say_next, table
from vixformer.terminal import megabytes

BESIDE = (
    "Other work is running, so the times are those that one thread computed, without waiting. Ratios hold; on an idle"
    " machine, milliseconds may be fewer."
)
RUNTIMES = ("eager", "compiled", "onnxruntime")


@dataclass(frozen=True, kw_only=True)
class Options(Columns, Question):
    name: ModelFolder | None = words(None)
    """Run, folder of a model, timm:NAME or hf:FOLDER whose attention you may replace; gives the sizes. Left out: the
    terminal asks up to six questions, unless options answer them."""
    infer: bool = False
    """Time inference, which is the default."""
    scratch: bool = False
    """You would train from scratch, which is the default without a model."""
    why: bool = False
    """List all timings, and the records behind every number."""
    json: bool = False
    """Print the answer and all timings as JSON."""
    line: str = as_typed()


def run(options: Options) -> None:
    from vixformer.measure.load import watched

    for one, other in (("train", "infer"), ("trained", "scratch")):
        if getattr(options, one) and getattr(options, other):
            raise ValueError(f"--{one} or --{other}, not both: leave one out")
    if options.name is not None and options.model is not None:
        raise ValueError(f"{options.name} and --model {options.model} both name a model: leave one out")
    question = only(Question, options)
    if options.name is not None:
        question = replace(question, model=options.name, trained=not options.scratch)
    elif sys.stdin.isatty() and not options.json and not options.csv:
        question = asked(question, options.line.split())
    question = with_sizes_of_model(question)
    check(question)
    with Console(stderr=True).status("measuring") as status, watched() as timing:
        beside = timing.threads == 1 and timing.load.disturbs(1)
        with processor_time() if beside else nullcontext():
            found = ask(question, lambda text: status.update(text))
    told = BESIDE if beside else timing.told(m.time for m in (*found.layers, *found.models))
    if options.json:
        facts = {"question": asdict(question), "tokens": question.sequence, **asdict(found), **timing.to_dict()}
        print(json.dumps(facts, indent=2))
        return
    if pixels := left_out(question.image, question.patch):
        say(f"Note: {pixels}.")
    _answer(question, found)
    say(told)
    _table(question, found)
    if options.why:
        _why(question, found)
    else:
        say("--why lists all timings, and the records behind every number.")
    say_next(_command(question, found.attention))


def asked(question: Question, given: list[str], answer: Callable[[str], str] = input) -> Question:
    """What flags leave open, from the terminal. An empty answer takes what stands in brackets."""

    def told(text: str, default: str) -> str:
        try:
            return answer(f"{text} [{default}]: ").strip() or default
        except EOFError:
            return default

    def missing(*flags: str) -> bool:
        return not any(word.partition("=")[0] in flags for word in given)

    changes: dict[str, object] = {}
    if question.model is None and missing("--image", "--tokens"):
        changes["image"] = _number(told("Side of your images in pixels", str(question.image)), "a side in pixels")
        if missing("--patch"):
            changes["patch"] = _number(told("Side of a patch in pixels", str(question.patch)), "a side in pixels")
    if missing("--batch"):
        changes["batch"] = _number(told("Images in a batch", str(question.batch)), "a number of images")
    if missing("--train", "--infer"):
        changes["train"] = _choice(told("What should be fast: infer or train", "infer"), ("infer", "train")) == "train"
    if missing("--runtime"):
        changes["runtime"] = _choice(told(f"What runs it: {', '.join(RUNTIMES)}", "eager"), RUNTIMES)
    if missing("--trained", "--scratch"):
        said = _choice(told("Do you have a trained model with exact attention, yes or no", "no"), ("yes", "no"))
        changes["trained"] = said == "yes"
    return checked(Question, vars(question) | changes, "advise")


def _number(text: str, what: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 2**31:
        raise ValueError(f"{what} is a whole number above 0, not {text}")
    return int(text)


def _choice(text: str, choices: tuple[str, ...]) -> str:
    """From its first letters."""
    found = [choice for choice in choices if choice.startswith(text.lower())]
    if len(found) != 1:
        raise ValueError(f"the answer is {' or '.join(choices)}, not {text}")
    return found[0]


def _answer(question: Question, found: Advice) -> None:
    """The recommendation, its reason, and what would change it."""
    if not found.fits:
        say("No measured model stays within the given limits; this one is the nearest.")
    say(f'Use --attention "{found.attention}". {found.reason}')
    known = dict(found.known)
    weighed = found.weighed
    rival = found.attention if found.attention != "softmax" or weighed is None or not weighed.others else ""
    shown = rival or (weighed.others[0].attention if weighed and weighed.others else "")
    if shown in known:
        say(
            f"Accuracy is from the nearest conditions in the atlas: {known[shown].conditions}. You have"
            f" {question.patches:,} tokens; your images may differ."
        )
    elif found.attention != "softmax":
        say(
            f"The atlas has no accuracy for {found.attention}: vix convert --choose measures it on a trained model, and"
            " docs/results has all accuracies that we measured."
        )
    if len(found.peaks) == 2:
        (_, exact), (name, other) = found.peaks
        say(f"Peak memory: {megabytes(other)} with {name}, {megabytes(exact)} with exact attention, measured once.")
    if found.ties:
        say(f"A tie, within the measurement error: {', '.join((found.attention, *found.ties))}.")
    if weighed is None:
        return
    if not weighed.clear:
        say("These times do not decide whether another attention is better: measure again, or give --seconds 90.")
    alike = [one.attention for one in weighed.others if one.known and same_accuracy(one, weighed.best)]
    if alike and weighed.best.known:
        say(f"The records do not show that its accuracy differs from that of {', '.join(alike)}.")
    if nexts := [f"{one.attention} ({_short(one.known, one.ratio)})" for one in weighed.others[:2]]:
        say(f"Next best: {'; '.join(nexts)}.")
    for turn, one in weighed.changes:
        more = one.doublings < weighed.best.doublings
        say(
            f"If half the time is worth {'more' if more else 'less'} than {turn:.1f} points of accuracy to you, take"
            f" {one.attention} (--worth is {question.worth:g} now)."
        )
    unknown = [m for m in found.models if m.attention not in known and m.ratio is not None and m.ratio.high < 1]
    for m in unknown:
        say(f"{m.attention} takes {m.ratio} of the time of exact attention, but the atlas has no accuracy for it.")


def _short(known: object, ratio: object) -> str:
    return "exact attention" if known is None else f"{known} points, {ratio} of the time"


def _table(question: Question, found: Advice) -> None:
    known, memory = dict(found.known), question.memory is not None

    def cells(m: Measured) -> tuple[str, ...]:
        peak = () if not memory else ("" if m.peak is None else megabytes(m.peak),)
        points = "0" if m.attention == "softmax" else str(known.get(m.attention, "unknown"))
        return (m.attention, points, f"{m.time.median:.1f}", f"{m.time.min:.1f}", str(m.ratio or "1.00"), *peak)

    columns = ("attention", "points", "median ms", "least ms", "x exact", *(("peak",) if memory else ()))
    table(columns, [cells(m) for m in found.models], ("least ms", "peak"), "models")
    if found.timed_batch < question.batch:
        say(f"Timed with batches of {found.timed_batch} to answer soon; times are scaled to {question.batch} images.")


def _why(question: Question, found: Advice) -> None:
    say(f"One attention layer at {question.sequence} tokens, in eager PyTorch:")
    rows = [(m.attention, f"{m.time.median:.2f}", f"{m.time.min:.2f}") for m in found.layers]
    table(("attention", "median ms", "least ms"), rows, (), "layers")
    say(
        f"Not timed: {' and '.join(mixers())}. They have no queries and keys, so they cannot replace attention in a"
        " trained model; vix bench model times them."
    )
    for attention, one in found.known:
        for row in one.rows:
            say(
                f"{attention}: {row.points:+.2f} ({row.low:+.2f} to {row.high:+.2f}, {row.verdict}) in {row.setting},"
                f" {row.attention}, {row.epochs} epochs of {row.images:,} images; records {', '.join(row.records)}"
                f" against {', '.join(row.exact_records)}."
            )


def _command(question: Question, attention: str) -> str:
    """What tries it."""
    if question.trained:
        name = question.model or "RUN"
        return "vix bench model softmax" if attention == "softmax" else f'vix convert {name} --attention "{attention}"'
    return f'vix train quick/exact --model.attention "{attention}" --data FOLDER'
