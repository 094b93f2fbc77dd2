"""Experiments in the background of other work: `python -m tools.lab plan`, `run --lanes 1`, `status` or `rerun`.

`plan` lists what is left, in the order of claims decided an hour. `run` trains it, one thread a lane, puts each
finished run into docs/results/records at once, pauses while `make test`, `make bench` or a timing runs, and ends when
nothing is left. Stop it at any moment; it resumes in the middle of an epoch. `status` says what is done. `rerun` trains
records that are drawn at random again, and exits with 1 where a number is not the same.
"""

from __future__ import annotations

import argparse
import signal
import time
from collections.abc import Sequence

from tools.lab.experiments import EXPERIMENTS
from tools.lab.jobs import Experiment, foreseen, known_records
from tools.lab.plan import Planned, plan
from tools.lab.rerun import rerun
from tools.lab.run import read_failed, run


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.lab", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("plan", help="what is left, and in which order")
    running = commands.add_parser("run", help="train what is left")
    running.add_argument("--lanes", type=int, default=1, choices=(1, 2), help="trainings at a time, each on one thread")
    running.add_argument(
        "--only", nargs="+", metavar="NAME", help="experiments, instead of all in the order of the plan"
    )
    commands.add_parser("status", help="what is done, and what failed")
    again = commands.add_parser("rerun", help="repeat records, and compare")
    again.add_argument("--count", type=int, default=3)
    again.add_argument("--seed", type=int, default=0, help="of the draw")
    options = parser.parse_args()
    if options.command == "plan":
        _print_plan(plan(EXPERIMENTS, known_records(), read_failed()))
    elif options.command == "status":
        _print_status()
    elif options.command == "rerun":
        raise SystemExit(_rerun(options.count, options.seed))
    else:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: trainings are stored
        try:
            run(
                _chosen(options.only),
                options.lanes,
                lambda line: print(f"{time.strftime('%H:%M:%S')} {line}", flush=True),
            )
        except KeyboardInterrupt:
            print("stopped; the same command resumes")
        except ValueError as error:  # such as data that are not there
            raise SystemExit(f"tools.lab: {error}") from None


def _rerun(count: int, seed: int) -> int:
    wrong = 0
    for again in rerun(known_records().values(), count, seed):
        record = again.record
        print(
            f"{record['name']}, seed {record['seed']} ({record['id']}): {'not ' * bool(again.differs)}the same",
            flush=True,
        )
        for key, (then, now) in again.differs.items():
            print(f"  {key}: {then}, now {now}")
        wrong += bool(again.differs)
    return min(wrong, 1)


def _chosen(names: Sequence[str] | None) -> list[Experiment]:
    if names is None:
        return [planned.experiment for planned in plan(EXPERIMENTS, known_records(), read_failed())]
    known = {experiment.name: experiment for experiment in EXPERIMENTS}
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"no experiment is called {', '.join(unknown)}; there are {', '.join(known)}")
    return [known[name] for name in names]


def _print_plan(left: Sequence[Planned]) -> None:
    print(f"{'experiment':24} {'runs left':>9} {'hours':>7} {'open claims':>11}")
    for p in left:
        print(f"{p.experiment.name:24} {p.runs - p.done:>9} {p.hours:>7.1f} {p.claims:>11}")
    print(f"{sum(p.hours for p in left):.0f} hours of one thread in all")


def _print_status() -> None:
    known, failed = known_records(), read_failed()
    for experiment in EXPERIMENTS:
        ids = [job.id for job in foreseen(experiment, known, failed)]
        lost = sum(id in failed for id in ids)
        print(
            f"{experiment.name:24} {sum(id in known for id in ids):>4} of {len(ids)} runs"
            + (f", {lost} failed" if lost else "")
        )
    for why in failed.values():
        print(why)


if __name__ == "__main__":
    main()
