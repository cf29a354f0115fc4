"""How close our training step comes to the bare model's, in views per second, measured side by side.

    python benchmarks/throughput.py [--rounds 5] [--seconds 4]

In the second task (with IRD), for ResNet-18 on CIFAR-10 and the R-MNIST network:
  a  the bare step on one fixed batch of views: current and past model forward, losses, backward, optimiser
  b  our whole step: draw, gather, augment, standardise, and everything in (a)
  c  (a)'s model fed by per-image PIL/torchvision transforms in a DataLoader with two workers
The three take turns, round by round, so a noisy machine affects them equally; the figure is the median of rounds.
Images are random, of the right shape: the cost does not depend on what they show.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator

import torch
from PIL import Image
from torch import Tensor

from co2l.cluster.steps import bare_steps, second_task, update, whole_steps
from co2l.data.benchmarks import Benchmark, benchmark
from co2l.data.torchvision_import import torchvision
from co2l.learning.device import choose_device
from co2l.learning.methods.co2l import Co2L

transforms = torchvision.transforms


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
        images = method.D.images.permute(0, 2, 3, 1).cpu().numpy()
        self.images = [Image.fromarray(image.squeeze()) for image in images]
        self.current = method.D.tasks == 1
        self.labels = method.D.labels + 10 * method.D.tasks

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.view(self.images[i]), self.view(self.images[i]), self.labels[i], self.current[i]


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
        "a": bare_steps(second_task(spec.name, batch_size, n, device), batch_size),
        "b": whole_steps(second_task(spec.name, batch_size, n, device)),
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
