"""Code of the user's own: a file and an installed package, in every command, in every process, and remembered."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command import run
from tests.support.plugins import file_of_the_page, forgotten
from vixformer import load_plugin, load_recipe
from vixformer.cli import main
from vixformer.plugins import PLUGINS, Plugin, missing, split_words, used_in
from vixformer.results.runs import content, read_run

EXAMPLE = Path(__file__).parent.parent / "examples" / "plugin"
FEW = ("--data.fraction", "0.02", "--epochs", "1", "--train.no-measure")


@pytest.fixture(autouse=True)
def _names_of_a_test_go_with_it() -> Iterator[None]:
    with forgotten():
        yield


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mymean.py").write_text(file_of_the_page())
    return tmp_path / "mymean.py"


def test_the_file_of_the_page_is_short() -> None:
    lines = [line for line in file_of_the_page().splitlines() if line.strip() and not line.strip().startswith("#")]
    assert len(lines) <= 30


def test_one_command_compares_an_attention_of_ones_own_with_the_others(
    mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = run(capsys, "compare", "quick/exact", "mine/mean", *FEW, "--out", str(tmp_path), "--plugin", str(mine))
    assert [line.split()[1] for line in out.splitlines() if line.startswith(("quick/exact ", "mine/mean "))] == [
        "softmax",
        "mean",
    ]
    (folder,) = tmp_path.glob("mine-mean-*")
    assert json.loads((folder / "recipe.json").read_text())["plugins"] == {str(mine): PLUGINS[_module()].content}
    (other,) = tmp_path.glob("quick-exact-*")
    assert "plugins" not in json.loads((other / "recipe.json").read_text())
    assert (other / "recipe.json").parent.name.endswith(content(read_run(other).recipe, _digest(other)))


def _module() -> str:
    (name,) = PLUGINS
    return name


def _digest(folder: Path) -> str:
    return json.loads((folder / "summary.json").read_text())["data_digest"]


@pytest.mark.slow
def test_processes_of_a_comparison_load_it_too(mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run(
        capsys,
        "compare",
        "quick/exact",
        "mine/mean",
        *FEW,
        "--jobs",
        "2",
        "--out",
        str(tmp_path),
        "--plugin",
        str(mine),
    )
    assert "mine/mean" in out


def test_commands_list_and_use_it(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = ("--plugin", str(mine))
    assert "Mean attention: every token" in run(capsys, "attentions", *own)
    assert "vit: mean\n" in run(capsys, "show", "vit", f"--plugin={mine}", "--attention", "mean", "--depth", "4")
    assert "mine/mean" in run(capsys, "recipes", "mine/*", *own)
    assert "mean(gain=2)" in run(
        capsys, "bench", "attention", "mean(gain=2)", "--tokens", "17", "--seconds", "0.1", *own
    )
    assert str(mine) in run(capsys, "doctor", *own)
    assert "--plugin FILE.py" in run(capsys, "show", "--help")
    assert json.loads(run(capsys, "show", "mine/mean", "--json", *own))["model"]["attention"] == "mean"


def test_the_flag_comes_before_the_command_too(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "mine/mean" in run(capsys, "--plugin", str(mine), "recipes", "mine/*")


def test_a_run_without_its_plugin_says_which_file_is_missing(
    mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "runs"
    main(["train", "mine/mean", *_train(FEW), "--out", str(out), "--plugin", str(mine)])
    (folder,) = out.iterdir()
    with forgotten():
        from vixformer.attention.base import Mechanism

        del Mechanism.members["mean"]
        PLUGINS.clear()
        with pytest.raises(SystemExit) as ended:
            main(["runs", str(out)])
        said = capsys.readouterr().err
        assert ended.value.code == 2
        assert 'unknown attention "mean"' in said
        assert f"it was made with a plugin: give --plugin {mine}" in said
        with pytest.raises(SystemExit):
            main(["predict", str(folder), "x.png"])
        assert "it was made with a plugin: give --plugin mymean.py" in capsys.readouterr().err
        mine.unlink()
        with pytest.raises(ValueError, match=rf"the plugin {mine}, which is not there: put it back, or give its copy"):
            read_run(folder)


def _train(few: tuple[str, ...]) -> list[str]:
    return ["--train.epochs" if word == "--epochs" else word for word in few]


def test_a_changed_file_is_another_run(mine: Path) -> None:
    load_plugin(mine)
    recipe = load_recipe("mine/mean")
    before = content(recipe, "")
    assert content(load_recipe("quick/exact"), "") == content(recipe.with_attention("softmax"), "")
    PLUGINS[_module()] = Plugin(str(mine), "other content")
    assert content(recipe, "") != before
    assert used_in("performer(kernel=mean)")
    assert not used_in("softmax, meaning")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import nothere", r"ModuleNotFoundError: No module named 'nothere' \(line 1\)"),
        ("x = 1\n1 / 0", r"ZeroDivisionError: division by zero \(line 2\)"),
        ("def broken(:", "SyntaxError"),
        (
            "from vixformer.nn.stems import Stem\nclass Mine(Stem, name='m'): ...\nclass Other(Stem, name='m'): ...",
            r'two classes want the stem name "m": Mine and Other \(line 3\)',
        ),
    ],
)
def test_a_file_that_fails_is_a_sentence_and_leaves_nothing(text: str, words: str, tmp_path: Path) -> None:
    from vixformer.nn.stems import Stem

    file = tmp_path / "bad.py"
    file.write_text(text)
    known = dict(Stem.members)
    with pytest.raises(ValueError, match=f"the plugin {file} cannot be loaded: {words}"):
        load_plugin(file)
    assert Stem.members == known
    assert not PLUGINS


def test_what_is_no_file_is_a_sentence(tmp_path: Path, mine: Path) -> None:
    with pytest.raises(ValueError, match=r"nothere.py is not there: give a file such as --plugin mymean.py"):
        load_plugin(tmp_path / "nothere.py")
    with pytest.raises(ValueError, match="is not a Python file"):
        load_plugin(tmp_path)
    for words in (["show", "--plugin"], ["show", "--plugin", "--json"], ["show", "--plugin="]):
        with pytest.raises(ValueError, match="--plugin needs a value: a Python file"):
            split_words(words)
    assert load_plugin(mine) is load_plugin(str(mine))
    mine.write_text("")
    with pytest.raises(ValueError, match="has changed since it was loaded"):
        load_plugin(mine)


def test_what_is_missing() -> None:
    assert missing(["json"]) == ""
    assert missing({"nothere": "1.0"}) == "; it was made with a plugin: pip install nothere"
    assert missing(None) == ""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of examples/, installed as a user would, without a network."""
    place = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps", "--no-index",
         "--disable-pip-version-check", "--target", str(place), str(_copied(tmp_path_factory.mktemp("source")))],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return place


