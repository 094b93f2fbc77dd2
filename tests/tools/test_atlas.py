"""The atlas in the package is what the records say."""

from __future__ import annotations

import dataclasses

import pytest

from tools.atlas import atlas
from tools.runs import RECORDS
from vixformer.measure.atlas import Atlas, parse_atlas, read_atlas
from vixformer.results.records import read_records


@pytest.fixture(scope="module")
def made() -> Atlas:
    """Of one file of records, which takes a second."""
    return atlas(RECORDS / "convert.jsonl")


def test_it_is_made_of_the_records(made: Atlas) -> None:
    assert made.rows
    assert made.rows == tuple(row for row in read_atlas().rows if row.setting.startswith("convert/"))
    assert parse_atlas(made.to_json()) == made


@pytest.mark.slow
def test_the_whole_atlas_is_made_of_the_records() -> None:
    assert atlas() == read_atlas()


def test_a_difference_is_that_of_the_records_it_names(made: Atlas) -> None:
    known = {record["id"]: record for record in read_records(RECORDS / "convert.jsonl")}
    for row in made.rows:
        ours, exact = (
            {known[one]["seed"]: known[one]["summary"]["test_top1"] for one in ids}
            for ids in (row.records, row.exact_records)
        )
        assert row.seeds == len(ours) == len(exact) == 3
        mean = sum(ours[seed] - exact[seed] for seed in ours) / 3
        assert row.points == pytest.approx(mean, abs=0.006)
        assert row.low < row.points < row.high
        assert {known[one]["recipe"]["model"]["attention"] for one in row.records}
        assert all("weights" not in known[one]["recipe"]["train"] for one in row.exact_records)


def test_costs_are_of_models_with_a_row_or_of_exact_attention() -> None:
    found = read_atlas()
    rows = {(row.setting, row.name) for row in found.rows}
    beside = [cost for cost in found.costs if (cost.setting, cost.name) not in rows]
    assert {cost.attention for cost in beside} == {"softmax"}
    assert all((cost.step_ratio, cost.inference_ratio) == (1.0, 1.0) for cost in beside)
    assert all(dataclasses.asdict(cost)["step_ms"] > 0 for cost in found.costs)
