"""The rules of `flowdiag memory`, in report order. Each rule has one file, and one line here."""

from typing import Final

from flowdiag.analyses.memory import out_of_memory
from flowdiag.analyses.memory.rules import (
    filling_heap,
    misread_options,
    rejected_memory_options,
    sizes_not_in_effect,
    tight_network_memory,
    too_few_network_buffers,
    unmanaged_rocksdb,
    unused_managed_memory,
    waiting_pods,
)
from flowdiag.analyses.model.rule import Rule

RULES: Final[tuple[Rule, ...]] = (
    # MM1xx: the configuration
    rejected_memory_options.RULE,
    misread_options.RULE,
    sizes_not_in_effect.RULE,
    # MM2xx: network buffers
    too_few_network_buffers.RULE,
    tight_network_memory.RULE,
    # MM3xx: the pools
    out_of_memory.RULE,
    unused_managed_memory.RULE,
    unmanaged_rocksdb.RULE,
    filling_heap.RULE,
    waiting_pods.RULE,
)
