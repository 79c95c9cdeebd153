"""Other things in a file's place, and files that change while they are read."""
import contextlib
import os
import shutil
import socket

from . import texts

SPARSE_BYTES = 1 << 40


def link_to(target):
    def put(path, data, source):
        del data, source
        path.symlink_to(target)
    return put


def fifo(path, data, source):
    del data, source
    os.mkfifo(path)


def listening_socket(path, data, source):
    del data, source
    here = os.open(path.parent, os.O_PATH)  # a socket's path has 107 characters at most
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"/proc/self/fd/{here}/{path.name}")
    os.close(here)


def folder(path, data, source):
    del data
    path.mkdir()
    if source.random() < 0.5:
        (path / "inside").write_bytes(b"x")


def loop(path, data, source):
    del data, source
    path.symlink_to(path.name)


def missing(path, data, source):
    del path, data, source


def empty(path, data, source):
    del data, source
    path.write_bytes(b"")


def sparse(path, data, source):
    """The file, and then a hole to the end of a terabyte."""
    path.write_bytes(data if source.random() < 0.7 else b"")
    os.truncate(path, SPARSE_BYTES)


NODES = {"fifo": fifo, "/dev/zero": link_to("/dev/zero"), "/dev/full": link_to("/dev/full"), "/dev/null": link_to("/dev/null"),
         "socket": listening_socket, "folder": folder, "symlink loop": loop, "missing": missing, "empty": empty,
         "sparse terabyte": sparse, "dangling link": link_to("nowhere")}


def put_node(kind, path, source):
    data = path.read_bytes() if path.is_file() else b""
    remove(path)
    NODES[kind](path, data, source)


def rename(path, source):
    """Another name, with the same ending."""
    names = [name for name in texts.NAMES if name and b"/" not in name and b"\0" not in name and len(name) < 200]
    path.rename(path.with_name(os.fsdecode(source.choice(names)) + path.suffix))


def remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


class Moving:
    """Changes a file again and again while the program runs; called from time to time, `moves` says how."""

    def __init__(self, path, source, how):
        self.path, self.source, self.how = path, source, how
        self.data = path.read_bytes()
        self.begin = source.random() * 0.4  # s
        self.is_whole = True

    def __call__(self, seconds):
        if seconds < self.begin:
            return
        with contextlib.suppress(OSError):
            self.move()

    def move(self):
        if self.how == "shrinks":
            self.begin = float("inf")
            os.truncate(self.path, self.source.randrange(len(self.data) + 1))
        elif self.how == "grows":
            with open(self.path, "ab") as file:
                file.write(self.data[:4096] or b"x")
        elif self.how == "replaced":
            other = self.path.with_name("." + self.path.name + ".other")
            other.write_bytes(self.data if self.source.random() < 0.5 else self.data[:self.source.randrange(len(self.data) + 1)])
            os.replace(other, self.path)
        else:  # shrinks, and is whole again
            if self.is_whole:
                os.truncate(self.path, self.source.randrange(len(self.data) + 1))
            else:
                with open(self.path, "r+b") as file:
                    file.write(self.data)
            self.is_whole = not self.is_whole


MOVES = ["shrinks", "grows", "replaced", "flickers"]
