"""Where Python workers come from: a process that has imported what all of them need, once.

Spark starts one such process an executor and forks every worker from it, but lets each worker import for
itself, which takes seconds of a core. With `spark.python.daemon.module` set to this module they begin with
everything there, in memory that they share. Only idle threads are running when it forks: those of Arrow,
which is made for that.

After every task a worker collects garbage, and looks through all objects for that: 0.1 s of a core, before it
can take the next task. So what was imported is set apart, where nobody looks for garbage.
"""

from __future__ import annotations

import gc

from pyspark import daemon, worker

from rankcast.core.spec import known_types
from rankcast.spark import batch, shard

IMPORTED = (worker, batch, shard, *(each for each in known_types() if each.spec.undivided is None))

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    daemon.manager()
