"""The methods of the board, each set up as its page in docs/methods describes.

None is tuned to a cell. All share the `Scene`: data, noise, model, learning rate, rows a slot.
Side information that a method needs is correct: the board shows a method at its best there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tamis.lab.ablation import ABLATIONS
from tamis.lab.builders import (
    Estimating,
    Runner,
    adapting,
    auditing,
    confident_steps,
    decaying,
    disc,
    dividing,
    hedging,
    imprecise,
    losing,
    mixing,
    o2u,
    paired,
    remembering,
    rho_with_holdout,
    selecting,
    shifting,
    viewing,
)
from tamis.lab.scene import Scene
from tamis.losses import (
    GCE,
    MAE,
    SCE,
    Backward,
    Forward,
    LabelSmoothing,
    Ramp,
)
from tamis.noise import CrossValidation, Proportion
from tamis.selectors import (
    BARE,
    ELR,
    IDO,
    INCV,
    ITLM,
    OGRS,
    PCLOF,
    RHO,
    SSR,
    AdaptiveK,
    Confident,
    FixMatch,
    MentorNet,
    Mixture,
    Naive,
    Oracle,
    Plausible,
    TopoFilter,
)
from tamis.training.augment import Mixup
from tamis.training.pairs import CoTeaching, Decoupling, JoCoR

SLOW = 0.1
"""Share of the rate for losses without a lower bound, which diverge at the full one."""


@dataclass(frozen=True)
class Method:
    """A way to train: its name on the board, and how it is set up in a scene.

    `side_information` is what it needs beyond the data. `chunks` is how many slots its rows arrive
    over. `page` is its page in docs/methods.
    """

    name: str
    build: Callable[[Scene], Runner]
    page: str
    side_information: str = ""
    chunks: int = 1


def without(part: str, make: Callable[[], Plausible]) -> Method:
    """Return the method that is Plausible without a part."""
    build = selecting(lambda _: make(), warm_up=0)
    return Method(f"Plausible without {part}", build, "plausible")


VARIANTS = (
    *(without(part, make) for part, make in ABLATIONS.items()),
    Method("Plausible, 100 audited", auditing, "plausible", "100 checked labels"),
)
"""The board leaves them out; `tamis lab bench --methods` runs them by name."""
RATIO, KNOWN, ORACLE = "clean ratio", "confusion matrix", "every right label"
METHODS = (
    Method("naive", selecting(lambda _: Naive()), "ogrs"),
    Method("oracle", selecting(lambda _: Oracle()), "ogrs", ORACLE),
    Method("Plausible", selecting(lambda _: Plausible(), warm_up=0), "plausible"),
    Method("OGRS", selecting(lambda _: OGRS()), "ogrs"),
    Method("ITLM", selecting(lambda scene: ITLM(scene.clean_ratio)), "itlm", RATIO),
    Method(
        "ITLM, ratio by proportion",
        lambda scene: Estimating(scene.trainer(), Proportion()),
        "clean_ratio",
    ),
    Method(
        "ITLM, ratio by cross-validation",
        lambda scene: Estimating(scene.trainer(), CrossValidation()),
        "clean_ratio",
    ),
    Method("INCV", selecting(lambda _: INCV()), "incv"),
    Method("O2U", o2u, "o2u", RATIO),
    Method("MentorNet", selecting(lambda s: MentorNet(s.clean_ratio)), "mentornet", RATIO),
    Method("PCLOF", selecting(lambda _: PCLOF()), "open_set"),
    Method("TopoFilter", selecting(lambda _: TopoFilter()), "topofilter"),
    Method("confident learning", selecting(lambda _: Confident()), "confident"),
    Method("mixture of losses", selecting(lambda _: Mixture()), "mixture"),
    Method("BARE", selecting(lambda _: BARE()), "bare"),
    Method("Adaptive-k", selecting(lambda _: AdaptiveK()), "adaptive_k"),
    Method("RHO, average", selecting(lambda _: RHO()), "rho"),
    Method("RHO, holdout", rho_with_holdout, "rho", "1,000 more rows"),
    Method("ELR", selecting(lambda _: ELR()), "elr"),
    Method("SSR", mixing(lambda _: SSR(), 4.0), "ssr"),
    Method("DISC", disc, "disc"),
    Method("IDO", selecting(lambda _: IDO()), "ido"),
    Method("FixMatch", viewing(FixMatch), "fixmatch"),
    Method("FixMatch, oracle", viewing(lambda: FixMatch(Oracle())), "fixmatch", ORACLE),
    Method("DivideMix", dividing, "divide_mix"),
    Method("Decoupling", paired(Decoupling, knows_ratio=False), "decoupling"),
    Method("Co-teaching", paired(CoTeaching), "co_teaching", RATIO),
    Method("JoCoR", paired(JoCoR), "jocor", RATIO),
    Method("MAE", losing(lambda _: MAE()), "robust_losses"),
    Method("ramp", losing(lambda _: Ramp()), "robust_losses"),
    Method("GCE", losing(lambda _: GCE()), "robust_losses"),
    Method("SCE", losing(lambda _: SCE()), "robust_losses"),
    Method("label smoothing", losing(lambda _: LabelSmoothing()), "robust_losses"),
    Method("forward, running", losing(lambda _: Forward()), "loss_correction"),
    Method("backward, running", losing(lambda _: Backward(), SLOW), "loss_correction"),
    Method("forward, known", losing(lambda s: Forward(s.confusion())), "loss_correction", KNOWN),
    Method(
        "backward, known", losing(lambda s: Backward(s.confusion()), SLOW), "loss_correction", KNOWN
    ),
    Method("noise adaptation", adapting, "noise_adaptation"),
    Method("ILL", imprecise, "ill"),
    Method("mixup", lambda scene: scene.trainer(augment=Mixup()), "mixup"),
    Method("shifted images", shifting(), "mixup"),
    Method("Plausible, shifted images", shifting(Plausible, warm_up=0), "plausible"),
    Method("weight decay", decaying, "robust_losses"),
    Method("CAdam", confident_steps, "cadam"),
    Method("hedge over depths", hedging, "hedge"),
    Method("PuriDivER", remembering, "puridiver", chunks=100),
)  # fmt: skip
