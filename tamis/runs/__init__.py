"""The folder of a run, as files: layout, metadata, JSON lines, history, suspects, decisions."""

from tamis.runs.audit import AuditRow, AuditSample, AuditTally, write_audit
from tamis.runs.decisions import Action, Decision, Decisions
from tamis.runs.estimates import AlarmRecord, EstimateHistory, EstimateLog, EstimatePoint
from tamis.runs.history import History
from tamis.runs.json_lines import Tail, add_line, read_lines
from tamis.runs.layout import RunFiles
from tamis.runs.metadata import RunMetadata, read_metadata, write_metadata
from tamis.runs.run import NoRunError, Run
from tamis.runs.suspect_index import SuspectIndex
from tamis.runs.suspects import Suspect, write_suspects, write_suspects_csv

__all__ = [
    "Action",
    "AlarmRecord",
    "AuditRow",
    "AuditSample",
    "AuditTally",
    "Decision",
    "Decisions",
    "EstimateHistory",
    "EstimateLog",
    "EstimatePoint",
    "History",
    "NoRunError",
    "Run",
    "RunFiles",
    "RunMetadata",
    "Suspect",
    "SuspectIndex",
    "Tail",
    "add_line",
    "read_lines",
    "read_metadata",
    "write_audit",
    "write_metadata",
    "write_suspects",
    "write_suspects_csv",
]
