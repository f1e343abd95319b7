"""A PostgreSQL server for a test: says its URL, then stops or starts at each line that says so, and answers `done`."""

import sys

from timeleap.cli.private_cluster import Cluster, private_cluster

with private_cluster(Cluster) as cluster:
    sys.stdout.write(f"{cluster.url()}\n")
    sys.stdout.flush()
    for line in sys.stdin:
        if line.strip() == "stop":
            cluster.stop()
        else:
            cluster.start()
        sys.stdout.write("done\n")
        sys.stdout.flush()
