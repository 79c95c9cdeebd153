"""Goldens for fovea/train/metrics/knn.h: weighted k nearest neighbours of features in NumPy, by the formula of Wu et al.
(CVPR 2018, section 3.4), which DINO and DINOv2 use: cosine similarity s, votes exp(s / temperature).

    python tools/golden/make_knn.py
"""
import json
import pathlib

import numpy as np
from safetensors.numpy import save_file

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
CLASSES, BANK, QUERIES, WIDTH = 7, 90, 40, 12
KS, TEMPERATURE = [1, 10, 20], 0.07


def neighbours(query, bank, k):
    """Indices of the k rows of `bank` nearest to `query` by cosine, one query at a time, and the cosines."""
    cosines = np.array([row @ query / (np.sqrt(row @ row) * np.sqrt(query @ query)) for row in bank])
    order = sorted(range(len(bank)), key=lambda i: -cosines[i])[:k]
    return order, cosines[order]


def votes(query, bank, labels, k):
    order, cosines = neighbours(query, bank, k)
    out = np.zeros(CLASSES)
    for index, cosine in zip(order, cosines):
        out[labels[index]] += np.exp(cosine / TEMPERATURE)
    return out / out.sum()


def main():
    random = np.random.default_rng(7)
    # Classes overlap, so that the nearest neighbour, ten and twenty of them are right on different queries.
    centres = random.normal(size=(CLASSES, WIDTH))
    bank_labels = random.integers(0, CLASSES, BANK)
    labels = random.integers(0, CLASSES, QUERIES)
    bank = (centres[bank_labels] + 0.9 * random.normal(size=(BANK, WIDTH))) * random.uniform(0.1, 9, (BANK, 1))
    queries = (centres[labels] + 0.9 * random.normal(size=(QUERIES, WIDTH))) * random.uniform(0.1, 9, (QUERIES, 1))
    bank, queries = bank.astype(np.float32), queries.astype(np.float32)
    tensors = {"bank": bank, "bank_labels": bank_labels.astype(np.int64), "queries": queries,
               "labels": labels.astype(np.int64)}
    metrics = {}
    for k in KS:
        all_votes = np.stack([votes(q, bank.astype(np.float64), bank_labels, k) for q in queries.astype(np.float64)])
        ranked = np.argsort(-all_votes, axis=1, kind="stable")
        tensors[f"votes/{k}"] = all_votes
        metrics[f"knn{k}_top1"] = 100 * float((ranked[:, 0] == labels).mean())
        metrics[f"knn{k}_top5"] = 100 * float((ranked[:, :5] == labels[:, None]).any(1).mean())
    config = {"k": KS, "temperature": TEMPERATURE, "num_classes": CLASSES, "metrics": metrics}
    versions = {"numpy": np.__version__, "maker": "tools/golden/make_knn.py"}
    save_file(tensors, OUT / "knn.safetensors",
              metadata={"config": json.dumps(config), "versions": json.dumps(versions)})
    print(metrics)


if __name__ == "__main__":
    main()
