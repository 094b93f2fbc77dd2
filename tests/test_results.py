"""The pages of results say what the runs beside them say."""

from __future__ import annotations

import pytest
from scipy.stats import ttest_ind, ttest_rel

from tools.pages import fast_attention, hybrid, lens
from tools.pages.__main__ import INSIDE, pages
from tools.pages.tables import RUNS, TIMES, settings
from tools.runs import RESULTS, Kept, kept_runs
from vixformer import list_recipes
from vixformer.recipes.lens import SETTINGS
from vixformer.results.statistics import Claim, Difference, Says, a_seed, difference, paired


def test_pages_are_what_the_runs_give() -> None:
    """`make results` changes nothing: neither page nor record was edited by hand."""
    for name, text in pages().items():
        assert (RESULTS / name).read_text() == text, name
    about = (RESULTS.parent / "lens.md").read_text()
    for marker, made in INSIDE.items():
        assert f"<!-- {marker} -->\n{made()}\n<!-- end -->" in about, marker


def test_every_part_has_its_place_in_the_ablation() -> None:
    assert sorted(name for names in lens.GROUPS.values() for name in names) == sorted(SETTINGS["parts"].names)


def test_kept_runs_are_of_recipes_we_have() -> None:
    runs = kept_runs()
    assert set(runs) <= set(list_recipes())
    for name, kept in runs.items():
        assert len({run.summary["seed"] for run in kept}) == len(kept), name
        assert all(len(run.history) == run.summary["epochs"] for run in kept), name


def test_intervals_are_welchs() -> None:
    a, b = [71.0, 72.5, 73.1], [70.2, 70.9, 70.4, 71.3]
    found = difference(a, b)
    interval = ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert found.half is not None
    assert (found.mean - found.half, found.mean + found.half) == pytest.approx((interval.low, interval.high))
    assert (difference([2.0], b).half, found.verdict) == (None, "holds" if interval.low > 0 else "within noise")


def test_paired_intervals_are_students() -> None:
    a, b = {0: 71.0, 1: 72.5, 2: 73.1, 9: 50.0}, {2: 72.2, 1: 71.9, 0: 70.4}
    found = paired(a, b)
    interval = ttest_rel([71.0, 72.5, 73.1], [70.4, 71.9, 72.2]).confidence_interval(0.95)
    assert found.half is not None
    assert (found.mean - found.half, found.mean + found.half) == pytest.approx((interval.low, interval.high))
    assert paired(a, {0: 70.0}) == Difference(1.0, None)


def test_there_is_no_difference_without_a_seed_in_common(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lens, "_seeds", {"a/prism": {0: 60.0}, "a/other": {1: 50.0}, "a/same": {0: 50.0}}.get)
    cell = lens._minus("a/", "prism")
    assert (cell("a/other", {}), cell("a/same", {})) == ("", "+10.00 (one seed)")


def invented(top1: float, images: int = 10_000, **data: float) -> Kept:
    summary = {"machine": {"processor": "x", "threads": 2, "torch": "2"}, "per_class": {"a": {}, "b": {}, "macro avg": {}}}
    summary |= {"test_top1": top1, "train_images": 9_000, "test_images": images, "kept_bytes": 1, "seed": int(top1)}
    train = {"epochs": 3, "batch_size": 64, "precision": "float32", "warmup": 7.0}
    return Kept({"data": data, "model": {}, "train": train}, summary, [{"val_top1": top1}])


