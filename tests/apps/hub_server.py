"""An imitation of the Hugging Face hub on this machine: the hub itself, and the host that large files come from, at another
address. For tests/apps/hub_test.py."""
import hashlib
import http.server
import threading
import urllib.parse

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = (".safetensors", ".bin")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, headers=(), body=b""):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self):
        self.do_GET()


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, handler, owner, host):
        super().__init__(("127.0.0.1", 0), handler)
        self.owner, self.url = owner, f"http://{host}:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()


class HubHandler(Handler):
    def refuse(self, status, code):
        self.answer(status, [("X-Error-Code", code), ("X-Error-Message", code)])

    def do_GET(self):
        hub = self.server.owner
        hub.requests.append((self.command, self.path))
        words = urllib.parse.unquote(self.path).strip("/").split("/")
        if "resolve" not in words:
            return self.refuse(404, "RepoNotFound")
        at = words.index("resolve")
        name, revision, file = "/".join(words[:at]), words[at + 1], "/".join(words[at + 2:])
        if name in hub.renamed:
            return self.answer(307, [("Location", self.path.replace(name, hub.renamed[name], 1))])
        files = hub.repositories.get(name)
        if files is None:
            return self.refuse(401, "RepoNotFound")
        if name in hub.gated and self.headers.get("Authorization") != f"Bearer {hub.token}":
            return self.refuse(401, "GatedRepo")
        if revision not in ("main", COMMIT):
            return self.refuse(404, "RevisionNotFound")
        if file not in files:
            return self.answer(404, [("X-Error-Code", "EntryNotFound"), ("X-Repo-Commit", COMMIT)])
        body, headers = files[file], [("X-Repo-Commit", COMMIT)]
        if not file.endswith(LARGE):
            etag = hashlib.sha1(b"blob %d\0" % len(body) + body).hexdigest()
            return self.answer(200, [*headers, ("ETag", f'"{etag}"')], body)
        etag = hashlib.sha256(body).hexdigest()
        return self.answer(302, [*headers, ("X-Linked-Etag", f'"{etag}"'), ("X-Linked-Size", str(len(body))),
                                 ("Location", f"{hub.content.url}/{name}/{file}")])


class ContentHandler(Handler):
    def do_GET(self):
        hub = self.server.owner
        if self.headers.get("Authorization"):
            hub.leaked.append(self.path)
            return self.answer(500)
        name, _, file = self.path.strip("/").rpartition("/")
        body = hub.repositories[name][file]
        first = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").removesuffix("-"))
        hub.sent_from.append(first)
        self.send_response(206 if first else 200)
        if first:
            self.send_header("Content-Range", f"bytes {first}-{len(body) - 1}/{len(body)}")
        self.send_header("Content-Length", str(len(body) - first))
        self.end_headers()
        if hub.halves and not first:
            self.wfile.write(body[:len(body) // 2])
            self.wfile.flush()
            hub.half_is_sent.set()
            hub.go_on.wait(60)
            self.close_connection = True
            return None
        self.wfile.write(body[first:])
        return None


class Hub:
    """repositories: name -> {file: bytes}. While `halves`, a large file stops in its middle until go_on is set, and then its
    connection ends."""

    def __init__(self):
        self.repositories, self.renamed, self.gated, self.token = {}, {}, set(), "hf_secret"
        self.requests, self.leaked, self.sent_from = [], [], []
        self.halves, self.half_is_sent, self.go_on = False, threading.Event(), threading.Event()
        self.content = Server(ContentHandler, self, "localhost")
        self.server = Server(HubHandler, self, "127.0.0.1")
        self.url = self.server.url

    def close(self):
        self.go_on.set()
        for server in (self.server, self.content):
            server.shutdown()
            server.server_close()