def _copied(place: Path) -> Path:
    """Building writes into the source."""
    import shutil

    return Path(shutil.copytree(EXAMPLE, place / "plugin"))


def test_an_installed_package_joins_every_family(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from vixformer import plugins

    monkeypatch.syspath_prepend(installed)
    plugins._looked.clear()
    assert "softplus" in run(capsys, "attentions")
    assert "example-vit" in run(capsys, "models")
    assert "stripes in gray, 8 x 8" in run(capsys, "data", "list")
    assert "vixformer-example (1.0)" in run(capsys, "doctor")
    out = run(
        capsys, "compare", "example/*", "--train.no-measure", "--train.loggers", "example-text", "--out", str(tmp_path)
    )
    assert "performer(kernel=softplus, features=16)" in out
    (folder,) = tmp_path.glob("example-mean-*")
    assert json.loads((folder / "recipe.json").read_text())["plugins"] == {"vixformer-example": "1.0"}
    assert (folder / "best.txt").read_text().startswith("epoch 1: ")
    assert read_run(folder).recipe.model.owner.name == "example-vit"


def test_a_package_that_fails_is_left_out_with_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from vixformer import plugins

    info = tmp_path / "broken-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text("[vixformer.plugins]\nbroken = nothere_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    plugins._looked.clear()
    main(["attentions"])
    printed = capsys.readouterr()
    assert "vix: the plugin broken of broken 2.0 is left out: ModuleNotFoundError" in printed.err
    assert "performer" in printed.out
