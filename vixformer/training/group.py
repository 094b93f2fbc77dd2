"""Several processes that train one model: `torchrun --nproc-per-node 2 -m vixformer train RECIPE`. One process is a
group of its own.

Every process reads the same batch of the same size as one process would, and works on its share of it; so a recipe
means the same whatever the number of processes. The first one writes.
"""

from __future__ import annotations

import importlib
import os
import re
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from vixformer.measure.accuracy import Scores
from vixformer.nn.block import Block

try:
    from torch.distributed.fsdp import fully_shard
except ImportError:  # torch 2.5
    fully_shard = importlib.import_module("torch.distributed._composable.fsdp").fully_shard


def refuse_torchrun(flag: str) -> None:
    """For what several processes cannot do together, such as deciding by their own clocks how long to train."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError(f"torchrun gives all processes to one training: leave {flag} out, or torchrun")


class Group:
    def __init__(self, device: torch.device, shard: bool = False) -> None:
        self.size, self.rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
        self.device, self.sharded = device, shard and self.size > 1
        if self.size > 1 and not dist.is_initialized():
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")

    @property
    def alone(self) -> bool:
        return self.size == 1

    @property
    def writes(self) -> bool:
        return self.rank == 0

    def wrapped(self, model: nn.Module) -> nn.Module:
        """Gradients are averaged over the processes in backward; sharded, each of them has a part of the weights, block
        by block."""
        if self.alone:
            return model
        if self.sharded:
            mesh = init_device_mesh(self.device.type, (self.size,))
            for block in [module for module in model.modules() if isinstance(module, Block)]:
                fully_shard(block, mesh=mesh)
            fully_shard(model, mesh=mesh)
            return model
        where = [self.device] if self.device.type == "cuda" else None
        return DistributedDataParallel(model, device_ids=where)  # batch norms remember what the first process saw

    def share(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Of a batch; where it is too small for all, one image that will not count."""
        return (
            tensors
            if self.alone
            else tuple(t[self.rank :: self.size] if self.rank < len(t) else t[:1] for t in tensors)
        )

    def weight(self, all_of_them: int) -> float:
        """What the mean over a share has to be multiplied by, so that the average over processes is the mean over the
        batch."""
        return self.size * len(range(self.rank, all_of_them, self.size)) / all_of_them

    def sums(self, *values: float) -> list[float]:
        if self.alone:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64, device="cpu" if self.device.type != "cuda" else self.device)
        dist.all_reduce(total)
        return total.tolist()

    def any(self, flag: bool) -> bool:
        return self.sums(float(flag))[0] > 0

    def scores(self, mine: Scores) -> Scores:
        """Of all shares together."""
        if self.alone:
            return mine
        everyone: list[Scores] = [mine] * self.size
        dist.all_gather_object(everyone, mine)
        counts = [len(s.labels) for s in everyone]

        def mean(key: str) -> float:
            return sum(count * getattr(s, key) for count, s in zip(counts, everyone, strict=True)) / sum(counts)

        labels, predictions = (torch.cat([getattr(s, key) for s in everyone]) for key in ("labels", "predictions"))
        logits = [s.logits for s in everyone if s.logits is not None]
        together = torch.cat(logits) if logits else None
        return Scores(mean("loss"), mean("top1"), mean("top5"), labels, predictions, together)

    def wait(self) -> None:
        """At the end: for the first process to measure and write."""
        if not self.alone:
            dist.barrier()
            dist.destroy_process_group()

    def lost(self, error: BaseException, folder: Path | None) -> str:
        kept = (
            f"; the checkpoint in {folder} is kept, and the same command resumes from it" if folder is not None else ""
        )
        return f"one of the {self.size} processes is gone ({' '.join(str(error).split())[:120]}){kept}"


class Alone(Group):
    """One process, whatever torchrun says."""

    def __init__(self) -> None:
        self.size, self.rank, self.device, self.sharded = 1, 0, torch.device("cpu"), False


def is_of_the_group(error: RuntimeError) -> bool:
    """Whether the others are what is wrong, as far as its words tell; gloo's errors have no type of their own."""
    return (
        isinstance(error, dist.DistError)
        or re.search("gloo|nccl|connection|peer|broken pipe", str(error), re.IGNORECASE) is not None
    )


def here(tensor: Tensor) -> Tensor:
    """What of it is on this process."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole(tensor: Tensor) -> Tensor:
    """Of its parts on all processes, which all have to ask."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def parted(tensor: Tensor, like: Tensor) -> Tensor:
    """This process's part, where `like` is a part."""
    if not isinstance(like, DTensor) or tensor.shape != like.shape:
        return tensor
    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements)


def process_device(device: torch.device) -> torch.device:
    """Of this process, where a machine has several of them."""
    if device.type != "cuda" or "LOCAL_RANK" not in os.environ:
        return device
    mine = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(mine)
    return mine
