"""The pages of results are what records and timings give."""

from __future__ import annotations

from tools.pages import tables
from tools.pages.__main__ import INSIDE
from tools.runs import RESULTS, kept_sets
from tools.timings import ratio_of
from vixformer import list_recipes, load_recipe
from vixformer.documents import DOCUMENTS


def test_pages_are_what_the_runs_give(made: dict[str, str]) -> None:
    """`make results` changes nothing: neither page nor record was edited by hand."""
    assert len(made) > 5
    for name, text in made.items():
        assert (RESULTS / name).read_text() == text, name
    about = (RESULTS.parent / "lens.md").read_text()
    for marker, inside in INSIDE.items():
        assert f"<!-- {marker} -->\n{inside()}\n<!-- end -->" in about, marker


def test_kept_runs_are_of_recipes_we_have() -> None:
    found = kept_sets()
    assert len(found) > 100
    assert set(found) <= set(list_recipes())
    for name, (kept, *_) in found.items():
        assert len({run.summary["seed"] for run in kept}) == len(kept), name
        assert all(len(run.history) == run.summary["epochs"] for run in kept), name


def test_the_page_of_hybrids_ranges_over_its_whole_tables(made: dict[str, str]) -> None:
    for data, rows in (("mnist", 40), ("cifar10", 48)):
        base, names = (
            f"hybrid/{data}/all-standard",
            [n for n in DOCUMENTS["hybrid"].printed if n.startswith(f"hybrid/{data}/")],
        )
        ratios = [ratio_of(tables.TIMES, name, base, "step") for name in names if name != base]
        found = [ratio.ratio for ratio in ratios if ratio is not None]
        assert len(found) == rows
        assert (
            f"takes {min(found):.2f} to {max(found):.2f} times that of `{base}` over all {rows} rows timed"
            in made["hybrid.md"]
        )


def test_recipes_of_documents_read_the_test_set_after_every_epoch() -> None:
    names = [name for found in DOCUMENTS.values() for name in found.printed if not name.startswith("hybrid/imagenet")]
    assert all(load_recipe(name).train.track_test for name in names)
