"""What `spark-submit` starts: `rankcast run` with the arguments behind it.

    spark-submit --master ... deploy/pipeline.py pipeline.toml --metrics-port 9464

Master and settings are those of `spark-submit`, unless the pipeline's file names others.
"""

import sys

from rankcast.cli import main

if __name__ == "__main__":
    sys.exit(main(["run", *sys.argv[1:]]))