def test_settings_say_how_much_of_the_test_set(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, part = "quick/exact", "quick/fourier"
    monkeypatch.setitem(RUNS, whole, [invented(50.0)])
    monkeypatch.setitem(RUNS, part, [invented(50.0, 2_000, test_fraction=0.2)])
    told = settings([whole, "not run"])
    assert "2 classes, batches of 64, float32, 1 seed, x, 2 threads" in told
    assert " Also changed: " in told
    assert "`train.warmup` 7.0 instead of " in told
    assert "`train.clip` none instead of 1.0" in told  # an option that came after the run was kept was at its default in it
    assert "batches of 64, tested on 2,000 images (20.0 % of the test set), float32" in settings([part])
    assert "2,000 images (20.0 % of the test set) or 10,000 images (100.0 % of the test set)" in settings([whole, part])


def test_fast_attention_compares_features_and_patches_once_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for kept in (RUNS, TIMES):
        for name in [name for name in kept if name.startswith("fast-attention/")]:
            monkeypatch.delitem(kept, name)
    empty = fast_attention.page()
    assert "features help" not in empty
    assert "Patches of 4 or" not in empty
    for experiment, top1 in (("exp1", 70.0), ("exp2", 72.0), ("exp3", 71.0), ("exp5", 40.0), ("exp8", 30.0)):
        for model in fast_attention.MODELS:
            monkeypatch.setitem(RUNS, f"fast-attention/{experiment}/{model}", [invented(top1), invented(top1 + 2)])
    for name, step, batch in (
        ("exp5/vit", 9.0, 32),
        ("exp8/vit", 2.0, 32),
        ("exp5/performer-relu", 9.0, 32),
        ("exp8/performer-relu", 2.0, 64),
    ):
        time = {"batch": batch, "step_ms": {"median": step}, "inference_ms": {"median": step}}
        monkeypatch.setitem(TIMES, f"fast-attention/{name}", time)
    page = fast_attention.page()
    for model in ("performer-relu", "performer-exp"):
        gain = difference([72.0, 74.0], [70.0, 72.0])
        assert f"{model} with 16, 32, 64: 71.00 ± 1.41 / 72.00 ± 1.41 / 73.00 ± 1.41; 64 minus 16: {gain}." in page
    gain = difference([40.0, 42.0], [30.0, 32.0])
    assert f"32 features): vit {gain}, 4.50 times the step; performer-relu {gain}; performer-exp {gain}; performer-ftheta {gain}." in page


def test_a_layout_run_with_one_kernel_only_is_no_answer_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in RUNS if name.startswith("hybrid/mnist/last-softmax-")]:
        monkeypatch.delitem(RUNS, name)
    assert "Do hybrids match" not in hybrid.page().partition("## CIFAR-10")[0]


@pytest.mark.parametrize(
    ("says", "below", "noise", "above"),
    [
        ("above", "does not hold", "is within noise", "holds"),
        ("not above", "holds", "no difference found", "does not hold"),
        ("not below", "does not hold", "no difference found", "holds"),
        ("equal", "does not hold", "no difference found", "does not hold"),
    ],
)
def test_what_a_claim_says_is_what_is_judged(says: Says, below: str, noise: str, above: str) -> None:
    assert [Claim("", Difference(mean, 1.0), says).verdict for mean in (-2.0, 0.5, 2.0)] == [below, noise, above]
    assert "one seed" in Claim("", Difference(1.0, None), says).verdict
    wide = Claim("", Difference(0.5, 12.0), says).verdict
    assert wide == (noise if says == "above" else "cannot be told, the interval is too wide")


def test_configurations_do_not_pass_for_seeds() -> None:
    assert a_seed([(1, 70.0), (0, 60.0), (1, 72.0), (0, 64.0)]) == [62.0, 71.0]


def test_one_run_has_the_noise_of_its_test_images() -> None:
    found = difference([60.0], [50.0], images=400)
    assert found.half == pytest.approx(100 * 1.96 * (0.6 * 0.4 / 400 + 0.5 * 0.5 / 400) ** 0.5)
    assert "one seed" in str(found)
    assert Claim("", found).verdict == "one seed says so"
    assert Claim("", difference([51.0], [50.0], images=400)).verdict == "is within noise"
    assert Claim("", difference([50.0], [60.0], images=400)).verdict == "one seed says otherwise"
    assert difference([60.0], [50.0]).half is None
