"""What the peers in Python share: the request of the contract, and the clocks.

The clocks start when imports are done and the walk begins; the figures are left in a file at the end.
"""

import json
import os
import resource
import time
from contextlib import contextmanager

BODY = {"filter": {"date": {"gte": "2026-11-20T00:00:00Z"}}, "format": "XML", "container": "NONE"}
KEY_HEADER = {"X-SERVICE-API-KEY": "bench"}


@contextmanager
def measured(name, begins=True):
    usage = resource.getrusage(resource.RUSAGE_SELF)
    started = time.time()
    yield
    end = resource.getrusage(resource.RUSAGE_SELF)
    figures = {
        # The second half of a pipe waits for the first, where the walk begins.
        "startedAt": started * 1e3 if begins else None,
        "endedAt": time.time() * 1e3,
        "cpuMs": (end.ru_utime - usage.ru_utime + end.ru_stime - usage.ru_stime) * 1e3,
        # Linux counts it in KiB.
        "peakRssBytes": end.ru_maxrss * 1024,
    }
    if folder := os.environ.get("BENCH_FIGURES"):
        with open(os.path.join(folder, f"{name}.json"), "w") as file:
            json.dump(figures, file)
