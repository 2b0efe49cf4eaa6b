"""Several labels for a row: a posterior for each row, a running confusion for each annotator."""

from tamis.noise.annotators.crowd import Annotators
from tamis.noise.annotators.decline import Decline
from tamis.noise.annotators.joint_labels import JointLabels

__all__ = ["Annotators", "Decline", "JointLabels"]
