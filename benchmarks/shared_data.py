"""How much memory a second trial on a node needs for its dataset: both map the decoded Seq-CIFAR-10 and read it all.

    python benchmarks/shared_data.py --data DIR

  first    a trial that reads every image of every task, alone on the node
  second   another one on the same node
  copy     a trial that holds its own copy, as it would without the shared cache
Private memory is what only one process holds (Private_* in smaps); pages that two map count half for each (Pss). The
target: the second holds less than the copy, by at least 90% of the dataset's size.
"""

from __future__ import annotations

import argparse
import multiprocessing
from pathlib import Path
from typing import Any

MB = 2**20


def memory() -> dict[str, int]:
    """This process's memory in bytes, from the kernel."""
    found: dict[str, int] = {}
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]:
        name, amount = line.split()[:2]
        found[name.rstrip(":")] = int(amount) * 1024
    return {"private": found["Private_Clean"] + found["Private_Dirty"], "pss": found["Pss"], "rss": found["Rss"]}


def trial(pipe: Any, data: str, copy: bool) -> None:
    import torch

    from co2l.data.streams import Split, open_stream

    torch.set_num_threads(1)
    before = memory()
    tasks = open_stream("seq_cifar10", split=Split("search"), seed=0, data=Path(data))
    images = tasks.train(0).pool
    held = images.clone() if copy else images
    total = 0
    for t in range(len(tasks)):
        rows = tasks.train(t).rows
        for start in range(0, len(rows), 1000):
            total += int(held.index_select(0, rows[start : start + 1000]).max())  # a sum would allocate a copy
    pipe.send(images.nbytes)
    while pipe.recv():  # asked again when the other one is up too
        after = memory()
        pipe.send({name: after[name] - before[name] for name in after})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    data = str(Path(parser.parse_args().data).absolute())
    context = multiprocessing.get_context("spawn")
    pipes, processes = {}, []
    for name in ("first", "second", "copy"):
        pipes[name], theirs = context.Pipe()
        processes.append(context.Process(target=trial, args=(theirs, data, name == "copy")))
        processes[-1].start()
        dataset = pipes[name].recv()
    grown = {}
    for name, pipe in pipes.items():
        pipe.send(True)
        grown[name] = pipe.recv()
    for pipe, process in zip(pipes.values(), processes, strict=True):
        pipe.send(False)
        process.join()
    print(f"Seq-CIFAR-10, training images {dataset / MB:,.0f} MB; growth since the trial began, in MB:")
    print(f"  {'':<8} {'private':>8} {'pss':>8} {'rss':>8}")
    for name, each in grown.items():
        print(f"  {name:<8} {each['private'] / MB:8,.1f} {each['pss'] / MB:8,.1f} {each['rss'] / MB:8,.1f}")
    saved = (grown["copy"]["private"] - grown["second"]["private"]) / dataset
    print(f"the second trial saves {saved:.0%} of the dataset's size compared to one with a copy")


if __name__ == "__main__":
    main()
