"""Golden files of what no other maker writes: HDF5 with Fletcher's sums, and without its numbers.

python tools/golden/make_checksums.py   (numpy 2.4.6, h5py 3.16.0, safetensors 0.8.0)

tests/golden/data_checksums.safetensors: file.hdf5_fletcher32 [bytes], with the array images [2, 4, 6] of float32 in
chunks of one sample, each with its sum; values.hdf5_fletcher32 [2, 4, 6]. file.hdf5_empty [bytes]: images
[2, 1024, 1024, 1024] of uint16 that nobody wrote. file.npz_blank [bytes]: images [200, 1000] of
uint8, all 0, deflated.
"""

import io
import pathlib

import h5py
import numpy as np
from safetensors.numpy import save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
values = np.random.default_rng(3).standard_normal((2, 4, 6)).astype(np.float32)
stream = io.BytesIO()
with h5py.File(stream, "w") as file:
    file.create_dataset("images", data=values, chunks=(1, 4, 6), fletcher32=True, track_times=False)
empty = io.BytesIO()
with h5py.File(empty, "w") as file:
    file.create_dataset("images", shape=(2, 1024, 1024, 1024), dtype="u2", chunks=(1, 8, 64, 64), track_times=False)
blank = io.BytesIO()
np.savez_compressed(blank, images=np.zeros((200, 1000), np.uint8))
save_file({"file.npz_blank": np.frombuffer(blank.getvalue(), np.uint8),
           "file.hdf5_empty": np.frombuffer(empty.getvalue(), np.uint8),
           "file.hdf5_fletcher32": np.frombuffer(stream.getvalue(), np.uint8), "values.hdf5_fletcher32": values},
          ROOT / "tests" / "golden" / "data_checksums.safetensors",
          metadata={"numpy": np.__version__, "h5py": h5py.__version__})
