"""A load generator that leaves the processors to the server: one thread, sockets that stay open, requests made beforehand."""
import collections
import re
import selectors
import socket
import time

LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.I)
PIECE = 1 << 16


class Client:
    """One connection: a request, its answer, the next request."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=120)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = bytearray()
        self.start = 0.0

    def send(self, request):
        self.received.clear()
        self.start = time.perf_counter()
        self.socket.sendall(request)  # fits the socket's buffer but for moments

    def receive(self):
        """The answer, where it is whole."""
        piece = self.socket.recv(PIECE)
        if not piece:
            raise SystemExit("the server has closed a connection")
        self.received += piece
        end = self.received.find(b"\r\n\r\n")
        if end < 0:
            return None
        length = LENGTH.search(self.received, 0, end + 2)
        if length is None:
            raise SystemExit(f"an answer without a length: {bytes(self.received[:200])}")
        return bytes(self.received) if len(self.received) >= end + 4 + int(length[1]) else None


def run(port, requests, concurrency, seconds, warm_up=1.0):
    """-> images a second, and latencies in ms, of what was answered within `seconds` after the warm-up. Returns when all is answered: else
    the server would go on at it while others are measured."""
    selector = selectors.DefaultSelector()
    queue = collections.deque(requests)

    def next_request():
        queue.rotate(-1)
        return queue[0]

    clients = [Client(port) for _ in range(concurrency)]
    for client in clients:
        selector.register(client.socket, selectors.EVENT_READ, client)
        client.send(next_request())
    begin = time.perf_counter() + warm_up
    latencies = []
    waiting = concurrency
    while waiting > 0:
        for event, _ in selector.select():
            answer = event.data.receive()
            if answer is None:
                continue
            if not answer.startswith(b"HTTP/1.1 200"):
                raise SystemExit(f"an answer that is none: {answer[:300]}")
            now = time.perf_counter()
            if begin <= now < begin + seconds:
                latencies.append(1000 * (now - event.data.start))
            if now < begin + seconds:
                event.data.send(next_request())
            else:
                waiting -= 1
    for client in clients:
        client.socket.close()
    return len(latencies) / seconds, sorted(latencies)


def ask(port, request):
    client = Client(port)
    client.send(request)
    while (answer := client.receive()) is None:
        pass
    client.socket.close()
    return answer.split(b"\r\n\r\n", 1)[1]
