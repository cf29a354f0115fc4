"""A Ray on this machine that is begun before it is needed."""

from __future__ import annotations

import psutil

from co2l.search.running.local_ray import early_ray, local_ray


def test_one_that_nobody_needed_is_gone_at_once_with_its_folder() -> None:
    before = set(psutil.Process().children())
    with local_ray() as ray:
        assert ray.folder.is_dir()
        (starting,) = set(psutil.Process().children()) - before
        assert str(ray.folder) in starting.cmdline()
    assert not starting.is_running()
    assert not ray.folder.exists()


def test_none_is_begun_for_a_cluster_or_beside_one_that_runs(shared_ray: None) -> None:
    for address in (None, "head:6379"):
        with early_ray(address) as ray:
            assert ray is None


def test_two_searches_have_folders_of_their_own() -> None:
    with local_ray() as first, local_ray() as second:
        assert first.folder != second.folder
