"""The parts of tools/hostile.

originals.py    what is damaged: a file, and the commands that read it
images.py arrays.py archives.py weights.py runs.py   the files themselves, one table a kind
http_requests.py served_request.py                   what `fovea serve` is sent
mutations.py texts.py nodes.py layers.py             the damage
process.py verdict.py                                the program's run, and the rules for what comes out
"""
