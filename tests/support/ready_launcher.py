"""Has a process that is ready run `timeleap` with our arguments (`tests.support.ready`). Imports as little as can be."""

import _socket  # type: ignore[import-not-found]
import array
import os
import sys

connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
connection.connect(sys.argv[1])
told = [os.getcwdb(), b"%d" % (len(sys.argv) - 2), *map(os.fsencode, sys.argv[2:])]
told += [b"%b=%b" % item for item in os.environb.items()]
data = b"\0".join(told)
streams = array.array("i", [0, 1, 2]).tobytes()
connection.sendmsg([b"%16d" % len(data)], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
view = memoryview(data)
while view:
    view = view[connection.send(view) :]
for stream in (0, 1, 2):  # whoever reads its output, or writes its input, is to see when the other one ends
    os.close(stream)
code = int(connection.recv(16) or b"1")
if code < 0:
    os.kill(os.getpid(), -code)
os._exit(code)
