"""What the Python peers share: the request, and the measurement.

The measurement starts after the imports, when the export begins, and writes its figures to a file at the end.
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
        # The target of a pipe only waits for the tap, where the export begins.
        "startedAt": started * 1e3 if begins else None,
        "endedAt": time.time() * 1e3,
        "cpuMs": (end.ru_utime - usage.ru_utime + end.ru_stime - usage.ru_stime) * 1e3,
        # In KiB on Linux.
        "peakRssBytes": end.ru_maxrss * 1024,
    }
    if folder := os.environ.get("BENCH_FIGURES"):
        with open(os.path.join(folder, f"{name}.json"), "w") as file:
            json.dump(figures, file)
