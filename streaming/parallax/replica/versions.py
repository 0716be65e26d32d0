"""Which versions of Kafka's requests Parallax uses: for each request the lowest and the highest.

Reasons for the lowest ones, from Kafka's sources (4.2: ReplicaManager, FetchParams, KafkaApis) and KIPs:

- A follower answers a consumer's Fetch from version 11 on; below 11 only the leader answers. Version 12 is the first in
  which the broker checks the epoch of what was read before (KIP-595). Version 13 names topics by their ids (KIP-516).
  If a broker has another topic of the same name, it then reports an error instead of showing that topic's log
  (``ReplicaManager.readFromLog``).
- DescribeLogDirs says from version 4 on how large a directory's volume is (KIP-827).
- Metadata says from version 8 on what the user may do with a topic (KIP-430).
- ListOffsets gives from version 8 on the first offset on the broker's disk, if a log is partly in tiered storage
  (KIP-405).
"""

from __future__ import annotations

from typing import NamedTuple


class Versions(NamedTuple):
    """The lowest and the highest version in which a request may be sent."""

    lowest: int
    highest: int


API_VERSIONS = Versions(0, 0)
"""Version 0 is understood by every broker and needs no fallback (KIP-35)."""
SASL_HANDSHAKE = Versions(1, 1)
SASL_AUTHENTICATE = Versions(0, 1)
METADATA = Versions(5, 12)
METADATA_WITH_OPERATIONS = Versions(8, 12)
DESCRIBE_CONFIGS = Versions(1, 4)
INCREMENTAL_ALTER_CONFIGS = Versions(0, 1)
DESCRIBE_LOG_DIRS = Versions(4, 4)
LOG_DIR_STATES = Versions(1, 4)
FETCH = Versions(11, 12)
FETCH_BY_ID = Versions(11, 13)
FETCH_WITH_EPOCH = Versions(12, 12)
LIST_OFFSETS = Versions(4, 7)
LIST_LOCAL_OFFSETS = Versions(8, 9)
DESCRIBE_PRODUCERS = Versions(0, 0)
LIST_TRANSACTIONS = Versions(0, 1)
DESCRIBE_TRANSACTIONS = Versions(0, 0)
LIST_GROUPS = Versions(0, 4)
OFFSET_FETCH = Versions(8, 9)
"""Version 8 asks for many groups together (Kafka 3.0); version 10 names topics by their ids only."""
DESCRIBE_TOPIC_PARTITIONS = Versions(0, 0)
"""Kafka 3.8 has it first."""
DESCRIBE_CLUSTER = Versions(0, 1)
ALTER_PARTITION_REASSIGNMENTS = Versions(0, 0)
LIST_PARTITION_REASSIGNMENTS = Versions(0, 0)
ELECT_LEADERS = Versions(1, 2)
WRITE_TXN_MARKERS = Versions(1, 1)
"""Version 2 adds the transaction's version (KIP-1228).

With it a leader wants an epoch newer than the last that it remembers. An end marker that comes late has none.
"""
