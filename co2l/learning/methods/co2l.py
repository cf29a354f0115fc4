"""Co²L: asymmetric supervised contrastive learning with instance-wise relation distillation (Algorithm 1).

Where paper and released code differ, a setting names both and its default is explained in docs/protocol.md.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from co2l.data import buffer
from co2l.data.augmentation import augment
from co2l.data.benchmarks import Benchmark, standardise
from co2l.data.examples import Examples, batches, concatenate
from co2l.data.randomness import generator_for
from co2l.errors import Co2lError
from co2l.learning.config import Every, First, Keyed, Later, Same, Settings
from co2l.learning.encoders import Encoder, Projector, count_nothing, initialised
from co2l.learning.graphs import RepeatedStep
from co2l.learning.losses import matching, relation_distillation, similarity, supcon
from co2l.learning.methods.base import Method, encoder_for
from co2l.learning.optimiser import Optimiser
from co2l.learning.probe import ProbeSettings, check_probe, recipe_of, train_probe
from co2l.learning.schedule import Schedule

Distillation = Literal["ird", "seed", "mse_embedding", "mse_projection", "none"]


class Co2LSettings(ProbeSettings):
    eta: Every[float] = Field(0.1, gt=0, description="learning rate η")
    E_0: First[int] = Field(100, ge=1, description="epochs of task 1")
    E_t: Later[int] = Field(20, ge=1, description="epochs of each later task")
    buffer_size: Later[Annotated[int, Field(ge=0)] | Literal["unlimited"]] = Field(
        200, union_mode="left_to_right", description="examples kept of past tasks (M)"
    )
    objective: Same[Literal["supcon", "cross_entropy"]] = Field(
        "supcon", description="supcon, or cross_entropy to learn encoder and classifier jointly (Fig. 3)"
    )
    tau: Every[float] = Field(0.5, gt=0, description="temperature τ of the contrastive loss, above 0")
    base_temperature: Every[float] = Field(0.07, gt=0, description="scale of the contrastive loss: τ/this")
    reduction: Every[Literal["mean", "sum"]] = Field("mean", description="mean (code) or sum (paper) over views")
    unit_sphere: Every[bool] = Field(True, description="z on the unit sphere (paper) or not (R-MNIST code)")
    sampling: Every[Literal["shuffled", "independent"]] = Field(
        "shuffled", description="batches without replacement (code) or drawn independently (paper)"
    )
    warmup_epochs: Every[int] = Field(0, ge=0, description="epochs of linear warm-up in every task")
    warmup_from: Every[float] = Field(0.01, ge=0, description="learning rate the warm-up starts from")
    schedule_by: Every[Literal["epoch", "step"]] = Field("epoch", description="when the cosine is moved on")
    supcon: Later[Literal["asymmetric", "symmetric"]] = Field(
        "asymmetric", description="anchors: the current task's views or all"
    )
    anchors: Annotated[Later[Literal["current", "released"]], Keyed.IF_CHANGED] = Field(
        "current",
        description="the current task's views (paper); on rotated benchmarks none once the buffer lost a domain (code)",
    )
    distillation: Later[Distillation] = Field("ird", description="ird, its alternatives of appendix B, or none")
    distill_power: Later[float] = Field(1.0, ge=0, description="distillation power λ")
    kappa: Later[float] = Field(0.2, gt=0, description="temperature κ of the current model's relations, above 0")
    kappa_star: Later[float] = Field(0.01, gt=0, description="temperature κ* of the past model's relations, above 0")
    past_batchnorm: Later[Literal["batch", "running"]] = Field(
        "batch", description="the past model's BatchNorm statistics"
    )
    buffer_policy: Later[Literal["class_balanced", "reservoir"]] = Field(
        "class_balanced", description="class_balanced or reservoir"
    )
    replay: Later[bool] = Field(True, description="learn the representation from buffered examples too")
    compile: Same[bool] = Field(False, description="torch.compile networks and losses: fewer launches, other rounding")
    cuda_graphs: Same[bool] = Field(
        False, description="replay steps as one launch each on a GPU; never run on one so far, see docs/gpus.md"
    )

    def epochs_per_task(self, tasks: int) -> list[int]:
        return [self.E_0] + [self.E_t] * (tasks - 1)


class Network(nn.Module):
    """g ∘ f with parameters ψ = (ϑ, φ)."""

    def __init__(self, f: Encoder, g: nn.Module) -> None:
        super().__init__()
        self.f, self.g = f, g


class Co2L(Method):
    name = "co2l"
    settings_type: ClassVar[type[Settings]] = Co2LSettings

    @classmethod
    def defaults(cls, benchmark: Benchmark) -> dict[str, Any]:
        """With a reservoir where the same classes come in every task, as the released code has on R-MNIST."""
        policy = {"buffer_policy": "reservoir"} if benchmark.scenario == "domain" else {}
        return {**policy, **super().defaults(benchmark)}

    @classmethod
    def check(cls, settings: Co2LSettings, benchmark: Benchmark, *, where: str = "") -> None:
        if settings.objective == "cross_entropy" and settings.distillation != "none":
            raise Co2lError(
                f"distillation={settings.distillation} needs the projector, which cross_entropy has not",
                where=where,
                fix="set distillation=none",
            )
        if settings.anchors == "released" and benchmark.scenario != "domain":
            raise Co2lError(
                f"anchors=released is the released code's rule for rotated tasks, which {benchmark.name} has not",
                where=where,
                fix="set anchors=current",
            )
        check_probe(settings, where=where)
        if settings.compile and settings.recompute:
            raise Co2lError("compile and recompute do not work together", where=where, fix="set one of them to false")
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
        self.optimiser = Optimiser(self.psi, settings)
        self.memory = self._no_memory()

    def _network(self) -> Network:
        f = encoder_for(self.settings, self.benchmark)
        contrastive = self.settings.objective == "supcon"
        return Network(f, Projector(f) if contrastive else nn.Linear(f.dim, self.benchmark.num_classes))

    @property
    def encoder(self) -> Encoder:
        return self.psi.f

    def _no_memory(self) -> Examples:
        return buffer.empty(self.benchmark.image_shape, self.device)

    def schedule(self, t: int) -> Schedule:
        return Schedule(
            eta=self.settings.eta,
            epochs=self.settings.E_0 if t == 0 else self.settings.E_t,
            warmup_epochs=self.settings.warmup_epochs,
            warmup_from=self.settings.warmup_from,
            resolution=self.settings.schedule_by,
        )

    def begin_task(self, t: int, task: Examples) -> None:
        """D ← {(x, y)} ∪ M, and the past model is a snapshot of the current one."""
        self.t, self.current = t, len(task)
        replayed = self.memory if t > 0 and self.settings.replay else self._no_memory()
        self.D = concatenate([task, replayed])  # the current task's examples first
        self.anchored = self._anchored()
        self.psi.train()
        self.psi_past = None
        if t > 0 and self.settings.distillation != "none" and self.settings.distill_power > 0:
            self.psi_past = copy.deepcopy(self.psi).requires_grad_(False)
            self.psi_past.train(self.settings.past_batchnorm == "batch")
            count_nothing(self.psi_past)
        self._evaluate: Callable[..., dict[str, Tensor]] = self._losses
        if self.settings.compile:  # without breaks; for full batches, as every other size would compile again
            self._evaluate = torch.compile(self._losses, fullgraph=True, dynamic=False)
        self._repeated: RepeatedStep | None = None
        if self.settings.cuda_graphs and self.device.type == "cuda":
            self._repeated = RepeatedStep(self._step, self.settings.batch_size, self.device)

    def _anchored(self) -> int:
        """The task whose views are anchors; -1 for none.

        The released code takes the number of domains in the buffer for that of the current one. Once the reservoir
        has lost a domain, no view has that number.
        """
        released = self.t > 0 and self.settings.anchors == "released"
        return -1 if released and len(self.memory.tasks.unique()) < self.t else self.t

    def draw(self, epoch: int) -> list[Tensor]:
        order = generator_for(self.seed, "task", self.t, "epoch", epoch, "order")
        n = len(self.D)
        if self.settings.sampling == "shuffled":
            drawn = torch.randperm(n, generator=order)
        else:
            drawn = torch.randint(n, (n,), generator=order)
        return batches(drawn, self.settings.batch_size, self.current, self.device)

    def step(self, batch: Tensor, lr: float, generator: torch.Generator) -> dict[str, Tensor]:
        if self._repeated is not None and len(batch) == self.settings.batch_size:
            return self._repeated(batch, lr, generator)
        return self._step(batch, lr, generator)

    def _step(self, batch: Tensor, lr: float | Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        now = self.D.gather(batch)
        views = augment(now.images.repeat(2, 1, 1, 1), self.benchmark.augmentation, generator)  # h(x), h'(x)
        views = standardise(views, self.benchmark)
        full = len(batch) == self.settings.batch_size
        losses = (self._evaluate if full else self._losses)(views, now.labels.repeat(2), now.tasks.repeat(2))
        loss, *others = losses.values()
        for other in others:
            loss = loss + self.settings.distill_power * other
        self.optimiser.descend(loss, lr)
        return {name: value.detach() for name, value in losses.items()}

    def _losses(self, views: Tensor, labels: Tensor, tasks: Tensor) -> dict[str, Tensor]:
        """The losses by name, the objective first, from the views and their examples' labels and tasks."""
        past = self._past(views)  # first: next to the current model's activations it needs a quarter more
        h = self.psi.f(views)
        projection = self.psi.g(h)
        if self.settings.objective == "cross_entropy":
            return {"cross_entropy": F.cross_entropy(projection, labels)}
        relations = similarity(self._on_sphere(projection))
        anchors = None
        if self.t > 0 and self.settings.supcon == "asymmetric":
            anchors = tasks == self.anchored  # S: the views of the current task's examples
        losses = {
            "supcon": supcon(
                relations,
                labels + tasks * self.benchmark.num_classes,  # in another domain: another class
                self.settings.tau,
                anchors=anchors,
                base_temperature=self.settings.base_temperature,
                reduction=self.settings.reduction,
            )
        }
        if past is not None:
            losses["distill"] = self._distillation(past, h, projection, relations)
        return losses

    def views(self, batch: Tensor) -> int:
        return 2 * len(batch)

    def _on_sphere(self, projection: Tensor) -> Tensor:
        return F.normalize(projection) if self.settings.unit_sphere else projection

    @torch.no_grad()
    def _past(self, views: Tensor) -> Tensor | None:
        """The past model's answer to the views: its projections or, if those are not compared, its embeddings."""
        if self.psi_past is None:
            return None
        h: Tensor = self.psi_past.f(views)
        projected = self.settings.distillation in ("ird", "mse_projection")
        return self.psi_past.g(h) if projected else h

    def _distillation(self, past: Tensor, h: Tensor, projection: Tensor, relations: Tensor) -> Tensor:
        """IRD, or one of its alternatives, against the past model's answer to the same views."""
        kind = self.settings.distillation
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

    def end_task(self, t: int, task: Examples) -> None:
        """Manage M for the number of each class's examples to be the same by uniform sampling."""
        size = None if self.settings.buffer_size == "unlimited" else self.settings.buffer_size
        generator = generator_for(self.seed, "task", t, "buffer")
        self.memory = buffer.add(self.memory, task, size, self.settings.buffer_policy, generator)

    def classifier(self, t: int, task: Examples, probe: str, revisited: Sequence[Examples] = ()) -> nn.Sequential:
        others = [self.memory] if self.settings.probe_data == "buffer" else revisited
        data = concatenate([task, *others])
        return train_probe(
            self.psi.f, self.benchmark, data, len(task), recipe_of(self.settings, probe), seed=self.seed, t=t
        )

    def revisits(self, t: int) -> range | None:
        if self.settings.probe_data == "buffer":
            return None
        return range(t + 1 if self.settings.probe_data == "seen" else self.benchmark.tasks)

    def buffered(self) -> Examples:
        return self.memory

    @classmethod
    def matrix_probe(cls, settings: Co2LSettings) -> str | None:
        return None if settings.matrix_probe == "none" else settings.matrix_probe

    def final_probe(self) -> str:
        return self.settings.probe

    def state(self) -> dict[str, Any]:
        return {
            "psi": dict(self.psi.state_dict()),
            "momentum": self.optimiser.momentum(),
            "memory": self.memory.state(),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.psi.load_state_dict(state["psi"])
        self.memory = Examples.from_state(state["memory"], self.device)
        self.optimiser.load_momentum(state["momentum"])
