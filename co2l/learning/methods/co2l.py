"""Co²L: asymmetric supervised contrastive learning with instance-wise relation distillation (Algorithm 1).

Where paper and released code differ, a setting names both and its default is explained in docs/protocol.md.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from co2l.data.augmentation import augment
from co2l.data.benchmarks import Benchmark, normalise
from co2l.data.buffer import Batch, Buffer, Policy, Union
from co2l.data.randomness import stream
from co2l.data.streams import Samples
from co2l.errors import Co2lError
from co2l.learning.config import Every, Later, Probe, Settings
from co2l.learning.encoders import Encoder, Projector, build_encoder, initialised
from co2l.learning.losses import matching, relation_distillation, similarity, supcon
from co2l.learning.methods.base import Classifier, Method, Revisited
from co2l.learning.probe import ProbeRecipe, train_probe
from co2l.learning.schedule import Schedule

Distillation = Literal["ird", "seed", "mse_embedding", "mse_projection", "none"]


class Co2LSettings(Settings):
    objective: Every[Literal["supcon", "cross_entropy"]] = Field(
        "supcon", description="supcon, or cross_entropy to learn encoder and classifier jointly (Fig. 3)"
    )
    tau: Every[float] = Field(gt=0, description="temperature τ of the contrastive loss, above 0")
    base_temperature: Every[float] = Field(0.07, gt=0, description="scale of the contrastive loss: τ/this")
    reduction: Every[Literal["mean", "sum"]] = Field("mean", description="mean (code) or sum (paper) over views")
    normalise: Every[bool] = Field(True, description="z on the unit sphere (paper) or not (R-MNIST code)")
    sampling: Every[Literal["shuffled", "independent"]] = Field(
        "shuffled", description="batches without replacement (code) or drawn independently (paper)"
    )
    warmup_epochs: Every[int] = Field(0, ge=0, description="epochs of linear warm-up in every task")
    warmup_from: Every[float] = Field(0.01, ge=0, description="learning rate the warm-up starts from")
    schedule_by: Every[Literal["epoch", "step"]] = Field("epoch", description="when the cosine is moved on")
    supcon: Later[Literal["asymmetric", "symmetric"]] = Field("asymmetric", description="who may be an anchor")
    distillation: Later[Distillation] = Field("ird", description="ird, its alternatives of appendix B, or none")
    distill_power: Later[float] = Field(1.0, ge=0, description="distillation power λ")
    kappa: Later[float] = Field(gt=0, description="temperature κ of the current model's relations, above 0")
    kappa_star: Later[float] = Field(gt=0, description="temperature κ* of the past model's relations, above 0")
    past_batchnorm: Later[Literal["batch", "running"]] = Field(
        "batch", description="the past model's BatchNorm statistics"
    )
    buffer_policy: Later[Policy] = Field("class_balanced", description="class_balanced or reservoir")
    replay: Later[bool] = Field(True, description="learn the representation from buffered samples too")
    probe: Probe[Literal["paper", "fast"]] = Field("paper", description="linear evaluation behind the result")
    probe_epochs: Probe[int] = Field(100, ge=1, description="epochs of the linear evaluation")
    probe_lr: Probe[float] = Field(1.0, gt=0, description="learning rate of the linear evaluation")
    probe_balance: Probe[Literal["domain_class", "label"]] = Field(
        "domain_class", description="what the linear evaluation draws evenly; they differ on rotated benchmarks"
    )
    probe_data: Probe[Literal["buffer", "seen", "all"]] = Field(
        "buffer",
        description="the linear evaluation sees the buffer, or all samples of the tasks seen or of all",
    )
    probe_batch_size: Probe[int] = Field(256, ge=1, description="batch size of the linear evaluation")


# The paper's chosen values (appendix, Table 4); digits were chosen here, see docs/reproduction.md.
CHOSEN: dict[str, dict[str, Any]] = {
    "seq_cifar10": dict(
        encoder="resnet18", eta=0.5, tau=0.5, kappa=0.2, kappa_star=0.01, E_0=500, E_t=100, warmup_epochs=10
    ),
    "seq_tiny_imagenet": dict(
        encoder="resnet18", eta=0.1, tau=0.5, kappa=0.1, kappa_star=0.1, E_0=500, E_t=50, warmup_epochs=10,
        probe_lr=0.1,
    ),
    "r_mnist": dict(
        encoder="mnist_conv", eta=0.01, tau=0.1, kappa=0.2, kappa_star=0.01, E_0=100, E_t=20,
        buffer_policy="reservoir",
    ),
    "seq_digits": dict(
        encoder="digits_conv", eta=0.01, tau=0.1, kappa=0.1, kappa_star=0.01, E_0=20, E_t=10, batch_size=64,
        buffer_size=100, probe_epochs=20,
    ),
    "r_digits": dict(
        encoder="digits_conv", eta=0.01, tau=0.1, kappa=0.1, kappa_star=0.01, E_0=20, E_t=10, batch_size=128,
        buffer_size=100, probe_epochs=20, buffer_policy="reservoir",
    ),
}  # fmt: skip


class Network(nn.Module):
    """g ∘ f with parameters ψ = (ϑ, φ)."""

    def __init__(self, f: Encoder, g: nn.Module) -> None:
        super().__init__()
        self.f, self.g = f, g


class Co2L(Method):
    settings_type: ClassVar[type[Settings]] = Co2LSettings

    @classmethod
    def defaults(cls, benchmark: Benchmark) -> dict[str, Any]:
        return CHOSEN[benchmark.name]

    @classmethod
    def check(cls, settings: Co2LSettings, benchmark: Benchmark, *, where: str = "") -> None:
        if settings.objective == "cross_entropy" and settings.distillation != "none":
            raise Co2lError(
                f"distillation={settings.distillation} needs the projector, which cross_entropy has not",
                where=where,
                fix="set distillation=none",
            )
        size, policy = settings.buffer_size, settings.buffer_policy
        groups = benchmark.tasks * benchmark.classes_per_task
        if isinstance(size, int) and size != 0 and policy == "class_balanced" and size < groups:
            raise Co2lError(
                f"buffer_size={size} is smaller than the {groups} classes of {benchmark.name}",
                where=where,
                fix=f"use at least {groups}, 0 for no buffer, or buffer_policy=reservoir",
            )

    def __init__(self, settings: Co2LSettings, benchmark: Benchmark, seed: int, device: torch.device) -> None:
        self.settings, self.benchmark, self.seed, self.device = settings, benchmark, seed, device
        # channels last: convolution and pooling take about half the time, on CPU and GPU alike
        self.psi = initialised(self._network, seed, "init").to(device)
        self.psi.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in torch's types
        self.psi_past: Network | None = None
        self.optimiser = torch.optim.SGD(
            self.psi.parameters(),
            lr=settings.eta,
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
            fused=True,
        )
        self.memory = self._no_memory()

    def _network(self) -> Network:
        f = build_encoder(self.settings.encoder, self.benchmark.image_shape, self.settings.width)
        contrastive = self.settings.objective == "supcon"
        return Network(f, Projector(f) if contrastive else nn.Linear(f.dim, self.benchmark.num_classes))

    def _no_memory(self) -> Buffer:
        return Buffer.empty(self.benchmark.image_shape, self.device)

    def schedule(self, t: int) -> Schedule:
        return Schedule(
            eta=self.settings.eta,
            epochs=self.settings.E_0 if t == 0 else self.settings.E_t,
            warmup_epochs=self.settings.warmup_epochs,
            warmup_from=self.settings.warmup_from,
            resolution=self.settings.schedule_by,
        )

    def begin_task(self, t: int, task: Samples) -> None:
        """D ← {(x, y)} ∪ M, and the past model is a snapshot of the current one."""
        replayed = self.memory if t > 0 and self.settings.replay else self._no_memory()
        self.D = Union(task, t, replayed)
        self.psi.train()
        self.psi_past = None
        if t > 0 and self.settings.distillation != "none" and self.settings.distill_power > 0:
            self.psi_past = copy.deepcopy(self.psi).requires_grad_(False)
            self.psi_past.train(self.settings.past_batchnorm == "batch")

    def draw(self, epoch: int) -> list[Tensor]:
        order = stream(self.seed, "task", self.D.t, "epoch", epoch, "order")
        n = len(self.D)
        if self.settings.sampling == "shuffled":
            drawn = torch.randperm(n, generator=order)
        else:
            drawn = torch.randint(n, (n,), generator=order)
        return list(drawn.split(self.settings.batch_size))

    def step(self, batch: Tensor, lr: float, generator: torch.Generator) -> dict[str, Tensor]:
        x, y, tasks = self.D.gather(batch)
        views = augment(torch.cat([x, x]), self.benchmark.augmentation, generator)  # h(x), h'(x)
        views = normalise(views, self.benchmark)
        if self.settings.objective == "cross_entropy":
            losses = {"cross_entropy": F.cross_entropy(self.psi.g(self.psi.f(views)), y.repeat(2))}
            return self._descend(losses["cross_entropy"], losses, lr)
        labels = (y + tasks * self.benchmark.num_classes).repeat(2)  # in another domain: another class
        anchors = None
        if self.D.t > 0 and self.settings.supcon == "asymmetric":
            anchors = (tasks == self.D.t).repeat(2)  # S: the views of the current task's samples

        h = self.psi.f(views)
        projection = self.psi.g(h)
        relations = similarity(self._on_sphere(projection))
        losses = {
            "supcon": supcon(
                relations,
                labels,
                self.settings.tau,
                anchors=anchors,
                base_temperature=self.settings.base_temperature,
                reduction=self.settings.reduction,
            )
        }
        loss = losses["supcon"]
        if self.psi_past is not None:
            losses["distill"] = self._distillation(views, h, projection, relations)
            loss = loss + self.settings.distill_power * losses["distill"]
        return self._descend(loss, losses, lr)

    def _descend(self, loss: Tensor, losses: Mapping[str, Tensor], lr: float) -> dict[str, Tensor]:
        for group in self.optimiser.param_groups:
            group["lr"] = lr
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        return {name: value.detach() for name, value in losses.items()}

    def _on_sphere(self, projection: Tensor) -> Tensor:
        return F.normalize(projection) if self.settings.normalise else projection

    def _distillation(self, views: Tensor, h: Tensor, projection: Tensor, relations: Tensor) -> Tensor:
        """IRD, or one of its alternatives, against the past model's answer to the same views."""
        assert self.psi_past is not None
        kind = self.settings.distillation
        with torch.no_grad():
            h_past = self.psi_past.f(views)
            past = self.psi_past.g(h_past) if kind in ("ird", "mse_projection") else h_past
        if kind == "mse_embedding":
            return matching(h, past)
        if kind == "mse_projection":
            return matching(projection, past)
        if kind == "seed":
            relations, past = similarity(F.normalize(h)), F.normalize(past)
        else:
            past = self._on_sphere(past)
        return relation_distillation(
            relations,
            similarity(past),
            self.settings.kappa,
            self.settings.kappa_star,
            reduction=self.settings.reduction,
        )

    def end_task(self, t: int, task: Samples) -> None:
        """Manage M for the number of each class's samples to be the same by uniform sampling."""
        size = None if self.settings.buffer_size == "unlimited" else self.settings.buffer_size
        generator = stream(self.seed, "task", t, "buffer")
        self.memory = self.memory.take(task, t, size, self.settings.buffer_policy, generator)

    def classifier(self, t: int, task: Samples, probe: str, revisited: Revisited = ()) -> Classifier:
        recipe = ProbeRecipe(
            epochs=self.settings.probe_epochs,
            lr=self.settings.probe_lr,
            batch_size=self.settings.probe_batch_size,
            augmented=probe == "paper",
            per_domain=self.settings.probe_balance == "domain_class",
        )
        memory = self.memory
        if self.settings.probe_data != "buffer":
            memory = self._no_memory()
            for other, samples in revisited:
                memory = memory.take(samples, other, None, "reservoir", stream(self.seed, "revisited", other))
        return train_probe(self.psi.f, self.benchmark, Union(task, t, memory), recipe, seed=self.seed, t=t)

    def revisits(self, t: int) -> range | None:
        if self.settings.probe_data == "buffer":
            return None
        return range(t + 1 if self.settings.probe_data == "seen" else self.benchmark.tasks)

    def buffered(self) -> Batch:
        return Batch(self.memory.images, self.memory.labels, self.memory.tasks)

    def final_probe(self) -> str:
        return self.settings.probe

    def state(self) -> dict[str, Any]:
        momentum = {
            name: self.optimiser.state[parameter]["momentum_buffer"]
            for name, parameter in self.psi.named_parameters()
            if self.optimiser.state[parameter].get("momentum_buffer") is not None
        }
        return {"psi": dict(self.psi.state_dict()), "momentum": momentum, "memory": self.memory.state()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.psi.load_state_dict(state["psi"])
        self.memory = Buffer.from_state(state["memory"], self.device)
        for name, parameter in self.psi.named_parameters():
            momentum = state["momentum"].get(name)
            self.optimiser.state[parameter]["momentum_buffer"] = None if momentum is None else momentum.to(self.device)
