"""A PostgreSQL server for a test: says its URL, then stops or starts at each line that says so, and answers `done`."""

import sys

from timeleap.cli.private_cluster import Cluster, private_cluster

with private_cluster(Cluster) as cluster:
    print(cluster.url(), flush=True)
    for line in sys.stdin:
        if line.strip() == "stop":
            cluster.stop()
        else:
            cluster.start()
        print("done", flush=True)
