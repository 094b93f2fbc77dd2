"""`vix data`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vixformer.commands.flags import take
from vixformer.terminal import count, say, table


def data(args: Sequence[str]) -> None:
    from vixformer.data.dataset import DataSet, data_root
    from vixformer.terminal import download_bar

    words = list(args)
    root = data_root(take(words, "--root"))
    word = words[0] if words else "list"
    if word not in ("list", "get", "check") or (word != "list" and len(words) < 2):
        raise ValueError('write "vix data list", "vix data get NAME" or "vix data check NAME"')
    if word == "list" and len(words) > 1:
        raise ValueError(f'"vix data list" takes no name, but got {words[1]}: write "vix data check {words[1]}"')
    chosen = []
    for name in words[1:]:
        if name.startswith("-"):
            raise ValueError(f"vix data takes no option {name}, only --root")
        chosen.append(DataSet.member(name)(root))
    if word == "list":
        rows = []
        for name, cls in sorted(DataSet.members.items()):
            rows.append((name, "yes" if cls(root).here() else "no", cls.about, " + ".join(count(n) for n in cls.counts.values())))
        table(("data set", "here", "what it is", "train + test"), rows)
        say(f"Files under {root}.")
    for source in chosen:
        if word == "get":
            with download_bar() as progress:
                from vixformer.data.download import get

                get(source, progress)
        say(_checked(source))


def _checked(source: Any) -> str:
    """What reading the whole set shows."""
    from vixformer.data.dataset import content_digest

    found = {}
    whole = True
    for part in ("train", "test"):
        images = source.read(part)
        found[part] = len(images)
        complete = len(images) == source.counts.get(part, len(images))
        whole &= complete
        if complete and part in source.digests and content_digest(images) != source.digests[part]:
            raise ValueError(f"{source.name}: the {part} part has the right number of images but not the right ones: get it again")
    says = "whole" if whole else f"a subset of {' + '.join(count(n) for n in source.counts.values())}"
    compared = " and every pixel and label as published" if whole and source.digests else ""
    return f"{source.name}: {count(found['train'])} + {count(found['test'])} images, {says}{compared}"
