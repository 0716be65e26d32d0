"""The table of repairs: which ones end what is wrong, their steps, and the one line on each step.

The plans of ``parallax repair``, the explanation of a finding and the runbook take their texts from here. So no advice
is given in two places.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Act(StrEnum):
    """The kind of one step of a repair."""

    END_MARKER = "end_marker"
    LEAD = "lead"
    DROP = "drop"
    STAND_IN = "stand_in"
    COPY = "copy"
    ORDER = "order"
    DELETE_AGAIN = "delete_again"
    WRITE_AGAIN = "write_again"
    REBUILD_INDEX = "rebuild_index"
    ABORT = "abort"

    @property
    def template(self) -> str:
        """The line on the step: a command with fields in braces, as in ``let {right} lead``. It has no full stop."""
        return _LINES[self]

    def line(self, **fields: str) -> str:
        """Return the line of the step, with values for its fields.

        Args:
            fields: values by name of a field; for each that is left out, the line has general words such as "the
                partition".
        """
        return self.template.format(**(_GENERAL | fields))

    def begin(self, **fields: str) -> str:
        """Return the line of the step as the beginning of a sentence.

        Args:
            fields: values by name of a field, as for `line`.
        """
        line = self.line(**fields)
        return f"{line[:1].upper()}{line[1:]}"


_LINES: Mapping[Act, str] = {
    Act.END_MARKER: "write {marker} for {transaction}",
    Act.LEAD: "let {right} lead",
    Act.DROP: "have {wrong} drop its copy",
    Act.STAND_IN: "have {spare} copy {place}, and {wrong} drop its copy",
    Act.COPY: "give {wrong} a new copy",
    Act.ORDER: "give the replicas their order back",
    Act.DELETE_AGAIN: "have a deletion written once more",
    Act.WRITE_AGAIN: "have {what} written once more",
    Act.REBUILD_INDEX: "have {wrong} rebuild its index of aborted transactions",
    Act.ABORT: "abort {transaction} by kafka-transactions.sh",
}
_GENERAL: dict[str, str] = {
    "marker": "its end marker",
    "transaction": "the transaction",
    "right": "a right replica",
    "wrong": "the wrong replica",
    "spare": "another broker",
    "place": "the partition",
    "what": "what is right",
}


@dataclass(frozen=True, slots=True)
class Remedy:
    """One repair: its steps, and what to know of it whatever it ends.

    Attributes:
        name: how the runbook calls it; begins in lower case.
        by: who does it, as the runbook names it.
        acts: its steps, in order. A plan has only those that its partition needs, and `Act.STAND_IN` in place of
            `Act.DROP` if too few replicas would be left.
        note: what to know before; sentences of Markdown.
    """

    name: str
    by: str
    acts: tuple[Act, ...]
    note: str = ""


END_MARKER = Remedy(
    "an end marker in place",
    "`parallax repair`",
    (Act.END_MARKER,),
    "Nothing is copied. [Its conditions](operate/repair.md#end-markers-in-place): the plan checks them.",
)
DELETE_AGAIN = Remedy(
    "a deletion written again",
    "the owner of the key's producers",
    (Act.DELETE_AGAIN,),
    "Kafka's console producer picks the partition as Java's producers do, librdkafka another.",
)
COPY = Remedy(
    "a copy from a right leader",
    "`parallax repair`",
    (Act.LEAD, Act.DROP, Act.STAND_IN, Act.COPY, Act.ORDER),
    "Only a replica that `explain` calls right may lead: [why](operate/repair.md#a-copy-from-a-right-leader).",
)
BY_WORD = Remedy(
    "a copy by your word",
    "`parallax repair plan --right BROKER`",
    COPY.acts,
    "First compare with the system that wrote the records: a wrong choice deletes what was right.",
)
WRITE_AGAIN = Remedy(
    "the right record written again",
    "the owner of the topic",
    (Act.WRITE_AGAIN,),
)
REBUILD_INDEX = Remedy(
    "an index rebuilt",
    "a person, on the broker's disk",
    (Act.REBUILD_INDEX,),
    "Kafka rebuilds a `.txnindex` from the log if the `.index` of its segment is missing when the broker starts. **Do "
    "it only if `repair plan` or `explain` prints the commands**: if the cleaner took the end marker, the transaction "
    "would be open again. Values that it took by the wrong index do not come back.",
)
ABORT = Remedy(
    "an abort",
    "its owner",
    (Act.ABORT,),
    "It hides the records.",
)
REMEDIES = (END_MARKER, COPY, BY_WORD, REBUILD_INDEX, DELETE_AGAIN, WRITE_AGAIN, ABORT)


@dataclass(frozen=True, slots=True)
class Case:
    """One section of the runbook: what ends findings of one kind, or of several that need the same.

    Attributes:
        title: the section's heading.
        remedies: the repairs that end such a finding, the best first.
        note: what to know beyond the repairs; paragraphs of Markdown.
    """

    title: str
    remedies: tuple[Remedy, ...]
    note: str = ""

    @property
    def anchor(self) -> str:
        """The anchor of the section's heading in the runbook."""
        return self.title.lower().replace(" ", "-")

    @property
    def in_words(self) -> str:
        """The names of its repairs, as the end of a sentence: ``an end marker in place, else a copy ...``."""
        return ", else ".join(one.name for one in self.remedies)

    @property
    def begin(self) -> str:
        """The names of its repairs (`in_words`) as the beginning of a sentence."""
        return f"{self.in_words[:1].upper()}{self.in_words[1:]}"

    def has(self, act: Act) -> bool:
        """Whether any of the case's ``remedies`` contains this kind of step."""
        return any(act in one.acts for one in self.remedies)


