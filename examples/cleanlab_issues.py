"""Label issues by cleanlab, from what the model thought of each row before it learned from it."""

import torch

from tamis import Plausible, Replay, Sliding, Trainer
from tamis.integrations.cleanlab import FirstLooks
from tamis.models import mlp, start
from tamis.streams import Symmetric, digits

data = digits()
stream = Replay(data.inputs, data.labels, Symmetric(10), lambda _: 0.7, slots=400, rows_per_slot=4)
model = start(mlp, data.input_shape, classes=10, seed=0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
trainer = Trainer(model, optimizer, Plausible(), Sliding(1000), k=32)

looks, clean = FirstLooks(), []
for samples in stream:
    looks.look(trainer.averaged, samples)
    trainer.step(samples)
    clean.append(samples.clean)

table = looks.issues(skip=200)  # the first rows were judged by a model that knew nothing
wrong = ~torch.cat(clean).numpy()
found = table.index[table.is_label_issue]
precision, recall = wrong[found].mean(), wrong[found].sum() / wrong[200:].sum()
print(table.head(3))
print(f"cleanlab: {len(found)} issues, precision {precision:.2f}, recall {recall:.2f}")
