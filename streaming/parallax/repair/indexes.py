"""Plans what only a person can do: have a broker rebuild a wrong index of aborted transactions from its log. Pure.

Kafka has no request for it. A broker rebuilds the indexes of a segment when it starts and the segment's ``.index`` is
missing.
"""

from __future__ import annotations

from parallax.findings.repair import rebuild_index, show_at
from parallax.remedies import Act
from parallax.repair.seen import Look
from parallax.repair.steps import PersonStep
from parallax.shell import Shell


def indexes(look: Look, shell: Shell) -> tuple[PersonStep, ...]:
    """Return a step for each finding whose only cause is a wrong index on one broker: the log itself is right.

    The steps come in the order of the findings' ids; none if no finding has such an index
    (`parallax.repair.claims.WrongIndex`).

    Args:
        look: a look at the partition.
        shell: how commands name the cluster and the job.
    """
    made = []
    for claim in look.claims:
        if claim.index is None:
            continue
        broker, name = claim.index.broker, f"broker {claim.index.broker}"
        segment = "the segment that holds its end marker" if claim.index.marker_offset >= 0 else "all segments"
        made.append(
            PersonStep(
                number=0,
                act=Act.REBUILD_INDEX,
                title=f"{Act.REBUILD_INDEX.begin(wrong=name)} in {look.place.name}.",
                needs=(
                    f"finding {claim.finding}: the log of {name} is right, and only its index is wrong",
                    f"a restart of {name} that `parallax roll {broker}` allows",
                    f"rights on the disk of {name}",
                ),
                changes=f"{name.capitalize()} reads {segment} and writes the indexes of it again. The log stays as it "
                "is. What its cleaner took by the wrong index does not come back: then the finding stays open.",
                takes="A restart of the broker, and a reading of what it recovers. Nothing is copied.",
                half_way="A broker that starts without an .index writes it from the log, however often it starts.",
                undo="Not needed: the log is not changed.",
                by_hand=rebuild_index(look.place, broker, claim.index.marker_offset),
                warning="Remove no .log file. While the broker is stopped the partition has one replica less.",
                broker=broker,
                finding=claim.finding,
                check=f"{show_at(look.place, claim.index.record_offset, shell)}\n"
                f"It worked once {name} shows the same outcome as the brokers that are right.",
            )
        )
    return tuple(made)


__all__ = ["indexes"]