MISSED_TOMBSTONE = Case("A missed tombstone", (DELETE_AGAIN, COPY, BY_WORD, WRITE_AGAIN))
MISSED_MARKER = Case(
    "A missed end marker",
    (END_MARKER, COPY, BY_WORD, WRITE_AGAIN),
    "The end marker helps only while the transaction is open there: once another marker has ended it wrongly, it takes "
    "a copy. `kafka-transactions.sh abort` would hide the data of a committed transaction.",
)
WRONG_INDEX = Case(
    "An index of aborted transactions that is wrong",
    (COPY, REBUILD_INDEX, BY_WORD, WRITE_AGAIN),
    "The log is right. If Kafka itself wrote it so, a copy may be no better.",
)
DIFFERENT_RECORDS = Case(
    "Values or records that differ",
    (COPY, BY_WORD, WRITE_AGAIN),
    "Look in the brokers' logs around `first_suspected_at` for unclean shutdowns, disk errors, long outages and "
    "unclean elections. If leader epochs say which record was replaced, the finding names the broker that holds it.",
)
LOST_HEAD = Case(
    "A log that lost its head",
    (COPY, BY_WORD, WRITE_AGAIN),
    "Segments or `log-start-offset-checkpoint` were lost on that broker. **Do not let it lead**: the others would take "
    "over its log start. If the policy once had `delete`, that may be the reason.",
)
WITHOUT_DIRECTION = Case(
    "Without direction",
    (WRITE_AGAIN, BY_WORD),
    "The replicas differ, and nothing proves who is wrong. The larger side may be wrong, and so may the leader. "
    "**Do not wipe, reassign or elect on its evidence**: the one that differs may hold the last right copy.",
)
HANGING = Case(
    "A transaction that hangs",
    (END_MARKER, ABORT),
    "No replica is wrong, so this is no finding. **First see whether a coordinator still lists it.** If none does, the "
    'job\'s log has "a transaction hangs", and the commands with their `--offset`. `parallax check` says the same, but '
    "only of a topic's first 20 partitions.\n\n"
    "**It hangs:** its producer's owner has to say whether to commit or abort it. The line names the transactional id "
    "if a coordinator knows it; else ask who writes to the topic. Unless an unclean election or a lost disk took the "
    "end marker, set the brokers' `transaction.partition.verification.enable=true`.\n\n"
    "**A coordinator lists it:** only that coordinator may end it. **Do not abort it by hand.** Look at its broker's "
    "log, and for partitions without a leader. A coordinator leaves out what Parallax may not describe: "
    "`parallax check` says whether the right is missing.",
)
REMOVED_FOLDER = Case(
    "A folder removed by hand",
    (COPY,),
    "Never stop a broker and remove a partition's folder to have it copied again. **That can lose the partition "
    "everywhere**, even with `unclean.leader.election.enable: false`: the controller does not know that the log is "
    "empty.\n\n"
    "If the broker is the last of the ISR, it is elected with the empty log, and the others truncate theirs. With "
    "Eligible Leader Replicas (ELR, KIP-966; new clusters have it from Kafka 4.1 on) also later, if "
    "the ISR without it is smaller than `min.insync.replicas`. A reassignment has no such risk: the controller knows "
    "that the new replica is empty.\n\n"
    "After a lost disk, first see that another replica is in the ISR of each partition. With ELR also remove the file "
    "`.kafka_cleanshutdown` at the top of the log directory if it survived the loss. Without it the controller takes "
    "the broker out of every ISR, and no longer counts it as eligible.",
)
SHARED = Case(
    "What all replicas share",
    (WRITE_AGAIN, DELETE_AGAIN, END_MARKER),
    "No copy can repair it. For a rolled-back transaction that is shown, that is the value before it of each key, or a "
    "tombstone. For what is missing it is the record, from its producer or from a consumer's sink.",
)
CASES = (
    MISSED_TOMBSTONE,
    MISSED_MARKER,
    WRONG_INDEX,
    DIFFERENT_RECORDS,
    LOST_HEAD,
    WITHOUT_DIRECTION,
    HANGING,
    SHARED,
    REMOVED_FOLDER,
)
