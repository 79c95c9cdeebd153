"""What a run folder holds."""
import html
import json
import re

import numpy

from fovea._library import core
from fovea.data._values import path_of

_CHART = re.compile(r'<figure class="chart".*?<figcaption>(?P<title>.*?)</figcaption>.*?(?P<svg><svg.*?</svg>)</figure>', re.S)
_STYLE = re.compile(r"<style>.*?</style>", re.S)


def load_run(folder):
    """A Run: metrics, settings, the last evaluation and the figures of the report, of a run that is done or still trains."""
    folder = path_of(folder, "load_run: folder")
    return Run(folder, core.read_run(folder))


class Run:
    """name, config (the text of config.yaml), settings ({"optim.lr": "0.001", ...}), evaluation (of the whole run's end, as in
    evaluation.json; None before), notes (what is missing or damaged)."""

    def __init__(self, folder, content):
        self.folder, self.name = folder, content["name"]
        self.config, self.settings, self.notes = content["config"], content["config_values"], content["notes"]
        self.evaluation = json.loads(content["evaluation"]) if content["evaluation"] else None
        self._curves = {split: {name: (x.numpy(), y.numpy()) for name, (x, y) in curves.items()}
                        for split, curves in content["curves"].items()}

    @property
    def splits(self):
        """Usually "train" and "val"."""
        return list(self._curves)

    def curve(self, metric, split="train"):
        """(steps, values) of one metric, float64."""
        curves = self._curves.get(split, {})
        if metric not in curves:
            raise KeyError(f"{self.folder}: no '{metric}' of split '{split}'; there are {sorted(curves) or 'none'}")
        return curves[metric]

    def table(self, split="train"):
        """{"step": [...], metric: [...]}: arrays of one length, NaN where a line of metrics.jsonl does not have the metric."""
        curves = self._curves.get(split, {})
        steps = numpy.unique(numpy.concatenate([x for x, _ in curves.values()])) if curves else numpy.empty(0)
        table = {"step": steps.astype(numpy.int64)}
        for name, (x, y) in curves.items():
            column = numpy.full(len(steps), numpy.nan)
            column[numpy.searchsorted(steps, x)] = y
            table[name] = column
        return table

    def frame(self, split="train"):
        """The table as a pandas.DataFrame with the step as its index."""
        import pandas
        return pandas.DataFrame(self.table(split)).set_index("step")

    def figures(self):
        """{title: SVG text}: the charts of the report, each a picture by itself."""
        page = core.render_report(self.folder)
        style = _STYLE.search(page)
        opening = '<svg xmlns="http://www.w3.org/2000/svg" '
        return {html.unescape(re.sub(r"<.*?>", "", chart["title"])):
                chart["svg"].replace("<svg ", opening, 1).replace(">", f">{style.group() if style else ''}", 1)
                for chart in _CHART.finditer(page)}

    def report(self, out=""):
        """Writes the report, one HTML file that needs nothing else; as a rule report.html in the folder -> its path."""
        return core.write_report(self.folder, path_of(out, "report: out"))

    def __repr__(self):
        lines = ", ".join(f"{len(self.table(split)['step'])} lines of {split}" for split in self.splits)
        return f"<fovea.Run {self.folder}: {lines or 'no metrics'}>"
