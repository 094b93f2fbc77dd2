"""Remove from a trained model the features that its layers learned to drop."""

from __future__ import annotations

from vixformer.attention.project.projection import mechanism_of
from vixformer.conversion.swap import Model, config_with


def reduced(model: Model) -> Model:
    """The same model without features whose gates are closed; the model itself where all are open."""
    cores = [mechanism_of(module) for module in model.attentions()]
    changes = [core.reduced() for core in cores]
    if not any(changes):
        return model
    config = config_with(
        model, [core.config if change is None else change[0] for core, change in zip(cores, changes, strict=True)]
    )
    like = next(model.parameters())
    new = type(model)(config).to(like.device, like.dtype)
    state = model.state_dict()
    for name, module in model.named_modules():
        for core, change in zip(cores, changes, strict=True):
            if module is core and change is not None:
                state |= {f"{name}.{key}": tensor for key, tensor in change[1].items()}
    new.load_state_dict(state)
    return new.train(model.training)
