"""What is known about the labels: the tracker, the drift alarm, annotators, the clean ratio."""

from tamis.noise.agreement import AgreementFit, Observed
from tamis.noise.alarm import Alarm, Change
from tamis.noise.annotators import Annotators, Decline, JointLabels
from tamis.noise.audit import audit_band
from tamis.noise.cross_validation import CrossValidation
from tamis.noise.proportion import Proportion
from tamis.noise.tracker import Estimate, Tracker

CLEAN_RATIOS = (Proportion, CrossValidation)

__all__ = [
    "CLEAN_RATIOS",
    "AgreementFit",
    "Alarm",
    "Annotators",
    "Change",
    "CrossValidation",
    "Decline",
    "Estimate",
    "JointLabels",
    "Observed",
    "Proportion",
    "Tracker",
    "audit_band",
]
