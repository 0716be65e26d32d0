"""How replicas come to diverge: one script for each way.

Each script writes something, and then broker 2, the victim, goes away. While broker 2 is away, the script deletes the
record or ends the transaction, and waits until the other brokers have cleaned the tombstone or end marker away. So the
victim never gets it.

A cleaner removes a tombstone in its second pass over it. It removes a marker in the third, once no record of the
transaction is left and delete.retention.ms has passed (LogCleaner, CleanedTransactionMetadata, KIP-534).
"""

from __future__ import annotations

from parallax.lab.scenarios.stage import Cleaning, Divergence, Outage, Return, Script, Stage
from parallax.model import FindingKind


def deleted_record_resurrected(stage: Stage) -> Script:
    """The script after which broker 2 lacks a tombstone, and still shows the deleted record."""
    old = stage.put("customer-7", "alive")
    yield Outage()
    tombstone = stage.put("customer-7", None)
    yield Cleaning(superseded=[old], evidence=[tombstone])
    yield Return(
        wrong=lambda view: view.high_watermark > tombstone and view.visible.get("customer-7") == "alive",
        right=lambda view: "customer-7" not in view.visible,
    )
    return Divergence(FindingKind.DELETED_RECORD_RESURRECTED, old, "customer-7")


def aborted_record_committed(stage: Stage) -> Script:
    """The script after which broker 2 lacks an ABORT marker, so that the next COMMIT ends two transactions there.

    Both are of one producer. So broker 2 shows the aborted record as committed.
    """
    stage.begin()
    poison = stage.send("transfer-1", "rolled back")
    yield Outage()
    abort = stage.abort()
    yield Cleaning(superseded=[poison], evidence=[abort])
    stage.begin()
    stage.send("transfer-2", "booked")
    stage.commit()
    yield Return(
        wrong=lambda view: view.visible.get("transfer-1") == "rolled back",
        right=lambda view: "transfer-1" not in view.visible and view.visible.get("transfer-2") == "booked",
    )
    return Divergence(FindingKind.ABORTED_RECORD_COMMITTED, poison, "transfer-1")


def committed_record_aborted(stage: Stage) -> Script:
    """The script after which broker 2 lacks a COMMIT marker, so that the producer's next ABORT ends two transactions.

    A cleaner removes a COMMIT only once all records of its transaction are gone. So the script commits a tombstone,
    which is cleaned away as well. The victim treats the deletion as aborted, and still shows the deleted value.
    """
    old = stage.put("order-5", "open")
    stage.begin()
    deletion = stage.send("order-5", None)
    yield Outage()
    commit = stage.commit()
    yield Cleaning(superseded=[old], evidence=[deletion, commit])
    stage.begin()
    stage.send("order-6", "rolled back")
    stage.abort()
    yield Return(
        wrong=lambda view: deletion in view.aborted_from and view.visible.get("order-5") == "open",
        right=lambda view: deletion not in view.aborted_from and "order-5" not in view.visible,
    )
    return Divergence(FindingKind.COMMITTED_RECORD_ABORTED, deletion, "order-5")


def aborted_deletion_committed(stage: Stage) -> Script:
    """The script of `aborted_record_committed`, but the transaction that was rolled back deletes a value.

    The victim takes the tombstone for committed, so its consumers lack a value that is valid. Its cleaner would remove
    the value, and later the tombstone. So nothing is cleaned once the victim is back.
    """
    stage.put("price-3", "10")
    stage.begin()
    deletion = stage.send("price-3", None)
    yield Outage()
    abort = stage.abort()
    yield Cleaning(superseded=[deletion], evidence=[abort])
    stage.begin()
    stage.send("price-4", "12")
    stage.commit()
    stage.keep()
    yield Return(
        wrong=lambda view: view.holds(deletion) and "price-3" not in view.visible,
        right=lambda view: view.visible.get("price-3") == "10",
    )
    return Divergence(FindingKind.ABORTED_RECORD_COMMITTED, deletion, "price-3")


def read_committed_frozen(stage: Stage) -> Script:
    """The script after which broker 2 lacks a producer's last end marker. Its LSO never moves again."""
    stage.begin()
    first = stage.send("account-9", "100")
    yield Outage()
    commit = stage.commit()
    stage.put("account-9", "120")
    yield Cleaning(superseded=[first], evidence=[commit])
    yield Return(
        wrong=lambda view: view.high_watermark > commit and view.last_stable_offset == first,
        right=lambda view: view.last_stable_offset == view.high_watermark and view.visible.get("account-9") == "120",
    )
    return Divergence(FindingKind.READ_COMMITTED_FROZEN, first, "account-9")
