"""What computing activations again saves and costs: memory and time of a Co²L step on ResNet-18, with and without.

    python benchmarks/recompute.py [--width 32] [--batch 64] [--rounds 5]

A step of the second task, with the past model. Memory is counted by torch's own records of what it allocates and
frees: the most that is held at once beyond what is there before the step. The targets are 0.5 times the memory and
1.4 times the time. Both take turns, round by round; the time is the median of rounds.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from torch.profiler import ProfilerActivity, profile

from co2l.cluster.steps import second_task
from co2l.data.randomness import generator_for
from co2l.learning.methods.co2l import Co2L

MB = 2**20


def step(method: Co2L, batch: int) -> None:
    method.step(torch.arange(batch), 1e-4, generator_for(0, "step"))


def peak(method: Co2L, batch: int) -> int:
    """The most bytes that a step holds at once, beyond those before it."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        step(method, batch)
    sizes = [event.nbytes() for event in _allocations(profiled.profiler.kineto_results.events())]
    most = now = 0
    for size in sizes:
        now += size
        most = max(most, now)
    return most


def _allocations(events: list) -> list:  # type: ignore[type-arg]  # torch's own records have no types
    return sorted((event for event in events if event.name() == "[memory]"), key=lambda event: event.start_ns())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    cpu = torch.device("cpu")
    methods = {
        flag: second_task("seq_cifar10", args.batch, 4 * args.batch, cpu, width=args.width, recompute=flag)
        for flag in (False, True)
    }
    for method in methods.values():
        step(method, args.batch)
    bytes_held = {flag: peak(method, args.batch) for flag, method in methods.items()}
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(args.rounds):
        for flag, method in methods.items():
            started = time.perf_counter()
            step(method, args.batch)
            seconds[flag].append(time.perf_counter() - started)
    plain, again = (statistics.median(seconds[flag]) for flag in (False, True))
    held = [bytes_held[flag] / MB for flag in (False, True)]
    print(
        f"ResNet-18 width {args.width}, batch {args.batch}: {2 * args.batch} views, {torch.get_num_threads()} threads"
    )
    print(f"  kept        {held[0]:8,.0f} MB  {plain:6.2f} s")
    print(f"  recomputed  {held[1]:8,.0f} MB  {again:6.2f} s")
    print(f"  ratio       {held[1] / held[0]:8.2f}     {again / plain:6.2f}")


if __name__ == "__main__":
    main()
