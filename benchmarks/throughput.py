"""How close our training step comes to the bare model's, in views per second, measured side by side.

    python benchmarks/throughput.py [--rounds 5] [--seconds 4]

In the second task (with IRD), for ResNet-18 on CIFAR-10 and the R-MNIST network:
  a  the bare step on one fixed batch of views: current and past model forward, losses, backward, optimiser
  b  our whole step: draw, gather, augment, normalise, and everything of (a)
  c  (a)'s model fed by per-image PIL/torchvision transforms in a DataLoader with two workers
The three take turns, round by round, so that a noisy machine hurts them alike; the figure is the median of rounds.
Images are random ones of the right shape: the cost does not depend on what they show.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable, Iterator

import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from co2l.data.benchmarks import Benchmark, benchmark, normalise
from co2l.data.randomness import stream
from co2l.data.streams import Samples
from co2l.data.torchvision_import import torchvision
from co2l.learning.device import choose_device
from co2l.learning.losses import relation_distillation, similarity, supcon
from co2l.learning.methods import configure
from co2l.learning.methods.co2l import Co2L

transforms = torchvision.transforms


def second_task(name: str, batch_size: int, n: int, device: torch.device, **settings: int) -> Co2L:
    """Co²L at the beginning of its second task, with a buffer, on random images."""
    spec = benchmark(name)
    config = configure(name, "co2l", {"batch_size": batch_size, "buffer_size": 200, **settings})
    method = Co2L(config.settings, spec, 0, device)
    for t in (0, 1):
        images = torch.randint(256, (n, *spec.image_shape), dtype=torch.uint8, generator=stream(t, "images"))
        labels = torch.randint(spec.classes_per_task, (n,), generator=stream(t, "labels"))
        samples = Samples(images, torch.arange(n), labels).to(device)
        if t == 0:
            method.end_task(0, samples)
    method.begin_task(1, samples)
    return method


def update(method: Co2L, views: Tensor, labels: Tensor, anchors: Tensor) -> None:
    """(a): nothing but the model's own work."""
    relations = similarity(F.normalize(method.psi.g(method.psi.f(views))))
    with torch.no_grad():
        past = similarity(F.normalize(method.psi_past.g(method.psi_past.f(views))))
    loss = supcon(relations, labels, 0.5, anchors=anchors) + relation_distillation(relations, past, 0.2, 0.01)
    method.optimiser.descend(loss, 1e-4)


class PerImage(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """(c)'s data: two PIL views of one image at a time, as the released code prepares them."""

    def __init__(self, method: Co2L) -> None:
        spec = method.benchmark
        side, aug = spec.image_shape[1], spec.augmentation
        steps = [transforms.RandomResizedCrop(side, scale=aug.crop_scale)]
        if spec.image_shape[0] == 3:
            jitter = transforms.ColorJitter(*aug.jitter_strength)
            steps += [
                transforms.RandomHorizontalFlip(aug.flip),
                transforms.RandomApply([jitter], aug.jitter),
                transforms.RandomGrayscale(aug.gray),
            ]
        steps += [transforms.ToTensor(), transforms.Normalize(spec.mean, spec.std)]
        self.view = transforms.Compose(steps)
        images = torch.cat([method.D.task.images, method.memory.images]).permute(0, 2, 3, 1).numpy()
        self.images = [Image.fromarray(image.squeeze()) for image in images]
        tasks = torch.cat([torch.ones(len(method.D.task)), method.memory.tasks])
        self.current = tasks == 1
        self.labels = torch.cat([method.D.task.labels + 10, method.memory.labels])

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.view(self.images[i]), self.view(self.images[i]), self.labels[i], self.current[i]


def bare(method: Co2L, batch_size: int) -> Iterator[int]:
    x, y, tasks = method.D.gather(torch.arange(batch_size))
    views = normalise(torch.cat([x, x]), method.benchmark)
    labels, anchors = y.repeat(2), (tasks == 1).repeat(2)
    while True:
        update(method, views, labels, anchors)
        yield len(views)


def ours(method: Co2L) -> Iterator[int]:
    for epoch in itertools.count(1):
        for i, batch in enumerate(method.draw(epoch)):
            method.step(batch, 1e-4, stream(0, "epoch", epoch, "step", i, device=method.device))
            yield method.views(batch)


def per_image(method: Co2L, batch_size: int) -> Iterator[int]:
    loader = torch.utils.data.DataLoader(
        PerImage(method), batch_size, shuffle=True, num_workers=2, persistent_workers=True, drop_last=True
    )
    while True:
        for first, second, y, current in loader:
            views = torch.cat([first, second]).to(method.device)
            update(method, views, y.repeat(2).to(method.device), current.repeat(2).to(method.device))
            yield len(views)


def speed(steps: Iterator[int], seconds: float, wait: Callable[[], None]) -> float:
    next(steps)
    wait()
    started, views = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - started) < seconds or views == 0:
        views += next(steps)
        wait()
    return views / elapsed


def measure(spec: Benchmark, batch_size: int, n: int, rounds: int, seconds: float, device: torch.device) -> None:
    contenders = {
        "a": bare(second_task(spec.name, batch_size, n, device), batch_size),
        "b": ours(second_task(spec.name, batch_size, n, device)),
        "c": per_image(second_task(spec.name, batch_size, n, device), batch_size),
    }
    wait = torch.accelerator.synchronize if device.type != "cpu" else lambda: None
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, steps in contenders.items():
            found[name].append(speed(steps, seconds, wait))
    a, b, c = (statistics.median(values) for values in found.values())
    print(f"{spec.name}, batch {batch_size} ({2 * batch_size} views), {rounds} rounds of {seconds:g} s")
    print(f"  a bare step      {a:10,.0f} views/s")
    print(f"  b our step       {b:10,.0f} views/s   b/a = {b / a:.2f}")
    print(f"  c per-image PIL  {c:10,.0f} views/s   b/c = {b / c:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--only", choices=["seq_cifar10", "r_mnist"])
    args = parser.parse_args()
    device = choose_device(args.device)
    print(f"torch {torch.__version__}, {device}, {torch.get_num_threads()} threads")
    for name, batch_size, n in (("r_mnist", 512, 20_000), ("seq_cifar10", 32, 5_000)):
        if args.only in (None, name):
            measure(benchmark(name), batch_size, n, args.rounds, args.seconds, device)


if __name__ == "__main__":
    main()
