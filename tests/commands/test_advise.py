"""`vix advise` asks what options leave open."""

from __future__ import annotations

import pytest

from vixformer.commands.advise import _command, asked
from vixformer.measure.question import Question, with_sizes_of_model


def answered(*answers: str, given: str = "") -> tuple[Question, list[str]]:
    left, heard = list(answers), []

    def answer(text: str) -> str:
        heard.append(text)
        if not left:
            raise EOFError
        return left.pop(0)

    return asked(Question(), given.split(), answer), heard


def test_six_questions() -> None:
    found, heard = answered("64", "4", "32", "train", "eager", "yes")
    assert (found.image, found.patch, found.batch, found.train, found.runtime) == (64, 4, 32, True, "eager")
    assert (found.trained, found.patches, found.start) == (True, 256, "converted")
    assert heard[0] == "Side of your images in pixels [224]: "


def test_empty_answers_and_the_end_of_input_take_the_defaults() -> None:
    assert answered("", "", "")[0] == Question()


def test_what_flags_say_is_not_asked() -> None:
    _, heard = answered(given="--tokens 64 --batch=8 --infer --runtime eager --scratch")
    assert heard == []
    _, heard = answered(given="--image 64 --patch 8")
    assert len(heard) == 4


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (("big",), "a side in pixels is a whole number above 0, not big"),
        (("", "", "0"), "a number of images is a whole number above 0, not 0"),
        (("", "", "", "both"), "the answer is infer or train, not both"),
    ],
)
def test_wrong_answers_get_a_sentence(answers: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        answered(*answers)


def test_tokens_instead_of_an_image() -> None:
    found = with_sizes_of_model(Question(tokens=1000, patch=4))
    assert (found.image, found.patches, found.sequence, found.tokens) == (128, 1024, 1025, None)


def test_the_command_that_tries_it() -> None:
    assert _command(Question(), "lens") == 'vix train quick/exact --model.attention "lens" --data FOLDER'
    trained = Question(model="runs/mine", trained=True)
    assert _command(trained, "nystrom") == 'vix convert runs/mine --attention "nystrom"'
