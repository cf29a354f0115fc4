"""What a worker measures of itself."""

from __future__ import annotations

import time

from co2l.search.running.load import Load


def test_a_busy_process_and_one_that_waits() -> None:
    load = Load()
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass
    busy = load.read()
    time.sleep(0.05)
    waiting = load.read()
    assert busy["system/cpu_utilization_percentage"] > 2 * waiting["system/cpu_utilization_percentage"]
    assert waiting["system/cpu_utilization_percentage"] >= 0
    assert 10 < busy["system/memory_peak_megabytes"] < 100_000
