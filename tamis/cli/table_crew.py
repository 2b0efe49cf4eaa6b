"""`tamis train` as one of many ranks."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace

from tamis.cli.building import build_selector, scale_of
from tamis.cli.console import plain_console
from tamis.cli.crew import Crew
from tamis.cli.running import check_options
from tamis.cli.schema_table import print_table
from tamis.cli.train_table import read_table, run_table, table_settings, table_trainer
from tamis.distributed.stream import LeadTable
from tamis.errors import UsageError
from tamis.runs import RunFiles
from tamis.sources import Rejects, Validator
from tamis.sources.table_shards import ShardPlayback


def table_in_crew(options: Namespace, crew: Crew) -> int:
    """Train on a table; the first rank owns the run."""
    console = plain_console()
    with crew.starting():
        if crew.first:
            check_options(options)
        selector = build_selector(options.selector, options.set)
        validator = Validator(on_bad="skip")
        table = read_table(options, validator, console)
        print_table(table, console, complete=False)
        if table.unlabelled:
            raise UsageError(f"{options.file} has rows without a label: leave out --workers.")
        trainer = table_trainer(options, table, selector, validator, crew.build)
        table = replace(table, rows_per_slot=options.rows_per_slot)
        streams = [
            ShardPlayback(table, shard.validator, shard.number, crew.shards)
            for shard in trainer.shards
        ]
        for shard in trainer.shards:
            shard.validator.scale = scale_of(trainer.model)
        member = crew.member(trainer, streams, table_settings(table), live=False)
    if not crew.first:
        member.follow()
        return 0
    lead = crew.lead(member, Rejects(options.out / RunFiles.rejects))
    lead.validator.scale = scale_of(trainer.model)
    return run_table(options, table, lead, LeadTable(lead, table), crew.checkpoints())
