"""Models to and from the Hugging Face hub."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from vixformer import hub as reach
from vixformer.backbones.backbone import CONFIG_FILE, WEIGHTS_FILE
from vixformer.data.preprocess import PREPROCESSING_FILE
from vixformer.export.card import card, public
from vixformer.results.predictor import model_folder
from vixformer.results.runs import RECIPE, read_run


def push_to_hub(
    folder: str | Path, name: str, private: bool = False, licence: str = "mit", token: str | None = None
) -> str:
    """The model of a run, with a card filled from the run, as `owner/name`; its address. `HF_TOKEN` or `token` says who
    you are."""
    if not reach.is_name(name):
        raise ValueError(f'a model on the hub is called "owner/name", not "{name}"')
    hub, folder = reach.library(), Path(folder)
    model = model_folder(folder)
    with tempfile.TemporaryDirectory() as temporary:
        ready = Path(temporary)
        for file in (CONFIG_FILE, WEIGHTS_FILE, PREPROCESSING_FILE):
            if not (model / file).exists():
                raise ValueError(f"{model / file} is missing, and a model is not shared without it")
            shutil.copy(model / file, ready)
        if (folder / RECIPE).exists():
            run = read_run(folder)
            (ready / RECIPE).write_text(public(run.recipe).to_json(run.name))
        (ready / "README.md").write_text(card(folder, name, licence))
        api = hub.HfApi(token=token)
        try:
            api.create_repo(name, private=private, exist_ok=True)
            api.upload_folder(repo_id=name, folder_path=ready, commit_message="A model, its preprocessing and its card")
        except Exception as error:  # the hub's own, its HTTP client's, the system's
            raise ValueError(f"the hub did not take {name}: {reach.first_line(error)}") from None
    return f"{api.endpoint}/{name}"
