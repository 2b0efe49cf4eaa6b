"""A run as an ML backend of Label Studio: predictions there, annotations trained on here.

https://labelstud.io/guide/ml_create and https://labelstud.io/guide/webhook_reference describe what
Label Studio sends.
"""

from tamis.web.label_studio.annotations import Annotations
from tamis.web.label_studio.config import LabelConfigError, LabelControl, read_config
from tamis.web.label_studio.tasks import Guess, given_label, guess_of, inputs_of, task_id
from tamis.web.label_studio.webhooks import Change, LabelRecord, WebhookError, read_webhook

__all__ = [
    "Annotations",
    "Change",
    "Guess",
    "LabelConfigError",
    "LabelControl",
    "LabelRecord",
    "WebhookError",
    "given_label",
    "guess_of",
    "inputs_of",
    "read_config",
    "read_webhook",
    "task_id",
]
