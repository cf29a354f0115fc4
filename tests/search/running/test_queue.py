"""The order of trials and which waits for which, step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spaces import result, space_of

from co2l.search.record.entries import Cost
from co2l.search.record.study import StudyRecord
from co2l.search.running.queue import FINISHED, WAIT, Signal, TrialQueue
from co2l.search.space.space import Space
from co2l.search.space.trial import Trial


class Driven(TrialQueue):
    """A queue and its record, which is written as the coordinator would."""

    def __init__(self, space: Space, record: StudyRecord | None = None, **options: Any) -> None:
        self.space, self.record = space, record or StudyRecord.open(None, "s", space)
        super().__init__(space, self.record, **options)

    def take(self) -> Trial:
        trial = self.next()
        assert not isinstance(trial, Signal)
        self.record.begin(trial)
        return trial

    def finish(self, trial: Trial) -> None:
        self.record.finish(trial, result(50.0), Cost(1, 0, 1.0))
        self.finished(trial)

    def fail(self, trial: Trial) -> bool:
        again = self.record.fail(trial, "broken", Cost())
        self.try_again(trial) if again else self.gave_up(trial)
        return again

    def drain(self) -> list[Trial]:
        """One worker runs all that is left."""
        trials = []
        while self.unfinished:
            trial = self.take()
            trials.append(trial)
            self.finish(trial)
        assert self.next() is FINISHED
        return trials


def test_new_first_stages_come_first_and_others_wait_for_theirs() -> None:
    queue = Driven(space_of({"eta": [0.01, 0.02], "kappa": [0.1, 0.2, 0.3]}))
    assert queue.unfinished == 6
    one, two = queue.take(), queue.take()
    assert [one.values["eta"], two.values["eta"]] == [0.01, 0.02]
    assert queue.next() is WAIT
    queue.stage_ready(two, 0)
    three = queue.take()
    assert three.values["eta"] == 0.02
    assert three.key != two.key
    queue.finish(one)  # its end is as good as its stage
    rest = [queue.take() for _ in range(3)]
    assert [trial.values["eta"] for trial in rest] == [0.01, 0.01, 0.02]
    assert queue.next() is WAIT
    assert queue.issued == queue.unfinished == 5
    for trial in (two, three, *rest):
        queue.finish(trial)
    assert queue.next() is FINISHED


def test_seeds_do_not_share_a_first_stage() -> None:
    queue = Driven(space_of({"kappa": [0.1, 0.2]}, seeds=[0, 1]))
    assert [queue.take().seed, queue.take().seed] == [0, 1]
    assert queue.next() is WAIT


def test_long_trials_come_before_short_ones() -> None:
    queue = Driven(space_of({"eta": [0.01, 0.02], "E_t": [5, 50], "kappa": [0.1, 0.2]}))
    lengths = [trial.values["E_t"] for trial in queue.drain()]
    assert lengths == [50, 50, 50, 50, 5, 5, 5, 5]


def test_without_reuse_nothing_waits() -> None:
    queue = Driven(space_of({"kappa": [0.1, 0.2, 0.3]}), reuse=False)
    assert len({queue.take().key for _ in range(3)}) == 3
    assert queue.next() is WAIT  # all run; none is left


def test_trials_with_the_same_chain_wait_for_all_of_it() -> None:
    queue = Driven(space_of({"kappa": [0.1, 0.2], "probe_lr": [0.1, 1.0]}))  # the probe reads no state's past
    one = queue.take()
    queue.stage_ready(one, 0)
    two = queue.take()
    assert two.values["kappa"] != one.values["kappa"]
    assert queue.next() is WAIT
    queue.finish(one)
    assert queue.take().values["kappa"] == one.values["kappa"]
    assert queue.next() is WAIT


def test_a_failed_owner_is_followed_by_the_next_that_waits() -> None:
    space = space_of({"kappa": [0.1, 0.2, 0.3]}, retries=1)
    queue = Driven(space)
    one = queue.take()
    assert queue.fail(one) is True
    two = queue.take()
    assert two.key != one.key
    assert queue.next() is WAIT  # the first stage is in the making again, by one only
    queue.stage_ready(two, 0)
    three, again = queue.take(), queue.take()
    assert again.key == one.key  # after all others
    assert queue.fail(again) is False
    assert queue.record.status(one) == "failed"
    queue.finish(two)
    queue.finish(three)
    assert queue.next() is FINISHED


def test_all_trials_fail_and_the_search_ends() -> None:
    queue = Driven(space_of({"eta": [0.01, 0.02], "kappa": [0.1, 0.2, 0.3]}, retries=2))
    attempts = 0
    while queue.unfinished:
        queue.fail(queue.take())
        attempts += 1
    assert queue.next() is FINISHED
    assert attempts == 6 * 3
    assert {entry.status for entry in queue.record.entries.values()} == {"failed"}


def test_pruned_and_interrupted_owners_let_the_next_take_over() -> None:
    queue = Driven(space_of({"kappa": [0.1, 0.2, 0.3]}, early_stop={"rungs": [1]}))
    one = queue.take()
    queue.record.interrupt(one, Cost())
    queue.try_again(one)
    two = queue.take()
    assert two.key != one.key
    queue.stage_ready(two, 0)
    queue.record.prune(two, Cost())
    queue.gave_up(two)
    assert {queue.take().key, queue.take().key} == {trial.key for trial in queue.space.trials()} - {two.key}
    assert queue.unfinished == 2


def test_what_ended_is_not_handed_out_again(tmp_path: Path) -> None:
    space, url = space_of({"eta": [0.01, 0.02], "kappa": [0.1, 0.2, 0.3]}), f"sqlite:///{tmp_path}/study.db"
    queue = Driven(space, StudyRecord.open(url, "s", space))
    one, two = queue.take(), queue.take()
    queue.finish(one)
    again = Driven(space, StudyRecord.open(url, "s", space))  # two was running when the driver died
    assert again.unfinished == 5
    free = [again.take() for _ in range(3)]  # the stages of one's chain are stored; two's may not be
    assert sorted(trial.values["eta"] for trial in free) == [0.01, 0.01, 0.02]  # type: ignore[type-var]
    assert again.next() is WAIT
    for trial in free:
        again.finish(trial)
    assert len(again.drain()) == 2
    assert two.key in again.record.finished()
    assert Driven(space, StudyRecord.open(url, "s", space)).next() is FINISHED


def test_tpe_does_not_draw_everything_while_a_stage_is_in_the_making() -> None:
    space = space_of({"kappa": [0.01 * i for i in range(1, 60)]}, algorithm="tpe", samples=40)
    queue = Driven(space)
    one = queue.take()
    assert queue.next() is WAIT
    assert queue.next() is WAIT
    assert queue.unfinished == 40
    queue.stage_ready(one, 0)
    assert isinstance(queue.next(), Trial)
