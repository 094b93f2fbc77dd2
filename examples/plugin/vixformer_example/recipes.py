"""example/*: attentions on stripes. Command: `vix compare 'example/*'`."""

from functools import partial

from vixformer.config import Data, Recipe, Train
from vixformer.recipes.catalog import add
from vixformer_example.backbone import SmallViT


def stripes(attention: str) -> Recipe:
    return Recipe(
        data=Data(name="stripes"),
        model=SmallViT.Config(attention=attention, patch_size=2),
        train=Train(epochs=2, batch_size=32, lr=3e-3),
    )


for name, attention in {
    "exact": "softmax",
    "mean": "example_mean",
    "softplus": "performer(kernel=softplus, features=16)",
}.items():
    add(f"example/{name}", partial(stripes, attention))
