"""What the job has recorded about topics' cleanup policies: from which offset on a log was never compacted.

The present policy does not say what happened under an earlier one. *Example.* A broker was away while the others
compacted. It comes back after the policy was set to ``delete``. So it holds records that the others have cleaned, until
retention deletes them, and nothing is wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow as pa
import structlog

from parallax.audit.plan import PolicyHistory, TopicTraits
from parallax.compare.suspect import Suspect
from parallax.errors import one_line
from parallax.model import FindingKind, TopicPartition
from parallax.views.tables import PROGRESS, rust_uri

log = structlog.get_logger(__name__)

# The leader's log end is as far as any replica had come. The first such look is the one that counts: what lies beyond
# was written later.
_QUERY = """WITH known AS (SELECT * FROM progress WHERE topic IN ({topics})),
    compacting AS (
        SELECT topic, topic_id, max(policy_at) AS at FROM known WHERE cleanup_policy LIKE '%compact%' GROUP BY 1, 2
    ),
    dated AS (
        SELECT k.*, c.at AS compacted_at FROM known k
        LEFT JOIN compacting c ON k.topic = c.topic AND k.topic_id IS NOT DISTINCT FROM c.topic_id
    ),
    since AS (
        SELECT topic, partition, topic_id, min(observed_at) AS at FROM dated
        WHERE reachable AND broker = leader AND cleanup_policy NOT LIKE '%compact%' AND observed_at >= policy_at
        AND (compacted_at IS NULL OR policy_at > compacted_at)
        GROUP BY 1, 2, 3
    )
    SELECT d.topic, d.partition, d.topic_id, max(d.log_end_offset) AS log_end, max(d.compacted_at) AS compacted_at
    FROM dated d JOIN since s
    ON d.topic = s.topic AND d.partition = s.partition AND d.topic_id IS NOT DISTINCT FROM s.topic_id
    WHERE d.observed_at <= s.at GROUP BY 1, 2, 3"""


def policy_histories(storage: str, topics: Collection[str]) -> dict[tuple[TopicPartition, str], PolicyHistory]:
    """By partition and topic id, what the table ``progress`` says about the topic's cleanup policies.

    Empty if the table does not exist or cannot be read. Then any record may have been compacted.

    Args:
        storage: ``storage.path``.
        topics: names of topics.
    """
    from deltalake import DeltaTable, QueryBuilder
    from deltalake.exceptions import DeltaError

    if not topics:
        return {}
    uri = rust_uri(storage, PROGRESS)
    names = ", ".join("'" + topic.replace("'", "''") + "'" for topic in sorted(topics))
    try:
        if not DeltaTable.is_deltatable(uri):
            return {}
        asked = QueryBuilder().register("progress", DeltaTable(uri))
        rows = pa.table(asked.execute(_QUERY.format(topics=names))).to_pylist()
    except (DeltaError, OSError, pa.ArrowException) as error:
        what = "an audit goes by the policies of now; where a topic was compacted before, it may say unknown"
        log.warning("the recorded cleanup policies cannot be read", error=one_line(error), what=what)
        return {}
    return {
        (TopicPartition(row["topic"], row["partition"]), row["topic_id"] or ""): PolicyHistory(
            row["log_end"], was_compacted=row["compacted_at"] is not None
        )
        for row in rows
    }


def compact_by_now(before: Mapping[str, TopicTraits], after: Mapping[str, TopicTraits]) -> set[str]:
    """The topics that were not compacted when an audit began, and that are compacted now, or may be.

    A record of them that one replica lacks may have been compacted during the audit.

    Args:
        before: by topic, its traits when the audit began.
        after: by topic, its traits now.
    """
    return {
        topic
        for topic, kind in before.items()
        if not kind.compacted and (after[topic].compacted or after[topic].unknown is not None)
    }


def needs_no_cleaner(suspect: Suspect) -> bool:
    """Whether a suspect proves something only if no cleaner has compacted its topic.

    True for a missing record without a key. True also for a suspect whose observations say ``uncompacted``: the
    comparison took its offsets for never compacted.
    """
    accusation = suspect.accusation
    lost = suspect.kind is FindingKind.RECORD_MISSING and not (accusation.key_hash_hi or accusation.key_hash_lo)
    return lost or bool(accusation.observations.get("uncompacted"))


__all__ = ["compact_by_now", "needs_no_cleaner", "policy_histories"]
