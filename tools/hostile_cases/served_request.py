"""Sends a file, all the bytes of an HTTP request, to a `fovea serve` of its own, and ends as a command that read it would:
with 0 and the answer, or with 4 and the error. A server that fails at it (500), or does not end as it should, gives 1.

    python3 served_request.py FOVEA RECIPE FILE
"""
import contextlib
import pathlib
import signal
import socket
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))  # as a script its own folder is there
import served_program  # noqa: E402

WORD = "serve-request"  # of a command in the tables: `serve-request RECIPE FILE`
PATIENCE = 15  # s
OK, REFUSED, FAULT = 0, 4, 1


def exchange(port, request):
    """-> all that comes back."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection, contextlib.suppress(ConnectionError):
        with contextlib.suppress(OSError):  # refused before all of it was sent
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
        while piece := connection.recv(1 << 16):
            received += piece
    return received


def tell(name, received):
    """-> exit code"""
    head, _, body = received.partition(b"\r\n\r\n")
    status = head.split()[1:2]
    if status == [b"200"]:
        length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        sys.stdout.buffer.write(body[:length] + b"\n")
        return OK
    sys.stderr.buffer.write(f"{name}: ".encode() + (b" ".join(status) + b" " + body[:2000] if status else b"no answer") + b"\n")
    return FAULT if status == [b"500"] else REFUSED


def main():
    fovea, recipe, path = sys.argv[1:]
    with served_program.serving(fovea, f"{recipe}=tiny", "--threads", "1", "--max-body", "8") as (process, first):
        received = exchange(first["port"], pathlib.Path(path).read_bytes())
        process.send_signal(signal.SIGTERM)
        if process.wait(PATIENCE) != 0:
            print(f"{path}: the server ended with {process.returncode}", file=sys.stderr)
            return FAULT
    return tell(path, received)


if __name__ == "__main__":
    sys.exit(main())
