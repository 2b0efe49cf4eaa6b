"""What many tests need."""

from __future__ import annotations

import signal

import pytest
import torch
from hypothesis import HealthCheck, settings
from torch import Generator, nn

from tamis.data import Samples

# Hypothesis times its examples; a busy machine is no failure.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# A shell that starts tests in the background has them ignore Ctrl-C, and so would all commands
# that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def generator() -> Generator:
    return Generator().manual_seed(0)


@pytest.fixture
def blobs(generator: Generator) -> Samples:
    """Three classes far apart in the plane; 30% of the labels are wrong."""
    labels = torch.randint(3, (300,), generator=generator)
    centres = torch.tensor([[0.0, 3.0], [3.0, -2.0], [-3.0, -2.0]])
    inputs = centres[labels] + 0.5 * torch.randn(300, 2, generator=generator)
    clean = torch.rand(300, generator=generator) < 0.7
    return Samples.of(inputs, torch.where(clean, labels, (labels + 1) % 3), clean=clean)


@pytest.fixture
def blob_model() -> nn.Module:
    """A model that knows the three classes, so that wrong labels have high losses."""
    model = nn.Linear(2, 3)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[0.0, 1.0], [1.0, -0.6], [-1.0, -0.6]]))
        model.bias.zero_()
    return model
