"""Histories that once failed, shrunken: each holds a mistake that was made in the product."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from parallax.findings.explain import explain
from parallax.findings.finding import Finding, claim_of, evidence_of, sides_of
from parallax.findings.incident import tally_of
from parallax.findings.incidents import ALONE
from parallax.findings.requests import Question, Recreated
from parallax.model import NOBODY, FindingStatus, Severity, UnknownReason
from parallax.sides import as_document, standing
from tests.simulation import kinds, probe
from tests.simulation.cluster import Cluster
from tests.simulation.history import BROKERS, Op, profile
from tests.simulation.monitor import RECHECK_S
from tests.simulation.records import Aborted, End
from tests.simulation.replica import Replica
from tests.simulation.world import Violation, World, run

PLAIN, FILLER, TOMBSTONE = -1, 90, -1
STANDARD = replace(profile(0, healthy=False), late=False, cap=None, brokers=BROKERS)
ROUND: Op = ("round", 0, 0, 0)
SYNC: Op = ("sync", 0, 0, 0)


def turn(broker: int, ms: int) -> list[Op]:
    return [("tick", ms, 0, 0), ("write", PLAIN, FILLER, 1), SYNC, ("clean", broker, 0, 0)]


FAULTY = {
    "a wrong outcome is reported although a long transaction pins every last stable offset": [
        ("write", 2, 1, 39),
        SYNC,
        ("stop", 3, 0, 0),
        ("end", 2, 0, 0),
        SYNC,
        ROUND,
        ("tick", 5000, 0, 0),
        *turn(2, 0),
        *turn(2, 150),
        ("tick", 2001, 0, 0),
        ("lead", 2, 0, 0),
        ("write", 0, 3, 31),
        ("write", 2, 2, 39),
        ("clean", 2, 0, 0),
        ("end", 2, 1, 0),
    ],
    "a value that two of three have deleted is not missing on one of them": [
        ("write", PLAIN, 1, 66),
        SYNC,
        ("read", 1, 1, 3),
        ("stop", 2, 0, 0),
        ("write", PLAIN, 1, TOMBSTONE),
        *turn(3, 2001),
        ("clean", 1, 0, 0),
        *turn(1, 2001),
        ("clean", 3, 0, 0),
    ],
    "a transaction whose marker was cleaned before it was read does not hide the next one": [
        ("write", 1, 1, 14),
        SYNC,
        ROUND,
        ("end", 1, 1, 0),
        ("write", PLAIN, 1, 5),
        *turn(3, 200),
        *turn(3, 2001),
        *turn(3, 2001),
        ("write", 1, 0, TOMBSTONE),
        SYNC,
        ("stop", 3, 0, 0),
        ("write", PLAIN, 0, 42),
        ("tick", 2001, 0, 0),
        ("end", 1, 1, 0),
        SYNC,
        ("clean", 1, 0, 0),
        *turn(1, 2001),
        *turn(1, 2001),
        *turn(1, 2001),
    ],
    "a fault of the second replica of two is no missing record on the first": [
        ("write", PLAIN, 1, 74),
        ("write", 3, 1, 74),
        SYNC,
        ("stop", 1, 0, 0),
        ("end", 3, 0, 0),
        *turn(2, 2001),
        *turn(2, 200),
        *turn(2, 2001),
        ("write", 3, 2, 74),
        ("end", 3, 1, 0),
    ],
}

HEALTHY = {
    "a replica that started again above a transaction has not closed it": [
        ("write", 1, 0, 41),
        SYNC,
        ("stop", 1, 0, 0),
        ("write", PLAIN, 0, TOMBSTONE),
        ("write", PLAIN, 0, 54),
        ("write", PLAIN, FILLER, 73),
        SYNC,
        ("trim", 2, 0, 0),
    ],
}


# Histories in a short form: the operations' names and numbers, zeros at the end left out; with the seed that their
# micro-batches were cut by.
SHRUNKEN = {
    "one that shows the true outcome by chance, for its index is lost, is nobody to copy from": (
        100630027,
        (
            "write 3 0 -1; sync; stop 2; stop 3; end 3 1; write -1 0 -1; tick 2001; write -1 90 54; sync; "
            "clean 1; tick 2001; write -1 90 86; clean 1; tick 2001; write -1 90 42; sync; clean 1; "
            "write 3 0 2552; end 3; start 2; sync; stop 2; unindex 2 7"
        ),
    ),
    "a contradicted end marker that was cut accuses nobody while another replica is held back below": (
        2100000428,
        (
            "write 3 0 38464; sync; stop 1; end 3 1; write -1 0 40053; tick 2001; write -1 90 5; sync; clean 2; "
            "tick 2001; write -1 90 92; clean 2; tick 2001; write -1 90 3; sync; clean 2; start 1; write 0 1 34756; "
            "sync; stop 1; end; sync; stop 3; unindex 3 9; start 3; sync; round; usurp 1"
        ),
    ),
    "who shows what it was accused of hiding, in another log, is accused no more though nobody else can show it": (
        2100300131,
        (
            "write 3 0 91132; sync; stop 1; end 3 1; write -1 0 -1; tick 200; write -1 90 54; sync; clean 2; tick 200; "
            "write -1 90 62; sync; clean 2; tick 2001; write -1 90 53; clean 2; start 1; write 1 0 -1; sync; stop 2; "
            "stop 1; end 1 1; write -1 0 34675; round; tick 2001; write -1 90 24; clean 3; tick 200; write -1 90 50; "
            "clean 3; tick 2001; write -1 90 54; clean 3; write 1 0 79666; end 1; start 2; sync; round; usurp 1; "
            "end 1 1"
        ),
    ),
    "a lost head that all share is said of those that are left, where the first that lost it is none of them": (
        2100000160,
        (
            "write -1 1 -1; tick 150; write -1 90 1; sync; stop 2; behead 2; start 2; sync; round; tick 160; tick 160; "
            "round; lead 2; round; sync; stop 1; write -1 1 15397; write 2 1 76038; end 2 1; sync; round; usurp 1; "
            "write -1 1 -1; unassign 2; round; unassign 3; round; round; write -1 1 19756; probe; round; "
            "write -1 0 87; round; audit; round"
        ),
    ),
    "a value waits for one that is held back by a transaction whose outcome is reported of it": (
        2000000303,
        (
            "lead 3; write 0 1 13432; sync; stop 2; end; sync; stop 1; round; tick 5000; write -1 90 4; clean 3; "
            "tick 200; write -1 90 58; clean 3; tick 2001; write -1 90 98; clean 3; write 0 2 35421; end 0 1; "
            "start 2; sync; round; usurp 1; write -1 1 78; round"
        ),
    ),
    "a tombstone of a truncated log accuses nobody": (
        60087739,
        (
            "write -1 1 15; sync; stop 3; write -1 1 -1; tick 200; write -1 90 45; sync; clean 2; round; "
            "usurp 3; write -1 90 80; write -1 90 88; write -1 90 46; tick 200; write -1 90 28; clean 3"
        ),
    ),
    "an older value that another wrong one shows is none that a copy of a right one lacks": (
        1800189542,
        (
            "write -1 0 64572; write 1 0 72627; sync; stop 1; end 1 1; stop 3; write -1 0 -1; round; tick 2001; "
            "write -1 90 33; clean 2; tick 2001; write -1 90 59; clean 2; tick 2001; write -1 90 78; clean 2; start 1; "
            "write 1 2 84861; sync; stop 1; usurp 1; end 1; round; start 2; sync; wipe 1 1"
        ),
    ),
    "an outcome of a truncated log accuses nobody": (
        100000708,
        "write 2 0 44230; sync; stop 1; end 2 1; sync; round; usurp 1; write -1 90 54; end 2; round",
    ),
    "an outcome by a truncated end marker is no difference": (
        100000000,
        (
            "write 1 1 51138; sync; stop 1; end 1 1; sync; round; usurp 1; end 1; write -1 1 75097; round; "
            "start 3; tick 200; write -1 90 94; sync; clean 3; tick 200; write 0 0 84919; sync; clean 3"
        ),
    ),
    "a transaction that was ended in a truncated log is held against nobody": (
        10000429,
        (
            "write -1 0 49; write 2 0 -1; sync; stop 2; end 2 1; tick 5000; pair -1 0 47; tick 2001; "
            "write -1 90 88; sync; clean 1; usurp 2; start 1; write -1 90 84; sync; unassign 2"
        ),
    ),
    "a difference that a lost index explained is reported when that has left no trace": (
        100000286,
        (
            "write 3 0 55182; end 3; write 3 0 36292; end 3; sync; stop 1; unindex 1 4; start 1; sync; stop "
            "2; round; tick 2001; write -1 90 37; clean 1; tick 2001; write -1 90 2; sync; clean 1"
        ),
    ),
    "an end marker that came later heals nothing where nobody can tell what it should have been": (
        100000428,
        (
            "write 1 0 -1; sync; stop 2; end 1 1; write -1 0 54980; tick 2001; write -1 90 49; sync; clean 3; "
            "clean 1; tick 2001; write -1 90 91; sync; clean 1; clean 3; tick 2001; write -1 90 86; sync; "
            "clean 1; clean 3; start 2; sync; round; tick 2001; round; write 1 2 54709; end 1"
        ),
    ),
    "what one had shown of a truncated log is not reported beside the transaction that it holds open": (
        100000373,
        (
            "write 1 0 61426; sync; stop 1; end 1 1; sync; round; usurp 1; end 1; round; tick 2001; write -1 "
            "90 56; clean 1; tick 2001; write -1 90 7; clean 1; tick 2001; write -1 90 86; clean 1"
        ),
    ),
    "a finding that names no key does not end before the key of its record is right": (
        5579,
        (
            "write -1 0 35; write 3 0 -1; sync; round; stop 3; end 3 1; sync; read 1 2 1; tick 200; write -1 "
            "90 36; clean 1; tick 2001; write -1 90 43; sync; clean 1; tick 2001; write -1 90 37; sync; clean "
            "1; tick 2001; write -1 90 4; clean 1; write 3 2 35; end 3; start 3; tick 200; write -1 90 47; "
            "sync; clean 3; round; tick 200; write -1 90 69; sync; clean 3"
        ),
    ),
    "a transaction of a tail that was truncated and rewritten is not over because an earlier tick did not list it": (
        5039,
        (
            "write 1 0 92; write -1 0 -1; round; tick 30; stop 1; start 1; batch 5; sync; progress 1; write 1 0 "
            "60; sync; tick 200; round; stop 1; end 1; sync; tick 200; write -1 90 10; clean 2; tick 2001; write "
            "-1 90 20; sync; clean 2; tick 2001; write -1 90 16; clean 2"
        ),
    ),
    "the latest value of a key is not reported beside the outcome that explains it": (
        5579,
        (
            "write -1 0 35; write 3 0 -1; sync; round; stop 3; end 3 1; sync; read 1 2 1; tick 200; write -1 90 "
            "36; clean 1; tick 2001; write -1 90 43; sync; clean 1; tick 2001; write -1 90 37; sync; clean 1; "
            "tick 2001; write -1 90 4; clean 1; write 3 2 35; end 3; start 3; tick 200; write -1 90 47; sync; "
            "clean 3; round; tick 200; write -1 90 69; sync; clean 3"
        ),
    ),
    "where both outcomes come in one batch the replica that lost the marker is wrong, whichever was read first": (
        11404,
        (
            "write 1 3 -1; end 1; write 0 1 -1; sync; stop 2; end; write 0 0 62; end 0 1; tick 2001; write -1 90 "
            "29; sync; clean 1; read 1 3 1000; clean 3; tick 2001; write -1 90 94; sync; clean 3; clean 1; tick "
            "2001; write -1 90 79; sync; clean 1; clean 3"
        ),
    ),
    "a record that has left the pending rows still shows that its transaction was ended wrongly": (
        5145,
        (
            "write -1 2 6; write 2 2 -1; sync; stop 3; end 2; tick 2001; tick 2001; write -1 90 9; sync; clean 2; "
            "tick 2001; clean 1; write -1 90 44; clean 1; tick 2001; write -1 90 34; sync; clean 1; round; write "
            "2 1 6; end 2 1; start 3; sync; read 1 3 1; read 1 3 1; batch 10"
        ),
    ),
    "a transaction whose beginning only read_committed showed has its direction from the markers after it": (
        7281,
        (
            "write 2 0 83; sync; round; stop 2; end 2; write 2 0 83; end 2 1; write 2 1 65; sync; stop 3; end 2 "
            "1; write -1 1 66; round; write 2 1 65; end 2; tick 200; write -1 90 55; clean 1; tick 200; write -1 "
            "90 92; clean 1; tick 2001; write -1 90 78; clean 1"
        ),
    ),
    "what a pinned last stable offset hides may stay undecided while a finding says so": (
        7627,
        (
            "round; batch 5; write 3 2 -1; sync; stop 2; end 3; tick 2001; write -1 90 33; round; sync; clean 1; "
            "tick 2001; write -1 90 42; clean 1; tick 2001; round 397; write -1 90 8; sync; round 674; clean 1; "
            "start 2; batch 10; write -1 2 87; write 2 2 -1; sync; round; stop 2; end 2 1; write -1 2 88; batch 5 "
            "1; write 2 1 87; end 2 1; tick 200; write -1 90 11; sync; batch 3; clean 1; batch 5; tick 2001; "
            "round; write -1 90 69; sync; clean 1; tick 2001; batch 3 1; write -1 90 96; round 148; clean 1; "
            "batch 10; start 2; batch 10 0 1; sync; read 0 2 1; batch 5"
        ),
    ),
    "markers that all have been read past still give a dispute its direction": (
        8620,
        (
            "batch 10 0 1; batch 10 0 1; write 1 2 -1; sync; stop 3; end 1; sync; round; write 1 2 28; end 1 1; "
            "tick 200; write -1 90 65; sync; clean 1; tick 200; write -1 90 14; batch 3; clean 1; tick 2001; "
            "write -1 90 82; sync; clean 1; start 3; round; sync; read 1 3 3; batch 10; stop 3; tick 2001; "
            "progress 3; batch 3 0 1; start 3; sync; batch 3 1; round 172"
        ),
    ),
    "an undirected difference is not reported beside the directed one": (
        9403,
        (
            "write 1 0 -1; sync; stop 1; end 1 1; sync; tick 200; write -1 90 49; clean 2; tick 2001; write -1 90 "
            "34; sync; clean 2; tick 200; write -1 90 18; clean 2; tick 2001; write -1 90 16; sync; clean 2; "
            "start 1; write 1 3 95; sync; stop 1; end 1 1; write -1 3 96; sync; tick 200; write -1 90 64; clean "
            "2; tick 2001; round 13; write -1 90 63; sync; clean 2; tick 2001; write -1 90 23; clean 2; write 1 0 "
            "95; end 1"
        ),
    ),
    "a transactional tombstone that one replica holds is lost on another where a third has deleted the key too": (
        4000193,
        (
            "write -1 0 82; sync; stop 1; write 1 0 -1; end 1 1; tick 200; write -1 90 30; sync; clean 2; tick "
            "2001; write -1 90 9; clean 2"
        ),
    ),
    "a missing marker becomes a wrong outcome although the end that made it wrong was cleaned unread": (
        4001861,
        (
            "write 1 3 33; sync; round; stop 3; end 1 1; write -1 3 34; sync; tick 2001; write -1 90 66; clean 1;"
            " tick 2001; write -1 90 20; sync; read 1 2 3; clean 1; tick 2001; write -1 90 78; clean 1; start 3; "
            "sync; write 2 1 -1; round 914; end 2; end 3; sync; read 1 3 3; clean 3; tick 2001; write -1 90 58; "
            "sync; clean 3; tick 2001; write -1 90 46; sync; clean 3"
        ),
    ),
    "a tombstone that came and went while nobody read is unknown": (
        100000045,
        (
            "write -1 0 42106; sync; stop 2; write -1 0 -1; round; tick 200; write -1 90 26; sync; clean 3; "
            "clean 1; tick 2001; write -1 90 8; sync; clean 1; clean 3"
        ),
    ),
    "a transaction that was ended wrongly before the first reading is unknown": (
        100000030,
        (
            "write 1 2 6001; sync; stop 5; end 1; tick 200; write -1 90 17; sync; clean 2; clean 4; clean 3; "
            "clean 1; tick 2001; write -1 90 46; sync; clean 1; clean 3; clean 4; clean 2; tick 2001; write "
            "-1 90 25; sync; clean 3; clean 2; clean 4; clean 1; write 1 2 83987; end 1 1"
        ),
    ),
    "a record that was lost before the first reading is unknown": (
        910094,
        "write -1 0 83; stop 2; stop 3; lose 1 6; write 2 0 -1",
    ),
    "a transaction that hangs on all replicas since before the first reading is unknown": (
        100001357,
        (
            "write 3 2 -1; sync; stop 3; end 3 1; tick 2001; write -1 90 18; sync; clean 1; tick 2001; write "
            "-1 90 17; clean 1; tick 2001; write -1 90 19; sync; clean 1; tick 2001; write -1 90 42; clean 1; "
            "start 3; sync; lead 3; unassign 1; assign 1; wipe 2 1"
        ),
    ),
    "a head that is lost is found by an audit and unknown to the stream": (
        100000159,
        "stop 3; write -1 0 58482; stop 2; start 2; tick 150; write -1 90 1; sync; stop 2; behead 2",
    ),
    "a head that is lost after it was read is found": (
        100000285,
        "round; write -1 1 25247; tick 150; write -1 90 1; sync; stop 1; behead 1",
    ),
    "of two records at one offset the one with the higher leader epoch is no other content": (
        100000026,
        "stop 2; write -1 2 61967; sync; round; usurp 2; write -1 2 52567; round",
    ),
    "a record that was shown before the log was truncated accuses nobody afterwards": (
        100000656,
        (
            "stop 3; stop 2; write -1 0 50513; round; usurp 2; write -1 1 33542; start 1; start 3; sync; stop "
            "1; write -1 1 -1; round; tick 200; write -1 90 80; sync; clean 2; clean 3; tick 2001; write -1 "
            "90 25; clean 2"
        ),
    ),
    "a replica that lost its index of aborted transactions is the wrong one": (
        100000001,
        "write 1 0 26446; end 1; sync; stop 2; unindex 2 3",
    ),
    "a lost index accuses none that has the outcome right, though it is wrong elsewhere": (
        100000461,
        (
            "write -1 0 4314; sync; stop 2; write -1 0 -1; tick 2001; write -1 90 23; sync; clean 3; tick "
            "2001; write -1 90 22; sync; clean 3; write 3 0 20653; end 3; sync; stop 3; unindex 3 6; start 3; "
            "sync; stop 1"
        ),
    ),
    "a content finding has not healed while the other record is there": (
        11005563,
        (
            "stop 1; write -1 0 50; sync; usurp 1; start 2; write -1 0 86; write -1 0 -1; round; tick 2001; "
            "write -1 90 28; sync; clean 2; unassign 1; assign 1; sync; unassign 2"
        ),
    ),
    "a value that two of three show does not accuse the third": (
        100000189,
        (
            "write -1 0 87739; sync; stop 3; stop 2; write -1 0 -1; tick 2001; write -1 90 83; clean 1; tick "
            "2001; write -1 90 43; clean 1"
        ),
    ),
    "a tombstone that was aborted accuses nobody who shows the value": (
        100000166,
        (
            "write -1 0 71909; write 2 0 -1; sync; stop 1; end 2; sync; tick 5000; write -1 90 21; sync; "
            "clean 2; clean 3; tick 2001; write -1 90 47; sync; clean 2; clean 3; tick 2001; write -1 90 8; "
            "sync; clean 2; clean 3; write 2 1 35305; end 2 1; start 1; sync; unassign 2"
        ),
    ),
    "an audit finds a lost index": (
        100000127,
        ("write 0 1 19700; end; sync; stop 1; unindex 1 8; start 1; tick 200; write -1 90 96; sync; round 694"),
    ),
    "a lost index is reported of its own replica": (
        100000490,
        "read 1 5 3; write 3 1 82807; end 3; sync; stop 5; unindex 5 6",
    ),
    "a lost index is found beside an unclean election": (
        100001006,
        (
            "stop 1; write -1 1 17008; sync; round; usurp 1; start 2; write -1 1 59417; write 1 1 76439; end "
            "1; sync; stop 2; unindex 2 9"
        ),
    ),
    "a finding has not healed as the last right replica lost its index": (
        100000562,
        (
            "write 3 1 99079; end 3; sync; stop 1; unindex 1 7; stop 2; unindex 2 9; start 2; sync; stop 3; "
            "unindex 3 2; round; stop 4; unindex 4 9"
        ),
    ),
    "unlike markers at one offset are one finding": (
        100000470,
        (
            "write 1 0 349; sync; stop 1; end 1; sync; round; usurp 1; end 1 1; write -1 0 58738; round; tick "
            "2001; write -1 90 26; clean 1; tick 200; write -1 90 3; clean 1; tick 2001; write -1 90 80; "
            "clean 1"
        ),
    ),
    "a tombstone of an epoch that no log knows after two unclean elections accuses nobody": (
        72001810,
        (
            "write 2 2 -1; sync; stop 1; end 2; write -1 2 89; write 2 0 88; end 2 1; tick 200; write -1 90 3; "
            "sync; clean 2; tick 2001; write -1 90 77; clean 2; tick 2001; write -1 90 35; sync; clean 2; start"
            " 1; write 0 0 46; sync; stop 2; write -1 0 64; write -1 1 62; write -1 1 83; sync; round; usurp 2;"
            " write -1 3 76; write -1 2 -1; end 0 1; round 147; usurp 1; end 0 1; start 3; sync; clean 1; clean"
            " 3"
        ),
    ),
    "an outcome whose end marker was truncated unread is no difference": (
        71011099,
        (
            "write 0 0 86; sync; stop 1; write 3 2 42; end; sync; read 1 2 3; usurp 1; write -1 0 -1; start 2; "
            "end 0 1; tick 2001; write -1 90 12; sync; clean 2"
        ),
    ),
    "a value is reported where the finding that explained it has ended": (
        420000317,
        (
            "write 1 2 33936; sync; stop 2; end 1; tick 2001; write -1 90 49; clean 1; tick 2001; write -1 90 "
            "7; clean 1; tick 2001; write -1 90 23; clean 1; start 2; sync; round; tick 2001; round; write 1 3 "
            "34553; end 1 1"
        ),
    ),
    "an end marker between two epochs accuses no copy of a cleaned log": (
        74002045,
        (
            "write 2 0 -1; sync; stop 3; end 2 1; stop 2; round; usurp 3; write -1 1 11; write 1 1 31; round "
            "252; start 2; sync; stop 3; round"
        ),
    ),
    "an older value of one whose last stable offset stands is no unlike outcome": (
        500004072,
        (
            "write -1 0 85624; sync; stop 1; write -1 0 -1; tick 200; write -1 90 69; sync; clean 2; tick 2001; "
            "write -1 90 21; clean 2; start 1; write 2 0 48079; sync; stop 2; end 2 1; sync; round; usurp 2; end 2; "
            "round; start 3; tick 2001; tick 2001; write -1 90 23; tick 2001; clean 2; write -1 90 42; clean 2; tick "
            "2001; write -1 90 3; sync; clean 2"
        ),
    ),
    "an outcome that lies below where the log begins now is in no difference": (
        501004001,
        (
            "write 3 2 38772; sync; stop 3; end 3 1; sync; round; usurp 3; end 3; round; start 1; tick 2001; write -1 "
            "90 77; sync; clean 1; tick 2001; write -1 90 97; sync; clean 1; tick 2001; write -1 90 78; sync; clean 1; "
            "stop 3; behead 3"
        ),
    ),
    "an outcome of an epoch that its log knows no more after two unclean elections is no difference": (
        503007863,
        (
            "write 2 0 82737; sync; stop 1; end 2 1; usurp 1; end 2; round; write -1 0 1429; read 1 1 3; usurp 2; "
            "round; write -1 0 8; start 1; tick 200; write -1 90 77; sync; clean 1"
        ),
    ),
    "a finding on a transaction of several keys stands until all are right": (
        100000264,
        (
            "write 1 0 6097; write 1 1 26793; sync; stop 1; end 1; round 775; tick 5000; write -1 90 40; "
            "clean 2; tick 200; write -1 90 71; clean 2; tick 2001; write -1 90 55; clean 2; write 1 0 8701; "
            "end 1 1; start 1; sync; round; tick 200; write -1 90 19; sync; clean 1"
        ),
    ),
    "a value that differs makes no wrong outcome of a marker that was missing": (
        1200001149,
        (
            "write 1 0 -1; sync; stop 1; stop 2; end 1 1; write -1 0 98593; round; tick 2001; write -1 90 83; clean 3; "
            "tick 200; write -1 90 3; clean 3; tick 2001; write -1 90 85; clean 3; start 2; write 1 0 28755; sync; "
            "round; end 1 1; sync; clean 2; stop 2; write -1 0 -1; tick 200; write -1 90 8; clean 3; tick 2001; "
            "write -1 90 15; clean 3"
        ),
    ),
    "another transaction that was lost as well does not show how one ended": (
        990003856,
        (
            "write 1 2 -1; sync; stop 2; end 1 1; tick 2001; write -1 90 1; clean 1; tick 2001; write -1 90 1; "
            "clean 1; tick 2001; write -1 90 1; clean 1; tick 2001; write -1 90 1; clean 1; write 1 0 69454; "
            "end 1; start 2; tick 200; write 2 2 42416; end 2; sync; stop 2; unindex 2 9"
        ),
    ),
    "an aborted list names a record whose end was truncated": (
        71001103,
        (
            "write 1 0 89; stop 3; round; sync; stop 2; end 1 1; round; usurp 2; pair 1 2 -1; round 530; probe "
            "44; start 3; sync; stop 2"
        ),
    ),
    "an aborted list tells of a record that another has lost the entry of": (
        440002421,
        (
            "write 0 0 79435; end; sync; stop 1; unindex 1 6; start 1; tick 200; write -1 90 44; sync; clean 1;"
            " clean 2; tick 2001; write -1 90 10; sync; clean 1; clean 3; write 3 0 31356; end 3 1; write 0 0 "
            "-1"
        ),
    ),
    "an aborted list tells what read_uncommitted never showed": (
        430000635,
        (
            "write 3 2 79240; sync; stop 2; end 3; write -1 2 81926; tick 2001; write -1 90 17; sync; clean 1; "
            "tick 200; write -1 90 17; clean 1; tick 2001; write -1 90 14; sync; clean 1; clean 3; write 3 0 "
            "73276; end 3 1; start 2; sync; clean 5; read 1 2 3; clean 2; clean 4"
        ),
    ),
    "a replica that was copied again before it was suspected is not accused of what it had shown": (
        71012043,
        (
            "write 3 1 -1; sync; stop 2; end 3 1; sync; tick 2001; round; write -1 90 92; clean 1; tick 2001; "
            "write -1 90 47; sync; clean 1; tick 200; write -1 90 92; clean 1; tick 2001; write -1 90 89; sync;"
            " clean 1; write 3 1 23; end 3; start 2; sync; read 1 2 1000; wipe 2 1"
        ),
    ),
    "what is superseded by a record that is wrong itself has not healed": (
        430000610,
        (
            "write -1 0 1747; sync; stop 3; write -1 0 -1; sync; tick 200; write -1 90 85; clean 1; tick 2001; "
            "write -1 90 67; sync; clean 1; start 3; sync; round; tick 200; round 453; end; end 1 1; end 2 1; "
            "write -1 0 2644; write 3 0 -1; sync; stop 1; stop 3; end 3; tick 2001; write -1 90 68; sync; clean"
            " 2; tick 2001; write -1 90 55; clean 2; tick 2001; write -1 90 26; sync; clean 2; write 3 1 1290; "
            "end 3 1"
        ),
    ),
    "nobody shows what a lost index had turned once the record is cleaned": (
        440000198,
        ("write -1 2 89643; write 3 2 36261; end 3; sync; stop 2; unindex 2 8; start 2; sync; round 936"),
    ),
    "the head of a log that all have lost is reported": (
        100000180,
        ("read 0 1 3; write -1 1 21; tick 150; write 0 1 31919; sync; round; stop 2; behead 2; start 2; sync; stop 1"),
    ),
    "a head that is lost where a policy deletes is unknown": (
        300001190,
        "write -1 2 71570; tick 150; write -1 90 1; sync; stop 1; behead 1",
    ),
    "a tick that may yet be truncated closes no transaction": (
        74001039,
        (
            "write 3 2 88; write -1 0 24; sync; round; stop 2; end 3; stop 1; tick 200; end 3; clean 3; tick "
            "2001; write -1 0 23; clean 3; tick 2001; read 1 3 1000; write -1 90 66; clean 3; start 1; start 2; "
            "round; sync; round 570"
        ),
    ),
    "a head that one replica has lost hides no missed marker of the others": (
        430000253,
        (
            "write 3 0 43840; sync; round; stop 1; end 3; sync; tick 2001; read 1 3 1000; write -1 90 64; clean "
            "2; tick 2001; write -1 90 33; sync; clean 2; tick 2001; write -1 90 25; clean 2; stop 3; behead 3"
        ),
    ),
    "an end marker of which one that is away may know is not dismissed": (
        700000826,
        (
            "write 0 2 77261; sync; stop 1; end; tick 5000; sync; tick 2001; write -1 2 57; sync; clean 3; stop "
            "2; round; tick 200; pair -1 2 64; clean 3; tick 2001; write -1 90 30; clean 3; write 0 2 68895; end "
            "0 1; start 1; sync; round; clean 1; round"
        ),
    ),
    "a value below where records were deleted is not compared": (
        700000887,
        (
            "write -1 0 58282; write -1 90 39; sync; stop 5; write -1 0 -1; tick 2001; write -1 90 36; sync; "
            "clean 1; tick 2001; write -1 90 67; clean 1; start 5; sync; trim 2; lead 5"
        ),
    ),
    "what the cleaner took for the sake of a log that was cut off is unknown until an audit": (
        503005467,
        (
            "write 2 2 63288; sync; round; stop 2; end 2; tick 200; write -1 90 88; sync; clean 1; round; usurp "
            "2; write -1 1 75; end 2 1"
        ),
    ),
    "a value that was cleaned in a log that was cut off is unknown until an audit": (
        71010059,
        (
            "read 1 3 1; write -1 90 27; sync; stop 1; write -1 90 52; tick 200; write -1 90 33; sync; clean 3; "
            "round; usurp 1"
        ),
    ),
    "what read_committed alone showed has a wrong outcome too": (
        700000347,
        (
            "write 0 0 77405; sync; stop 1; stop 2; end; tick 5000; write -1 90 5; clean 3; tick 200; write -1 90 "
            "27; clean 3; round; tick 2001; write -1 90 52; clean 3; write 0 0 44498; end 0 1; start 1; sync; "
            "read 1 1 3; tick 200; write -1 90 81; sync; clean 1"
        ),
    ),
    "a log that was copied anew does not know the epochs that it answers with": (
        71004331,
        (
            "write 0 0 73; sync; stop 1; stop 3; write -1 0 37; write -1 0 64; round; usurp 3; start 1; end 0 1; "
            "sync; round; usurp 2; write -1 0 69; start 3; end; tick 200; sync; stop 2; tick 2001; tick 200; "
            "unassign 1; tick 2001; probe 100; probe 416; start 2; round 283; clean 3; clean 2"
        ),
    ),
    "a replica that a transaction holds back does not explain what two others show of its record": (
        900003400,
        (
            "write 1 2 324; sync; stop 2; end 1 1; sync; round; usurp 2; end 1; round; start 1; fetch 1 2; stop 1; "
            "unindex 1 9; start 1; tick 2001; write -1 90 57; sync; clean 1; tick 2001; write -1 90 91; sync; "
            "clean 1; stop 2"
        ),
    ),
    "nor a value that one of two others has lost the tombstone of": (
        831001034,
        (
            "write 3 0 99677; sync; stop 3; end 3 1; sync; round; usurp 3; end 3; round; start 1; write -1 0 91910; "
            "sync; stop 1; write -1 0 -1; tick 200; write -1 90; clean 3; tick 200; write -1 90; clean 3; tick 2001; "
            "write -1 90 61; clean 3"
        ),
    ),
    "a transaction that was ended wrongly is not healed by the loss of the index": (
        900003595,
        (
            "write 3 0 68001; sync; stop 1; end 3 1; write -1 0 71664; tick 200; write -1 90 91; sync; clean 2; "
            "tick 200; write -1 90 41; sync; clean 2; tick 2001; write -1 90 28; clean 2; start 1; sync; round 664; "
            "write 3 0 65159; end 3; sync; stop 1; unindex 1 9"
        ),
    ),
    "a later marker of the type that was lost heals no transaction that it ended as well": (
        910001434,
        (
            "write 3 0 93881; sync; stop 3; end 3; tick 200; write -1 90 40; sync; clean 1; tick 2001; "
            "write -1 90 13; clean 1; tick 2001; write -1 90 28; sync; clean 1; start 3; write 3 0 88106; sync; "
            "stop 3; end 3 1; write -1 0 46141; tick 200; write -1 90 23; sync; clean 1; tick 2001; write -1 90 56; "
            "clean 1; tick 2001; write -1 90 63; sync; clean 1; start 3; sync; round; audit; round; write 3 1 63423; "
            "end 3; sync; clean 3"
        ),
    ),
    "a value is not healed by a newer one that may have to be aborted": (
        910001372,
        (
            "write -1 1 19814; write 3 3 47410; sync; stop 3; end 3 1; write -1 3 98244; tick 200; write -1 90 87; "
            "sync; clean 1; tick 200; write -1 90 19; clean 1; tick 2001; write -1 90 35; sync; clean 1; stop 1; "
            "write -1 1 -1; tick 200; write -1 90 74; clean 2; round; tick 2001; write -1 90 21; clean 2; start 1; "
            "sync; round; tick 150; write 1 1 86099; end 1; sync; round; stop 1; unindex 1 8; start 1; sync; stop 2; "
            "unindex 2 9"
        ),
    ),
    "nor while a newer record of its key is aborted": (
        910008051,
        (
            "write 3 0 95301; sync; end 3 1; stop 3; write -1 0 -1; tick 2001; write -1 90 20; sync; clean 1; "
            "tick 2001; write -1 90 2; clean 1; start 3; sync; round; tick 150; round; write -1 0 76801; "
            "write 3 0 -1; sync; stop 2; stop 1; end 3 1; tick 2001; write -1 90 86; clean 3; tick 2001; "
            "write -1 90 48; clean 3; tick 200; write -1 90 42; clean 3; tick 2001; write -1 90 12; clean 3; "
            "write 3 0 72479; end 3; start 1; sync; lead 1; unassign 3"
        ),
    ),
    "unlike outcomes of which one is shown no more are no difference that stands": (
        910013198,
        (
            "write 0 1 57489; end; sync; stop 2; unindex 2 7; write -1 1 27746; start 2; fetch 2 1; read 1 2 1000; "
            "tick 200; write -1 90 1; sync; clean 2"
        ),
    ),
    "a value that the cleaner takes while it is asked for is no difference to a replica that is behind": (
        951000365,
        (
            "write -1 0 78105; write 3 0 54014; sync; stop 1; end 3 1; sync; round; usurp 1; end 3; start 2; sync; "
            "round 102"
        ),
    ),
    "an absence on a frozen replica, which waits for an explanation, is unknown": (
        970007759,
        (
            "write -1 0 19156; sync; stop 1; write -1 0 -1; tick 2001; write -1 90 63; sync; clean 2; tick 2001; "
            "write -1 90 32; clean 2; start 1; write 1 1 5358; sync; stop 1; end 1 1; write -1 1 48816; round; "
            "tick 2001; write -1 90 46; sync; clean 2; tick 2001; write -1 90 27; clean 2; tick 2001; write -1 90 15; "
            "sync; clean 2"
        ),
    ),
    "an absence beyond the last stable offsets is unknown to an audit": (
        72000667,
        ("write 1 1 49; sync; stop 2; end 1 1; write -1 1 16; sync; tick 200; write -1 90 33; clean 1; usurp 2"),
    ),
    "an end marker that may be of a later transaction proves nobody right who shows the record as it says": (
        1200041132,
        (
            "write 3 0 78844; sync; stop 3; end 3 1; stop 2; write -1 0 -1; tick 2001; write -1 90 90; clean 1; "
            "tick 200; write -1 90 26; clean 1; tick 2001; write -1 90 86; clean 1; start 3; write 3 0 74143; end 3; "
            "sync; stop 3; unindex 3 8"
        ),
    ),
    "nor anybody wrong who does not": (
        1200041132,
        (
            "write 3 0 78844; sync; stop 3; end 3 1; sync; stop 2; write -1 0 -1; tick 2001; write -1 90 90; clean 1; "
            "tick 200; write -1 90 26; clean 1; tick 2001; write -1 90 86; clean 1; start 3; write 3 0 74143; end 3; "
            "sync; stop 3; unindex 3 8"
        ),
    ),
    "who has not come to the end marker has not missed it": (
        1300001402,
        (
            "stop 1; write 3 0 99619; sync; stop 4; stop 5; end 3; tick 200; write -1 90 38; sync; clean 2; tick 2001; "
            "write -1 90 19; clean 2; tick 2001; write -1 90 81; sync; clean 2; start 4; start 5; fetch 5 1; audit"
        ),
    ),
    "what was proven while the probe was on its way may be said": (
        1300001992,
        (
            "write 3 0 -1; sync; stop 3; stop 1; round 358; end 3; tick 2001; write -1 90 35; clean 2; read 0 2 1; "
            "tick 2001; write -1 90 67; clean 2; tick 2001; write -1 90 55; clean 2; write 3 0 53092; end 3; start 3; "
            "start 1; fetch 1 1; round 490"
        ),
    ),
    "a leader that holds the record no more exposes nobody to it": (
        1300002023,
        (
            "write 1 0 75; sync; stop 1; write 1 0 51351; round; sync; stop 2; end 1; write -1 0 74862; tick 2001; "
            "round; write -1 90 81; clean 3; tick 200; write -1 90 13; clean 3; tick 2001; write -1 0 97; clean 3; "
            "write 1 0 34663; end 1 1; start 2; sync; clean 2; write -1 0 -1; write 0 0 32; round 227"
        ),
    ),
    "nor as one of the sides": (
        1300004273,
        (
            "write 0 0 53324; end; sync; stop 2; unindex 2 1; round; stop 1; unindex 1; lead 5; tick 5000; "
            "write -1 90 39; sync; clean 5; tick 2001; write -1 90 29; clean 5"
        ),
    ),
    "nor by another record of the transaction than the one that is named": (
        1300005410,
        (
            "write 1 1 55; write 1 0 55899; end 1; sync; stop 3; unindex 3 3; start 3; stop 1; unindex 1 3; "
            "write 3 1 -1; sync; stop 2; end 3 1; tick 2001; write -1 90 78; clean 3"
        ),
    ),
    "a record whose end marker was cleaned by a wrong index is shown wrongly still": (
        1300001286,
        (
            "write -1 3 16931; write 0 3 70980; end; sync; stop 3; unindex 3 2; start 3; tick 2001; tick 2001; "
            "tick 2001; write -1 90 90; sync; clean 1; clean 3; clean 2; round; tick 2001; write -1 90 1; sync; "
            "clean 2; clean 3; clean 1; tick 2001; write -1 90 2; sync; clean 2; clean 1"
        ),
    ),
    "and though its end marker was never read": (
        1300009086,
        (
            "write 0 0 58911; end; sync; stop 3; unindex 3 4; start 3; tick 2001; tick 2001; tick 2001; "
            "write -1 90 35; sync; clean 1; clean 2; clean 3; tick 2001; write -1 90 70; sync; clean 2; clean 1; "
            "clean 3; write -1 0 27; write 0 1 -1"
        ),
    ),
    "a leader that shows a record as one that contradicts itself may be wrong as well": (
        1000001559,
        (
            "write 2 3 55969; write 0 0 46; end 2; sync; stop 1; unindex 1 7; stop 2; unindex 2 7; start 2; end; sync; "
            "lead 2"
        ),
    ),
    "who has lost the head of its log is not called right in what lay there": (
        1300004620,
        (
            "write 1 0 7204; sync; stop 2; end 1 1; write -1 0 79914; sync; round; tick 2001; write -1 90 8; clean 1; "
            "tick 2001; write -1 90 28; sync; clean 1; tick 2001; write -1 90 72; clean 1; write 1 0 24362; end 1; "
            "start 2; sync; unassign 1; assign 1; sync; stop 1; behead 1"
        ),
    ),
    "who holds no record that it turned, and shows the true values, may be copied": (
        1300008638,
        (
            "stop 2; usurp 2; start 3; write 1 0 18673; sync; stop 3; end 1; write -1 0 70318; tick 200; "
            "write -1 90 13; clean 2; tick 200; write -1 90 65; clean 2; tick 2001; round; write -1 90 94; clean 2; "
            "write 1 0 42879; end 1 1; start 3; sync; wipe 2 1; sync; clean 2"
        ),
    ),
    "who was started again and shows nothing yet stands on no side": (
        1300011361,
        "write 2 0 25355; sync; stop 2; end 2; sync; round; usurp 2; write -1 90 74; end 2 1; start 3; round",
    ),
    "a record that is shown by the loss of an ABORT alone supersedes nothing": (
        1300020268,
        (
            "write -1 0 55518; sync; stop 3; stop 1; write -1 0 -1; round; tick 2001; write -1 90 19; clean 2; tick "
            "2001; write -1 90 33; clean 2; start 3; start 1; write 0 0 57843; sync; stop 3; end; tick 5000; write -1"
            " 90 87; sync; clean 2; tick 200; write -1 90 99; clean 1; clean 2; tick 2001; write -1 90 98; sync; "
            "clean 1; clean 2; write 0 1 28715; end 0 1"
        ),
    ),
    "whose consumers stand rightly where one that is open began below the log start is frozen by none": (
        1300015685,
        (
            "write 1 0 79350; sync; stop 2; pair -1 0 55; end 1 1; tick 2001; write -1 90 17; sync; clean 1; tick 200; "
            "write -1 90 74; clean 1; tick 2001; write -1 90 92; sync; clean 1; write 0 0 2; start 2; write -1 90 30; "
            "write 3 0 15222; end 3 1; sync; trim 3"
        ),
    ),
    "what one transaction shows says nothing of another that is gone": (
        1300002743,
        (
            "write 1 0 85613; sync; stop 2; end 1 1; write -1 0 33347; tick 2001; write -1 90 1; sync; clean 1; "
            "tick 2001; write -1 90 1; clean 1; tick 2001; write -1 90 1; sync; clean 1; write 1 0 4315; end 1; "
            "start 2; tick 200; sync; clean 2; write 1 0 24507; end 1; sync; stop 2; unindex 2 8; clean 3"
        ),
    ),
    "an index that is lost below what an open transaction pins turns each transaction by itself": (
        1900002149,
        (
            "lead 3; write 3 1 -1; sync; stop 2; end 3 1; write -1 1 9235; sync; tick 2001; write -1 90 1; clean "
            "3; tick 2001; write -1 90 1; sync; clean 3; tick 2001; write -1 90 1; clean 3; write 3 0 59595; end "
            "3; start 2; sync; audit; round; round; probe 986; round; round; round 271; probe 352; round 80; "
            "clean 2; probe 190; write -1 90 64; sync; clean 1; round; stop 1; unindex 1 4"
        ),
    ),
    "a value that another shows though it was deleted says nothing against a new copy of a right log": (
        1800189542,
        (
            "write 1 0 72627; sync; stop 1; end 1 1; sync; stop 3; write -1 0 -1; round; tick 2001; write -1 90 "
            "33; clean 2; tick 2001; write -1 90 59; clean 2; tick 2001; write -1 90 78; clean 2; start 1; write "
            "1 2 84861; sync; stop 1; usurp 1; end 1; round; start 2; sync; wipe 1 1"
        ),
    ),
    "a frozen replica that shows what another is accused of holds up no difference without direction": (
        1800201400,
        (
            "write -1 0 18417; sync; stop 3; write -1 0 -1; tick 200; write -1 90 92; sync; clean 1; clean 2; "
            "tick 2001; write -1 90 86; sync; clean 2; clean 1; start 3; sync; audit; write -1 0 6129; write 3 1 "
            "29456; sync; stop 3; end 3 1; write -1 1 17879; tick 2001; write -1 90 15; sync; clean 2; tick 2001; "
            "write -1 90 25; sync; clean 2; tick 2001; write -1 90 72; sync; clean 2; start 3; stop 1; write -1 0 "
            "-1; round; tick 2001; write -1 90 79; clean 2; tick 2001; write -1 90 32; sync; clean 2"
        ),
    ),
    "a transaction of several records that all show wrongly is one finding": (
        1940051743,
        (
            "pair 0 0 81; write -1 0 79131; write 0 0 -1; sync; stop 2; end 0; sync; round; tick 5000; write -1 90 35; "
            "clean 1; tick 2001; write -1 90 38; sync; clean 1; tick 2001; write -1 90 47; clean 1; start 2; "
            "write 1 1 60231; sync; unassign 1; unassign 3; write 0 0 64690; end 0 1"
        ),
    ),
}

COMMIT_TO_ABORT = (
    "write -1 2 5; write 1 1 7; sync; stop 3; end 1 1; write -1 1 8; tick 200; write -1 90 1; sync; clean "
    "1; tick 2001; write -1 90 1; sync; clean 1; tick 2001; write -1 90 1; sync; clean 1; tick 2001; "
    "write -1 90 1; sync; clean 1; write 1 0 9; end 1; start 3; sync; tick 200; write -1 90 1; sync; "
    "clean 3; cold"
)
"""Replica 3 lost the COMMIT of offset 1 and has aborted and cleaned it; replica 2 still shows it. Nobody had read."""

_CLEANED = "tick 2001; write -1 90 1; sync; clean 1; " * 5
_TURNED = "write 1 0 9; end 1; start 3; sync; tick 200; write -1 90 1; sync; clean 3; cold"
LOST_WITH_ITS_TOMBSTONE = {
    "the first record": ("write -1 1 5; write 1 1 -1; sync; stop 3; end 1 1; ", "committed_record_aborted"),
    "a later one, and the first is cleaned on all": (
        (
            "write -1 1 5; write 1 2 7; write 1 1 -1; sync; stop 3; end 1 1; write -1 2 8; tick 200; "
            "write -1 90 1; sync; clean 2; "
        ),
        "deleted_record_resurrected",
    ),
    "one that is cleaned on all": (
        (
            "write -1 1 5; write 1 1 -1; sync; stop 3; end 1 1; tick 200; write -1 90 1; sync; clean 2; tick 2001; "
            "write -1 90 1; sync; clean 2; "
        ),
        "visibility_mismatch",
    ),
}
"""Replica 3 lost the COMMIT of a tombstone, and has aborted and cleaned it; 2 holds the COMMIT. The report on it."""

_LOOKED = "tick 2001; write -1 90 1; sync; clean 1; round; " * 4
_LOST = f"stop 2; write -1 1 -1; round; {_LOOKED}start 2; sync; round; tick 150; round; tick 150; round"
MEANWHILE = {
    "away": f"write -1 1 5; sync; round; stop 3; {_LOST}",
    "frozen": (
        "write -1 1 5; write 1 0 4; sync; round; stop 3; end 1 1; write -1 0 1; "
        f"{_LOOKED}start 3; sync; round; tick 500; round; {_LOST}"
    ),
}
"""Replica 2 lost a tombstone while replica 3 is away, or its last stable offset stands still."""

RIGHT_ALL_THE_SAME = (
    "write 1 1 7; sync; stop 3; end 1; tick 200; write -1 90 1; sync; clean 1; clean 2; tick 2001; write "
    "-1 90 1; sync; clean 1; clean 2; tick 2001; write -1 90 1; sync; clean 1; clean 2; write 1 2 8; end "
    "1 1; write -1 2 9; tick 200; write -1 90 1; sync; clean 1; tick 2001; write -1 90 1; sync; clean 1; "
    "tick 2001; write -1 90 1; sync; clean 1; tick 2001; write -1 90 1; sync; clean 1; write 1 0 9; end "
    "1; start 3; sync; tick 200; write -1 90 1; sync; clean 3; cold"
)
"""Replica 3 lost an ABORT and a COMMIT, and has aborted only what was aborted. 2 holds the COMMIT, but no ABORT."""

SEEDS = (
    *(2000660261, 2200010239, 2028),
    *(1800254236, 1800256114, 1930030314, 1940010017, 1940021412, 1940021992, 1940022683),
    *(1940033973, 1940042088, 1940043727, 1940044219, 1940044781),
    *(1800259006, 1900002149, 1800189542, 1800201400),
    *(1800043605, 1800213244, 1800214991, 1800215651),
    *(1800058860, 1800060630, 1800073495, 1800096230, 1800119165, 1800154095, 1800072123, 1800074410, 1800083842),
    *(1800111555, 1800118916, 1800120574, 1800143857, 1700058661, 1700065143, 1700082508, 1700103419, 1700121969),
    *(1700050722, 1800033503, 1800036098, 1800040155, 1700091667, 1700065991, 1800173594),
    *(1700018731, 1700057639, 1700063373, 1700076359, 1700077462, 1700083153, 1700090500, 1700092485, 1700098119),
    *(1200041266, 1300010673, 1300011731, 1300012659, 1300014018, 1300017993, 1300018497),
    *(1200000047, 1200000083, 1200000516, 1200001167, 1200011053, 1200020464),
    *(75000862, 900001726, 900001890, 900004581, 910002482, 910003100, 910009422, 930000523, 930001775),
    *(209, 218, 5043, 5145, 5171, 5256, 10636, 10887, 11404, 20069),
    *(4000193, 4001861, 5000148, 5000277, 5000994, 10000319, 10000429, 10000491, 10000557),
    *(11000027, 11000255, 11001181, 11002171, 11002800, 11003104, 11004960, 11005563, 11006942, 11006966, 11008029),
    *(11018258, 11021694, 12004991, 13000246, 13002770, 13005023, 30020718, 30021456, 40011855, 40020160, 50000123),
    *(
        60005423,
        60009493,
        60025403,
        60026166,
        60026663,
        60039405,
        60043302,
        60053406,
        60073571,
        60087739,
        60090765,
        71004331,
        73000918,
        430000253,
        450001042,
        72101442,
        72103382,
        503002012,
        503005467,
        700000347,
        700000826,
        700000887,
        820001856,
        822000090,
        830001238,
        830002767,
        830004368,
        824000976,
        831001034,
        900003400,
        900003595,
        910001372,
        910001434,
        910008051,
        910013198,
        951000365,
        940000335,
        960002914,
        970005722,
        970007759,
        970009430,
        980000471,
        940001066,
        970022877,
        970023006,
        970031977,
        970033032,
        970034150,
        970041574,
        1000000632,
        1000000850,
        1000001238,
        1000001559,
        1300002863,
        1300010673,
        1300012659,
        1500000510,
        1500001193,
    ),
)


def shown_by_side(event: Finding) -> dict[str, list[int]]:
    """Who showed what when an event was decided, as the table has it."""
    return as_document(sides_of(event))


def parse(text: str) -> list[Op]:
    made: list[Op] = []
    for part in text.split(";"):
        name, *numbers = part.split()
        a, b, c = [*map(int, numbers), 0, 0, 0][:3]
        made.append((name, a, b, c))
    return made


@pytest.mark.parametrize("name", FAULTY)
def test_faulty(name: str) -> None:
    brokers = BROKERS[:2] if "replica of two" in name else BROKERS
    World(replace(STANDARD, brokers=brokers)).run(FAULTY[name])


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy(name: str) -> None:
    World(replace(STANDARD, healthy=True)).run(HEALTHY[name])


@pytest.mark.parametrize("name", SHRUNKEN)
def test_shrunken(name: str) -> None:
    seed, text = SHRUNKEN[name]
    World(replace(kinds.profile(seed, healthy=False), compacted=True)).run(parse(text))


def test_what_waits_for_one_that_is_held_back_is_right_to_wait_only_where_that_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seed, text = SHRUNKEN["a value waits for one that is held back by a transaction whose outcome is reported of it"]
    monkeypatch.setattr("tests.simulation.world.is_blocking", lambda _: False)
    with pytest.raises(Violation, match="still pending"):
        World(kinds.profile(seed, healthy=False)).run(parse(text))


def test_an_entry_of_the_aborted_list_over_a_commit_is_a_wrong_outcome() -> None:
    world = World(STANDARD)
    world.run(parse(COMMIT_TO_ABORT))
    assert [(f.kind, f.broker, f.offset) for f in world.monitor.confirmed] == [("committed_record_aborted", 3, 1)]
    assert world.done["did audits that said diverged"] == 1


@pytest.mark.parametrize("name", LOST_WITH_ITS_TOMBSTONE)
def test_a_deleted_value_that_an_aborted_tombstone_brought_back_is_found(name: str) -> None:
    text, kind = LOST_WITH_ITS_TOMBSTONE[name]
    world = World(STANDARD)
    world.run(parse(text + _CLEANED + _TURNED))
    assert [f.kind for f in world.monitor.confirmed] == [kind]
    assert all(3 in {f.broker, *f.named} for f in world.monitor.confirmed)
    assert world.done["did audits that said diverged"] == 1


@pytest.mark.parametrize("name", MEANWHILE)
def test_one_replica_that_is_away_or_frozen_does_not_hide_what_another_has_lost(name: str) -> None:
    world = World(STANDARD)
    for op in parse(MEANWHILE[name]):
        world.apply(op)
    found = [f.broker for f in world.monitor.confirmed if f.kind == "deleted_record_resurrected"]
    assert found == [2]
    world.settle()


@pytest.mark.parametrize("frozen", [1, 3, 4])
def test_a_frozen_replica_hides_no_difference_between_others_whichever_of_those_that_show_the_value_it_is(
    frozen: int,
) -> None:
    """2 alone has deleted the key, and nothing of that is left; one of the three that show the value is frozen."""
    world = World(replace(STANDARD, brokers=(1, 2, 3, 4)))
    others = "".join(f"stop {b}; " for b in (1, 3, 4) if b != frozen)
    deleted = "write -1 1 -1; tick 5001" + "".join(f"; write -1 90 {n}; clean 2; tick 2001" for n in range(6))
    played(world, f"lead 2; write -1 1 9; write 2 3 5; sync; stop {frozen}; end 2 0; sync; {others}{deleted}", 0)
    played(world, "start 1; start 3; start 4; sync; cold; sync; round; tick 400; round; tick 400; round", 10)
    standing = {(str(e.kind), e.broker): shown_by_side(e) for e in world.monitor.lifecycle.standing()}
    assert standing.keys() == {("read_committed_frozen", frozen), ("visibility_mismatch", -1)}
    assert standing["visibility_mismatch", -1] == {"no value": [2], "value at offset 0": [1, 3, 4]}
    world.settle()


def _lap(times: int, *brokers: int) -> str:
    return ("tick 1500; write -1 90 1; sync; " + "".join(f"clean {b}; " for b in brokers) + "round; ") * times


_AWAY_FOR_LONG = _lap(9, 1, 3)
_SUPERSEDED = (
    "round; write 0 0 5; sync; round; stop 2; write -1 1 1; write -1 1 2; end 0; write 0 2 7; end 0 1; write -1 2 9; "
    "write -1 1 3; write -1 0 6; " + "tick 200; write -1 90 1; sync; clean 1; clean 3; " * 4 + "round; "
    f"{_AWAY_FOR_LONG}write 0 3 8; end 0 1; write -1 90 2; sync; round; start 2; sync; "
)
"""Replica 2 missed an ABORT; the others were read when they had cleaned the record, whose key was written again."""


@pytest.mark.parametrize("views", [(0, 1), (1, 0)], ids=["read_uncommitted first", "read_committed first"])
def test_a_wrong_outcome_is_found_in_whichever_order_the_views_come(views: tuple[int, int]) -> None:
    world = World(STANDARD)
    reads = "".join(f"read {view} 2 1000; batch 10; " for view in views)
    for op in parse(f"{_SUPERSEDED}{reads}round; tick 150; round; tick 150; round"):
        world.apply(op)
    assert [(f.kind, f.broker, f.offset) for f in world.monitor.confirmed] == [("aborted_record_committed", 2, 0)]
    world.settle()


_FORGOTTEN = "tick 2001; write -1 90 1; sync; clean 1; clean 3; " * 7
_IN_A_ROW = (
    f"write 0 0 5; sync; round; stop 2; end 0; sync; round; {_FORGOTTEN}start 2; sync; write 0 1 6; write 0 2 7; sync; "
    f"round; tick 150; round; stop 2; end 0; sync; round; {_FORGOTTEN}write 0 3 8; end 0 1; start 2; sync; "
)
"""Replica 2 missed the ABORT of two transactions in a row, and the COMMIT of a third at 20 ended both."""


@pytest.mark.parametrize("cut", ["", "read 0 2 8; read 1 2 19; progress 1; progress 2; progress 3; batch 10; probe; "])
def test_a_transaction_is_one_finding_wherever_the_rows_of_its_end_are_cut(cut: str) -> None:
    world = World(STANDARD)
    for op in parse(f"{_IN_A_ROW}{cut}round; tick 150; round; tick 150; round"):
        world.apply(op)
    found = {(f.broker, f.claim.transaction_start_offset, f.claim.marker_offset) for f in world.monitor.confirmed}
    assert found == {(2, 0, 1), (2, 9, 11)}
    world.settle()


def test_what_a_wrong_outcome_has_taken_from_another_key_of_its_transaction_is_no_second_finding() -> None:
    lap = "tick 2500; write -1 90 1; sync; clean 1; clean 3; round; " * 5
    lost = f"write -1 1 10; write -1 2 11; write 0 1 -1; write 0 2 -1; sync; round; stop 2; end 0; sync; round; {lap}"
    turned = f"write 0 4 44; end 0 1; sync; round; {lap}start 2; sync; round; round; "
    cleaned = "tick 2500; write -1 90 1; sync; clean 2; round; " * 3
    world = World(STANDARD)
    world.run(parse(f"{lost}{turned}{cleaned}tick 6000; round; round"))
    assert [(f.kind, f.broker, f.offset) for f in world.monitor.confirmed] == [("aborted_record_committed", 2, 2)]


def test_a_right_replica_whose_entry_reaches_over_a_commit_is_not_accused() -> None:
    world = World(STANDARD)
    world.run(parse(RIGHT_ALL_THE_SAME))
    assert [(a.first, a.last) for a in world.cluster.replicas[3].aborted] == [(0, 13)]
    assert (6, 101) in [(b.base, b.producer_id) for b in world.cluster.replicas[2].batches if b.marker is not None]
    assert world.monitor.confirmed == []


def test_who_ended_a_transaction_rightly_by_a_higher_marker_is_not_accused_by_one_of_another_transaction() -> None:
    """The true end marker was cleaned everywhere before anybody read, and on one replica an ABORT that came later."""
    fill, pause = "tick 2001; write -1 90 9; sync; clean 2; ", "clean 3; "
    text = (
        "lead 3; write 0 1 11; sync; stop 1; end 0 1; write -1 1 22; sync; clean 2; "
        f"{pause}{fill}{pause}{fill}{pause}write 0 2 33; end; write -1 2 66; sync; clean 2; {pause}"
        f"write -1 90 31; sync; clean 2; {pause}{fill}{pause}{fill}{pause}write 0 4 55; end 0 1; sync; "
        f"{fill * 5}lead 2; start 1; sync; cold; round; tick 300; round"
    )
    world = World(STANDARD)
    world.run(parse(text))
    first, last = world.cluster.replicas[1], world.cluster.replicas[3]
    assert not first.is_aborted(100, 0), "as it was committed"
    assert (6, 100) in [(b.base, b.producer_id) for b in last.batches if b.marker is not None]
    assert world.monitor.confirmed == []


def test_what_a_lost_index_showed_is_no_difference_that_stands_once_its_replica_holds_it_no_more() -> None:
    lost = "write 1 2 815; end 1 0; sync; stop 2; unindex 2 1; start 2; sync; round; tick 61; round; round; "
    over = "write -1 2 7; sync; tick 200; write -1 90 1; sync; clean 2; round; tick 5000; round"
    world = World(STANDARD)
    world.run(parse(lost + over))
    assert [(f.kind, f.broker) for f in world.monitor.confirmed] == [("outcome_contradicts_marker", 2)]


# A value on all, a newer one while 2 is away, its tombstone while 1 is away as well; 3 has cleaned all of it.
_THREE_SIDES = (
    "lead 3; write -1 0 11; sync; stop 2; write -1 0 22; sync; stop 1; write -1 0 -1; "
    + "".join(f"tick 2001; write -1 90 {n}; sync; clean 3; " for n in range(4))
    + "start 2; start 1; sync; cold; "
)
_ALL_READ = (
    "".join(f"read {view} {broker} 1000; " for broker in BROKERS for view in (0, 1))
    + "".join(f"progress {broker}; " for broker in BROKERS)
    + "batch 10; "
)
_SUSPECTED = f"{_THREE_SIDES}{_ALL_READ}tick 500; {_ALL_READ}"


def test_a_newer_value_is_not_called_right_while_the_one_that_has_deleted_it_is_away() -> None:
    world = World(STANDARD)
    for op in parse(f"{_SUSPECTED}stop 3; probe; start 3; sync; round; tick 500; round; audit; round"):
        world.apply(op)
    world.settle()
    assert {(f.kind, f.broker) for f in world.monitor.confirmed} == {("visibility_mismatch", NOBODY)}
    (stands,) = world.monitor.lifecycle.standing()
    assert sorted(evidence_of(stands)["sides"].values()) == [[1], [2], [3]]


def test_a_difference_of_which_every_replica_was_copied_from_a_wrong_one_has_not_healed() -> None:
    moves = "unassign 3; round; assign 3; sync; round; tick 300; round; unassign 2; round; assign 2; sync; round"
    world = World(STANDARD)
    world.run(parse(f"{_SUSPECTED}stop 3; probe; start 3; sync; round; {moves}; tick 300; round"))
    assert [f.broker for f in world.monitor.confirmed] == [NOBODY] * len(world.monitor.confirmed)
    (stands,) = world.monitor.lifecycle.standing()
    assert (stands.status, stands.severity, stands.exposed) == (FindingStatus.UNSETTLED, Severity.WARNING, False)
    for op in parse("write -1 0 33; sync; round"):
        world.apply(op)
    world.settle()
    assert world.monitor.lifecycle.standing() == []
    assert evidence_of(world.monitor.events[-1])["resolution"] == "superseded"


def _looked_at_again(world: World, times: int = 3, factor: int = 1) -> None:
    for _ in range(times):
        world.monitor.clock += RECHECK_S * factor
        world.apply(ROUND)


def test_a_loss_that_has_spread_stands_when_the_replica_that_was_accused_first_is_taken_off() -> None:
    lost = f"write -1 0 4; write 0 0 5; sync; round; stop 2; end 0; sync; round; {_lap(8, 1, 3)}write 0 3 8; end 0 1; "
    spread = "start 2; sync; round; tick 150; round; lead 2; wipe 1 1; sync; round; wipe 3 1; sync; round; round; "
    world = World(STANDARD)
    for op in parse(f"round; {lost}write -1 90 2; sync; round; {spread}unassign 2; round"):
        world.apply(op)
    _looked_at_again(world)
    (stands,) = world.monitor.lifecycle.standing()
    assert (stands.kind, stands.status) == ("aborted_record_committed", FindingStatus.SPREAD)
    for op in parse("assign 2; sync; round"):
        world.apply(op)
    world.settle()
    assert world.monitor.lifecycle.standing() == [stands]


def _last_events(world: World) -> set[tuple[str, str, int]]:
    """Status, kind and broker of the last event of each finding."""
    last = {e.finding_id: e for e in world.monitor.events if e.status is not FindingStatus.DISMISSED}
    return {(str(e.status), str(e.kind), e.broker) for e in last.values()}


_MOVING = replace(STANDARD, wipes=True, reassigns=True, moves=True)
_COPIED_FROM_2 = "lead 2; wipe 1 1; sync; round; wipe 3 1; sync; round; "
_TWO_ROLLED_BACK = (
    f"round; write -1 2 4; write 0 0 5; write 0 1 6; sync; round; stop 2; end 0; sync; round; {_lap(9, 1, 3)}"
    "write 0 3 8; end 0 1; write -1 90 2; sync; round; start 2; sync; round; tick 150; round; "
)


def test_what_ends_with_its_replica_is_said_of_that_one_and_accuses_no_other() -> None:
    world = World(_MOVING)
    lost = f"round; write -1 1 4; write 0 0 5; sync; round; stop 2; stop 3; end 0; sync; round; {_lap(9, 1)}"
    turned = "write 0 3 8; end 0 1; write -1 90 2; sync; round; start 2; start 3; sync; round; tick 150; round; "
    for op in parse(f"{lost}{turned}unassign 2; round"):
        world.apply(op)
    _looked_at_again(world)
    _looked_at_again(world, factor=11)
    wrong = "aborted_record_committed"
    assert _last_events(world) == {("resolved", wrong, 2), ("confirmed", wrong, 3)}
    world.settle()


@pytest.mark.parametrize("rewritten", ["", f"write -1 0 7; sync; round; {_lap(3, 1, 2, 3)}"], ids=["held", "cleaned"])
@pytest.mark.parametrize("away", [False, True], ids=["all asked", "one away"])
def test_a_loss_is_complete_though_the_replica_that_was_accused_is_taken_off_before_that_is_seen(
    rewritten: str, away: bool
) -> None:
    """And though the record that its finding names was cleaned, and another of the transaction was not."""
    world = World(_MOVING)
    left = "lead 1; stop 3; unassign 2; round" if away else "lead 1; unassign 2; round"
    for op in parse(f"{_TWO_ROLLED_BACK}{rewritten}{_COPIED_FROM_2}{left}"):
        world.apply(op)
    _looked_at_again(world)
    if away:
        assert _last_events(world) == {("confirmed", "aborted_record_committed", 2)}, "one that may be right is away"
        for op in parse("start 3; sync; round"):
            world.apply(op)
        _looked_at_again(world)
    assert {status for status, _, _ in _last_events(world)} == {"spread"}
    world.settle()
    assert [stands.status for stands in world.monitor.lifecycle.standing()] == [FindingStatus.SPREAD]


def test_a_deleted_value_is_not_right_because_its_replica_is_the_only_one_left() -> None:
    world = World(_MOVING)
    lost = f"round; write -1 0 5; write -1 1 6; sync; round; stop 2; write -1 0 -1; sync; round; {_lap(6, 1, 3)}"
    alone = "start 2; sync; round; tick 150; round; lead 2; sync; round; unassign 1; unassign 3; round"
    for op in parse(lost + alone):
        world.apply(op)
    _looked_at_again(world)
    assert _last_events(world) == {("spread", "deleted_record_resurrected", 2)}
    for op in parse("assign 1; assign 3; sync; round; sync; round"):
        world.apply(op)
    _looked_at_again(world)
    world.settle()
    assert [stands.status for stands in world.monitor.lifecycle.standing()] == [FindingStatus.SPREAD]


@pytest.mark.parametrize("looks", [0, 1])
def test_a_record_that_no_replica_has_any_more_is_lost_whenever_that_was_looked_at(looks: int) -> None:
    world = World(replace(_MOVING, compacted=False))
    for op in parse(
        "round; write -1 0 5; write -1 1 6; write -1 2 7; sync; lose 2 0; round; write -1 1 9; sync; round; "
        f"tick 1500; round; {_COPIED_FROM_2}round"
    ):
        world.apply(op)
    _looked_at_again(world, looks)
    for op in parse("lead 1; unassign 2; round"):
        world.apply(op)
    _looked_at_again(world)
    assert {(status, kind) for status, kind, _ in _last_events(world)} == {("spread", "record_missing")}
    world.settle()


def test_a_difference_stands_between_those_that_are_left_when_the_replica_that_was_asked_last_is_taken_off() -> None:
    world = World(STANDARD)
    for op in parse(f"{_SUSPECTED}stop 3; probe; start 3; sync; round"):
        world.apply(op)
    (reported,) = world.monitor.lifecycle.standing()
    world.apply(("unassign", claim_of(reported).pivot, 0, 0))
    _looked_at_again(world)
    (stands,) = world.monitor.lifecycle.standing()
    assert (stands.finding_id, stands.status) == (reported.finding_id, FindingStatus.CONFIRMED)
    assert set(world.cluster.replicas) >= standing(sides_of(stands)) > set()
    world.settle()


def test_one_that_shows_what_the_marker_says_that_it_lacked_is_not_accused_by_those_that_cannot_be_asked() -> None:
    lost = "write 0 1 4097; sync; stop 5; write 0 0 96; end; sync; round; usurp 5; end 0 1; write -1 0 38208; round; "
    back = "tick 150; start 2; start 3; sync; round; write -1 1 5; sync; "
    gone = "".join(f"tick 2001; write -1 90 {n}; sync; clean 2; clean 3; clean 5; " for n in range(4))
    world = World(kinds.profile(500001919, healthy=False))
    world.run(parse(f"{lost}{back}{gone}write 0 2 7; end 0 1; sync; start 1; start 4; sync; round; round"))
    assert {finding.kind for finding in world.monitor.confirmed} == {"log_truncated"}


def test_unlike_records_are_not_dismissed_while_a_replica_that_was_read_to_differ_is_away() -> None:
    on_one = "lead 1; write 0 0 11; sync; round; stop 2; stop 3; write -1 0 22; checkpoint; tick 300; round; "
    on_two = "usurp 2; end 0 1; write -1 3 5; start 3; fetch 3 50; fetch 3 50; tick 300; round; tick 300; round"
    world = World(replace(STANDARD, unclean=True))
    for op in parse(on_one + on_two):
        world.apply(op)
    assert "content_mismatch" in [claim.kind for claim in world.monitor.pending]
    for op in parse("start 1; round"):
        world.apply(op)
    assert "content_mismatch" in [finding.kind for finding in world.monitor.confirmed]


def test_a_truncated_log_has_healed_though_it_loses_a_later_record_on_its_own() -> None:
    cut = "write 2 0 11; sync; stop 2; end 2 1; sync; round; usurp 2; end 2; start 3; write -1 0 22; write 3 0 33; "
    lost = "fetch 3 50; round; end 3; sync; round; lose 3 4; write -1 90 1; write -1 90 2; write 2 0 36; sync; trim 1"
    p = replace(STANDARD, brokers=(1, 2, 3, 4), hosts=(1, 2, 3, 4), compacted=False, trims=True, unclean=True)
    World(p).run(parse(cut + lost))


def test_a_head_that_all_logs_have_lost_between_two_ticks_is_found_by_shared_readings() -> None:
    p = replace(kinds.profile(100000089, healthy=False), shared=True)
    World(p).run(kinds.generate(p))


@pytest.mark.parametrize("healthy", [True, False], ids=["healthy", "faulty"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_that_once_failed(seed: int, healthy: bool) -> None:
    run(seed, healthy)


OLDER_LOGS = {
    "an end marker that a later one has replaced at its offset contradicts no outcome": 2000000019,
    "a record that the log has committed since was not rolled back": 2000000273,
    "a record that the log has aborted since was not committed": 2000000474,
    "a transaction that the log has open again holds nobody back wrongly": 2000000368,
    "a value whose deletion is lost with a log has not healed where it is gone": 2000000678,
    "a finding on a transaction that another end has closed since is over": 2000000007,
    "a finding on an index is over once the log has no end marker there": 2000000122,
    "a deletion that is lost with a log accuses nobody to the end": 2000000516,
    "one that was held back in a log before is held back by another transaction now": 2000000109,
    "a transaction of which no log that stands knows the end accuses nobody": 2000000532,
    "a transaction that is open below where all logs were truncated is another one": 2000002193,
    "an end marker that was cut says of no outcome that all show that it is wrong": 2000000567,
    "a replica holds two transactions as one": 2000001191,
}
"""After a loss that was found, one that had stayed behind leads: what was read of the other log says nothing of its."""


@pytest.mark.parametrize("name", OLDER_LOGS)
def test_what_is_known_of_a_log_is_held_against_nobody_once_an_older_one_leads(name: str) -> None:
    run(OLDER_LOGS[name], healthy=False)


def test_an_incident_says_again_of_a_key_what_the_probe_of_its_own_finding_has_proven() -> None:
    run(1930010230, healthy=False, alone=1)


def test_a_tombstone_that_an_election_has_cut_is_not_held_against_who_shows_another_record_there() -> None:
    world = World(replace(STANDARD, seed=7, unclean=True, keys=4))
    ops = parse(
        "write -1 2 11875; sync; round; stop 1; stop 2; write -1 2 -1; tick 200; write -1 90 23; clean 3; "
        "read 1 3 1000; read 0 3 1000; progress 3; batch 10; usurp 2; start 1; write -1 90 68; sync; read 1 1 "
        "1; write -1 90 41; tick 200; write -1 90 6; sync; clean 2; clean 1; round; start 3; sync; round; "
        "tick 150; round; tick 150; round"
    )
    world.run(ops)
    told = [event for event in world.monitor.events if event.stands]
    assert {event.broker for event in told} == {NOBODY, 3}


@pytest.mark.parametrize("wired", [False, True], ids=["model", "bytes"])
def test_what_a_log_of_an_older_epoch_has_replaced_up_to_where_it_was_read_is_unknown_until_an_audit(
    wired: bool,
) -> None:
    """Broker 2 wrote offset 1 in an epoch of its own; after a second unclean election it has that of 1, and goes on."""
    world = World(replace(STANDARD, unclean=True, wired=wired))
    ops = parse(
        "write -1 0 10; sync; round; stop 2; write -1 1 11; sync; usurp 2; write -1 2 22; round; usurp 1; "
        "write -1 3 33; start 2; start 3; sync; round; tick 150; sync; round"
    )
    for op in ops:
        world.apply(op)
    assert world.monitor.coverage.unknown_for(UnknownReason.BEFORE_FIRST_READING)[0] > 0
    world.settle()


def test_a_replica_that_is_put_right_is_accused_no_more_though_another_was_copied_from_it_before() -> None:
    """2 misses the ABORT of two records, and the producer's COMMIT ends both. 3 is copied from 2, and 2 from 1."""
    world = World(replace(STANDARD, seed=7, reassigns=True, keys=4))
    ops = parse(
        "write -1 1 5; sync; round; write 0 1 10; write 0 2 11; sync; round; stop 2; end 0 0; sync; round; tick 5000; "
        "write -1 90 1; sync; clean 1; clean 3; tick 200; write -1 90 2; sync; clean 1; clean 3; tick 2001; "
        "write -1 90 3; sync; clean 1; clean 3; write 0 0 12; end 0 1; sync; start 2; sync; round; tick 150; round; "
        "lead 2; sync; round; unassign 3; sync; round; assign 3; sync; round; tick 5000; round; "
        "lead 1; sync; round; unassign 2; sync; round; assign 2; sync; round; tick 30000; round; tick 60000; round"
    )
    for op in ops:
        world.apply(op)
    assert [(event.broker, str(event.status)) for event in world.monitor.events] == [
        (2, "confirmed"),
        (2, "resolved"),
        (3, "confirmed"),
    ]
    world.settle()
    assert {event.broker for event in world.monitor.lifecycle.standing()} == {3}


_INDEX_LOST = "stop 2; unindex 2 0; unindex 2 1; start 2; sync; round; round; tick 61; round; "
_ROLLED_BACK = "write -1 90 4; sync; round; round; {}; sync; end 0 0; sync; write -1 90 5; write -1 90 6; sync; "


def _looked_at(world: World, text: str) -> None:
    for op in parse(text.removesuffix("; ")):
        world.apply(op)
    _looked_at_again(world, 1)


def _lapped(times: int, *brokers: int) -> str:
    return f"tick 1500; write -1 90 1; sync; {''.join(f'clean {b}; ' for b in brokers)}round; " * times


def _rebuilt(replica: Replica) -> None:
    """Its index of aborted transactions is what its log says."""
    began: dict[int, int] = {}
    replica.aborted = []
    for batch in (b for b in replica.batches if b.transactional):
        if not batch.control:
            began.setdefault(batch.producer_id, batch.base)
        elif (start := began.pop(batch.producer_id, None)) is not None and batch.marker is End.ABORT:
            replica.aborted.append(Aborted(batch.producer_id, start, batch.last))


def test_an_index_that_is_rebuilt_brings_back_nothing_that_the_cleaner_has_taken_by_it() -> None:
    """2 shows keys 0 and 1 as a rolled-back transaction has them; its cleaner takes the committed value of key 1."""
    world = World(STANDARD)
    _looked_at(world, f"round; write -1 1 4; {_ROLLED_BACK.format('pair 0 0 7')}{_INDEX_LOST}")
    _looked_at(world, _lapped(2, 2))
    _looked_at(world, "stop 2")
    _rebuilt(world.cluster.replicas[2])
    _looked_at(world, "start 2; sync; round")
    _looked_at_again(world)
    (stands,) = world.monitor.lifecycle.standing()
    assert (stands.kind, stands.broker, stands.offset) == ("outcome_contradicts_marker", 2, 3)
    assert stands.summary.startswith("Broker 2 lacks a value of the key of offset 3 of t-0 that another shows")
    world.settle()


def test_a_rolled_back_tombstone_that_took_a_value_with_it_goes_on_being_said_of_its_replica() -> None:
    world = World(STANDARD)
    _looked_at(world, f"round; write -1 0 4; {_ROLLED_BACK.format('write 0 0 -1')}{_INDEX_LOST}")
    _looked_at(world, _lapped(3, 2, 1, 3))
    _looked_at(world, _lapped(6, 2, 1, 3))
    (stands,) = world.monitor.lifecycle.standing()
    assert (stands.broker, stands.kind) == (2, "outcome_contradicts_marker")
    world.settle()


MISSED_A_TOMBSTONE = (
    "round; write -1 0 4; write -1 90 4; sync; round; round; stop 2; write -1 0 -1; sync; round; "
    + "tick 1500; write -1 90 1; sync; clean 1; clean 3; round; " * 8
    + "start 2; sync; round; tick 150; round"
)
MISSED_AN_ABORT = (
    "round; write -1 0 4; write -1 90 4; sync; round; round; write 0 0 7; sync; round; stop 2; end 0 0; sync; round; "
    + "tick 1500; write -1 90 1; sync; clean 1; clean 3; round; " * 8
    + "write 0 3 8; end 0 1; write -1 90 2; sync; round; start 2; sync; round; tick 150; round"
)
PUT_RIGHT = {
    "copied again": "lead 3; sync; tick 100; round; wipe 2 1; sync; tick 100; round",
    "moved": "lead 3; sync; tick 100; round; unassign 2; tick 100; round; assign 2; sync; tick 100; round",
    "taken off": "unassign 2; tick 100; round",
}


def looked_at_again(world: World, times: int) -> None:
    for _ in range(times):
        world.monitor.clock += RECHECK_S
        for op in (("tick", 100, 0, 0), ROUND):
            world.apply(op)


@pytest.mark.parametrize("how", PUT_RIGHT)
@pytest.mark.parametrize("missed", [MISSED_A_TOMBSTONE, MISSED_AN_ABORT], ids=["tombstone", "abort"])
def test_one_that_was_copied_from_the_accused_is_accused_once_that_is_right_or_gone(missed: str, how: str) -> None:
    """2 has missed it, 1 is copied from 2, and 2 is put right."""
    world = World(STANDARD)
    for op in parse(missed):
        world.apply(op)
    looked_at_again(world, 1)
    for op in parse("lead 2; wipe 1 1; sync; tick 100; round"):
        world.apply(op)
    looked_at_again(world, 2)
    assert [event.broker for event in world.monitor.lifecycle.standing()] == [2]
    for op in parse(PUT_RIGHT[how]):
        world.apply(op)
    looked_at_again(world, 4)
    assert [event.broker for event in world.monitor.lifecycle.standing()] == [1]
    if how != "taken off":
        world.settle()  # Which would give 2 a new copy of 1.


def test_an_index_is_not_said_to_be_rebuilt_once_the_cleaner_has_taken_the_end_marker() -> None:
    world = World(STANDARD)
    _looked_at(world, f"round; write -1 1 4; {_ROLLED_BACK.format('pair 0 0 7')}{_INDEX_LOST}")
    (before,) = world.monitor.lifecycle.standing()
    assert "rebuild" in " ".join(step.text for step in explain(before).steps)
    _looked_at(world, _lapped(4, 2))
    _looked_at_again(world)
    assert [b.marker for b in world.cluster.replicas[2].batches if b.marker is not None] == []
    (after,) = world.monitor.lifecycle.standing()
    assert (after.kind, after.broker) == (before.kind, 2)
    assert "rebuild" not in " ".join(step.text for step in explain(after).steps)


def test_a_value_that_a_wrong_outcome_has_cost_is_not_over_once_all_were_copied_from_its_replica() -> None:
    """2 shows a rolled-back tombstone as committed, and its cleaner takes the value before it; then all are copies."""
    world = World(STANDARD)
    for op in parse(MISSED_THE_ABORT_OF_A_DELETION):
        world.apply(op)
    looked_at_again(world, 1)
    for op in parse("round" + "; tick 1500; write -1 90 1; sync; clean 2; round" * 6):
        world.apply(op)
    looked_at_again(world, 2)
    (stands,) = world.monitor.lifecycle.standing()
    assert (stands.broker, str(stands.status)) == (2, "confirmed")
    for op in parse("lead 2; wipe 1 1; sync; tick 100; round; wipe 3 1; sync; tick 100; round"):
        world.apply(op)
    looked_at_again(world, 3)
    (stands,) = world.monitor.lifecycle.standing()
    assert (stands.broker, str(stands.status)) == (2, "unsettled")
    assert "no replica shows the value of offset 0 any more" in stands.summary
    world.settle()


def test_outcomes_without_direction_differ_as_long_as_any_record_of_the_transaction_does() -> None:
    """Keys 0 and 1 are of one transaction, which 1 shows as aborted and 2 as committed. Key 0 is written again."""
    world = World(STANDARD)
    far = "".join(f"write -1 {91 + i % 2} {i}; " for i in range(70))
    begun = f"write -1 0 4; write -1 1 4; write -1 90 1; pair 0 0 7; {far}sync; stop 2; lead 3; end 0 0; sync; "
    lapped = "tick 1500; write -1 90 1; sync; clean {}; round; "
    for op in parse(
        f"{begun}{'tick 1500; write -1 90 1; sync; clean 3; ' * 8}"
        "write 0 3 8; end 0 1; write -1 90 2; sync; start 2; sync; tick 150; round; round"
    ):
        world.apply(op)
    looked_at_again(world, 2)
    (stands,) = world.monitor.lifecycle.standing()
    assert (stands.kind, stands.broker, stands.offset) == ("visibility_mismatch", NOBODY, 3)
    for op in parse(f"write -1 0 55; {lapped.format(2) * 4}{lapped.format(3) * 3}write -1 0 56; sync; round"):
        world.apply(op)
    looked_at_again(world, 3)
    (stands,) = world.monitor.lifecycle.standing()
    assert (stands.kind, stands.offset, str(stands.status)) == ("visibility_mismatch", 4, "confirmed")
    world.settle()
    assert len(world.monitor.lifecycle.standing()) == 1


MISSED_THE_ABORT_OF_A_DELETION = (
    "round; write -1 0 4; write -1 90 4; sync; round; round; write 0 0 -1; sync; round; stop 2; end 0 0; sync; round; "
    + "tick 1500; write -1 90 1; sync; clean 1; clean 3; round; " * 8
    + "write 0 3 8; end 0 1; write -1 90 2; sync; round; start 2; sync; round; tick 150; round"
)
MISSED_THE_COMMIT_OF_A_DELETION = (
    "round; write -1 0 4; write -1 90 4; sync; round; round; write 0 0 -1; sync; round; stop 2; end 0 1; sync; round; "
    + "tick 1500; write -1 90 1; sync; clean 1; clean 3; round; " * 9
    + "write 0 3 8; end 0 0; write -1 90 2; sync; round; start 2; sync; round; tick 150; round"
)
ANOTHER_IS_COPIED = "lead 2; wipe 1 1; sync; tick 100; round"
ONE_IS_COPIED_AGAIN = "lead 3; sync; tick 100; round; wipe 2 1; sync; tick 100; round"


def played(world: World, text: str, looks: int) -> None:
    for op in parse(text):
        world.apply(op)
    looked_at_again(world, looks)


@pytest.mark.parametrize("missed", [MISSED_THE_ABORT_OF_A_DELETION, MISSED_THE_COMMIT_OF_A_DELETION])
def test_a_replica_that_is_right_again_is_not_accused_by_the_values_of_one_that_is_not(missed: str) -> None:
    """2 has ended a deletion wrongly, and cleaned; 1 is copied from 2, which is put right: 1 is wrong by its key."""
    world = World(STANDARD)
    played(world, missed, 1)
    played(world, "round" + "; tick 1500; write -1 90 1; sync; clean 2; round" * 6, 2)
    played(world, ANOTHER_IS_COPIED, 3)
    played(world, ONE_IS_COPIED_AGAIN, 20)
    (stands,) = world.monitor.lifecycle.standing()
    assert (stands.kind, stands.broker) == ("visibility_mismatch", NOBODY)
    assert {frozenset(side) for side in shown_by_side(stands).values()} == {frozenset({1}), frozenset({2, 3})}
    world.settle()


def test_what_a_finding_covers_is_seen_on_another_replica_by_any_record_of_its_transaction() -> None:
    """1 is copied from 2, which shows two rolled-back keys, and cleans the first, which was written again."""
    world = World(STANDARD)
    played(world, MISSED_AN_ABORT.replace("write 0 0 7", "write 0 0 7; write 0 1 7"), 1)
    played(world, ANOTHER_IS_COPIED, 2)
    lapped = "write -1 90 3; sync; clean 1; round"
    played(world, f"write -1 0 44; {lapped}; tick 1500; {lapped}; lead 3; sync; tick 100; round", 2)
    (stands,) = world.monitor.lifecycle.standing()
    assert (stands.broker, shown_by_side(stands)) == (2, {"committed": [2]}), (
        "what 1 was read to show is no witness any more"
    )
    played(world, "wipe 2 1; sync; tick 100; round", 8)
    (stands,) = world.monitor.lifecycle.standing()
    assert (stands.kind, stands.broker) == ("aborted_record_committed", 1)
    world.settle()


@pytest.mark.parametrize("missed", [MISSED_A_TOMBSTONE, MISSED_AN_ABORT], ids=["tombstone", "abort"])
def test_one_that_shows_the_same_and_is_away_when_the_accused_is_put_right_is_not_forgotten(missed: str) -> None:
    """The finding is reported once more, because the leader changes, while that one is away."""
    world = World(STANDARD)
    played(world, missed, 1)
    played(world, "lead 2; wipe 1 1; sync; tick 100; round; lead 1; sync; tick 100; round", 3)
    (stands,) = world.monitor.lifecycle.standing()
    assert [1, 2] in shown_by_side(stands).values()
    played(world, "lead 3; sync; tick 100; round; stop 1; tick 100; round", 2)
    played(world, "wipe 2 1; sync; tick 100; round", 6)
    played(world, "start 1; sync; tick 100; round", 30)
    (stands,) = world.monitor.lifecycle.standing()
    assert stands.broker == 1
    world.settle()


def test_a_key_of_a_transaction_that_was_written_again_alike_keeps_no_outcome_without_direction_open() -> None:
    world = World(STANDARD)
    far = "".join(f"write -1 {91 + i % 2} {i}; " for i in range(70))
    begun = (
        f"write -1 0 4; write -1 1 4; write -1 90 1; pair 0 0 7; {far}write -1 1 77; sync; stop 2; lead 3; end 0 0; "
    )
    lapped = "tick 1500; write -1 90 1; sync; clean {}; round; "
    played(
        world,
        f"{begun}sync; {'tick 1500; write -1 90 1; sync; clean 3; ' * 8}"
        "write 0 3 8; end 0 1; write -1 90 2; sync; start 2; sync; tick 150; round; round",
        2,
    )
    again = "".join(lapped.format(broker) * times for broker, times in ((2, 4), (3, 3), (1, 3)))
    played(world, f"write -1 0 55; {again}write -1 0 56; sync; round", 20)
    assert [f.offset for f in world.monitor.lifecycle.standing()] == []
    world.settle()


OF_FOUR = replace(STANDARD, brokers=(1, 2, 3, 4))
_ONLY_ONE_CLEANS = "tick 1500; write -1 90 1; sync; clean 1; round; " * 8
_ENDED_LATER = "write 0 3 8; end 0 1; write -1 90 2; sync; round; start 2; sync; round; tick 150; round"
A_LATE_ABORT = "round; write -1 0 4; {}write -1 90 4; sync; round; round; {}sync; round; stop 2; end 0 0; sync; round; "


def test_the_value_of_a_transaction_that_a_finding_leaves_gives_no_direction() -> None:
    """1 and 4 have lost the index that hides a second transaction of the key; 1 is copied again from another."""
    world = World(OF_FOUR)
    lapped = "tick 1500; write -1 90 1; sync; clean 1; clean 3; clean 4; round; " * 8
    played(world, f"{A_LATE_ABORT.format('', 'write 0 0 7; ')}{lapped}{_ENDED_LATER}", 1)
    played(
        world,
        "write 1 0 9; write -1 90 3; sync; round; end 1 0; write -1 90 3; write -1 91 4; sync; round; round; round; "
        "lead 3; sync; round; round; tick 61; round; stop 1; stop 4",
        0,
    )
    for broker in (1, 4):
        replica = world.cluster.replicas[broker]
        replica.aborted = [entry for entry in replica.aborted if entry.producer_id != 101]
    played(world, "start 1; start 4; sync; round; round; tick 61; round", 2)
    played(world, "round" + "; tick 1500; write -1 90 1; sync; clean 3; round" * 3, 1)
    played(world, "wipe 2 1; sync; tick 100; round", 5)
    played(world, "wipe 1 1; sync; tick 100; round", 5)
    (stands,) = world.monitor.lifecycle.standing()
    assert (stands.kind, stands.broker) == ("visibility_mismatch", NOBODY)
    world.settle()
    (stands,) = world.monitor.lifecycle.standing()
    assert (stands.kind, stands.broker) == ("outcome_contradicts_marker", 4)


def test_a_copy_is_looked_for_by_key_though_the_accused_shows_the_record_rightly_again() -> None:
    """1 is a copy of 2, whose cleaner had taken the value before a rolled-back deletion; 2 is one of 3, uncleaned."""
    world = World(STANDARD)
    played(world, f"{A_LATE_ABORT.format('', 'write 0 0 -1; ')}{_ONLY_ONE_CLEANS}{_ENDED_LATER}", 1)
    played(world, "round" + "; tick 1500; write -1 90 1; sync; clean 2; round" * 6, 2)
    played(world, f"{ANOTHER_IS_COPIED}", 3)
    played(world, ONE_IS_COPIED_AGAIN, 6)
    (stands,) = world.monitor.lifecycle.standing()
    assert (stands.kind, shown_by_side(stands)) == (
        "visibility_mismatch",
        {"no value": [1], "value at offset 0": [2, 3]},
    )
    world.settle()


def test_a_copy_is_looked_for_by_other_records_though_the_accused_shows_the_first_rightly_again() -> None:
    """1 is a copy of 2 and has cleaned the first of two rolled-back records; 2 is one of 3, uncleaned."""
    world = World(STANDARD)
    two = A_LATE_ABORT.format("write -1 1 4; ", "write 0 0 7; write 0 1 7; ")
    played(world, f"{two}{_ONLY_ONE_CLEANS}{_ENDED_LATER}", 1)
    played(world, ANOTHER_IS_COPIED, 2)
    again = "write -1 0 44; write -1 90 3; sync; round; clean 1; tick 1500; write -1 90 3; sync; clean 1; round"
    played(world, f"{again}; lead 3; sync; tick 100; round", 2)
    played(world, "wipe 2 1; sync; tick 100; round", 8)
    (stands,) = world.monitor.lifecycle.standing()
    assert (stands.kind, stands.broker, stands.offset) == ("aborted_record_committed", 1, 4)
    world.settle()


def test_one_that_showed_the_same_is_remembered_when_the_finding_comes_to_go_by_a_value() -> None:
    world = World(STANDARD)
    played(world, f"{A_LATE_ABORT.format('', 'write 0 0 -1; ')}{_ONLY_ONE_CLEANS}{_ENDED_LATER}", 1)
    played(world, ANOTHER_IS_COPIED, 3)
    played(world, "round" + "; tick 1500; write -1 90 1; sync; clean 2; round" * 6, 2)
    played(world, "lead 3; sync; tick 100; round", 2)
    played(world, "stop 1; tick 100; round", 2)
    played(world, "wipe 2 1; sync; tick 100; round", 6)
    played(world, "start 1; sync; tick 100; round", 20)
    (stands,) = world.monitor.lifecycle.standing()
    assert (stands.kind, stands.broker) == ("aborted_record_committed", 1)
    world.settle()


@pytest.mark.parametrize(
    ("before", "ended", "kind", "own"),
    [
        (
            f"round; write -1 0 4; {_ROLLED_BACK.format('write 0 0 7')}",
            "write 0 3 8; end 0 1; write -1 90 2; sync; round; round",
            "aborted_record_committed",
            "committed",
        ),
        (
            f"round; write -1 0 4; {_ROLLED_BACK.format('write 0 0 7').replace('round; ', '')}round; round; ",
            "round",
            "read_committed_frozen",
            "open",
        ),
    ],
    ids=["committed", "open"],
)
def test_one_of_two_copies_that_is_put_right_is_named_no_more(before: str, ended: str, kind: str, own: str) -> None:
    """1 and 4 are copies of 2, whose cleaner went by a lost index and took the end marker; 2 is put right, then 1."""
    world = World(OF_FOUR)
    played(world, f"{before}{_INDEX_LOST.removesuffix('; ')}", 2)
    played(world, "round" + "; tick 1500; write -1 90 1; sync; clean 2; round" * 8, 2)
    played(world, ended, 2)
    played(world, "lead 2; wipe 1 1; wipe 4 1; sync; tick 100; round", 2)
    played(world, ONE_IS_COPIED_AGAIN, 5)
    played(world, "wipe 1 1; sync; tick 100; round", 5)
    (stands,) = world.monitor.lifecycle.standing()
    assert (stands.kind, stands.broker, shown_by_side(stands)[own]) == (kind, 4, [4])


def _stands(world: World) -> list[tuple[str, int]]:
    return [(str(event.kind), event.broker) for event in world.monitor.lifecycle.standing()]


LATE_ABORT = (
    "round; {before}write -1 90 4; sync; round; round; {written}sync; round; stop {away}; end 0 0; sync; round; "
)
"""A transaction is rolled back while a replica is away."""
FORGOTTEN = "tick 1500; write -1 90 1; sync; clean {0}; round; " * 8
TAKEN_FOR_ITS_END = "write 0 3 8; end 0 1; write -1 90 2; sync; round; start 2; sync; round; tick 150; round"
CLEANED = "round" + "; tick 1500; write -1 90 1; sync; clean {0}; round" * 6
COPIED = "lead {0}; sync; tick 100; round; wipe {1} 1; sync; tick 100; round"


@pytest.mark.parametrize("brokers", [BROKERS, (1, 2, 3, 4)], ids=["three", "four"])
def test_one_that_was_frozen_and_is_right_by_now_is_not_accused_by_one_that_ended_the_transaction_otherwise(
    brokers: tuple[int, ...],
) -> None:
    """3 shows a rolled-back record as committed. Another was copied from it, and held that open; it is copied anew."""
    world = World(replace(STANDARD, brokers=brokers))
    if len(brokers) == 3:
        lapped = "; tick 1500; write -1 90 1; sync; clean 3; round" * 3
        ended = "write 0 0 7; sync; end 0 0; sync; write -1 90 5; write -1 90 6; sync; round; round"
        lost = f"{ended}; stop 3; unindex 3 0; unindex 3 1; start 3; sync; round{lapped}"
        _looked_at(world, f"{lost}; lead 3; sync; tick 100; round; wipe 1 1; sync; tick 100; round")
        anew = "lead 2; sync; wipe 1 1; sync; tick 100; round"
    else:
        begun = "round; write -1 90 4; sync; round; write 1 0 7; sync; round; stop 3; end 1 0; sync; round; "
        _looked_at(world, f"{begun}{FORGOTTEN.format(1)}lead 1; start 3; sync; round; tick 400; round")
        _looked_at(world, "lead 3; wipe 4 1; sync; tick 400; round; tick 400; round")
        _looked_at(
            world, "lead 2; sync; stop 4; tick 100; round; write 1 3 8; end 1 1; write -1 90 2; sync; round; round"
        )
        anew = "lead 2; wipe 4 1; sync; tick 100; round"
    looked_at_again(world, 3)
    _looked_at(world, anew)
    looked_at_again(world, 4)
    wrong = [("visibility_mismatch", -1)] if len(brokers) == 3 else [("aborted_record_committed", 3)]
    assert _stands(world) == wrong


@pytest.mark.parametrize("frozen", [False, True])
def test_a_copy_that_lacks_a_value_is_reported_once_the_accused_is_right_though_another_is_frozen(frozen: bool) -> None:
    world = World(replace(STANDARD, brokers=(1, 2, 3, 4)))
    if frozen:
        held = "round; write 1 5 3; sync; round; stop 4; end 1 1; write -1 5 9; sync; round; "
        cleaned = "tick 1500; write -1 90 1; sync; clean 1; clean 2; clean 3; round; " * 8
        _looked_at(world, f"{held}{cleaned}start 4; sync; round; tick 400; round; tick 400; round")
    _a_copy_of_one_that_was_cleaned(world)
    _looked_at(world, COPIED.format(3, 2))
    looked_at_again(world, 20)
    assert ("visibility_mismatch", -1) in _stands(world)


def _a_copy_of_one_that_was_cleaned(
    world: World, before: str = "write -1 0 4; ", written: str = "write 0 0 -1; "
) -> None:
    """2 shows a rolled-back deletion as committed, its cleaner takes the value before, and 1 is copied from it."""
    begun = LATE_ABORT.format(before=before, written=written, away=2)
    _looked_at(world, begun + FORGOTTEN.format(1) + TAKEN_FOR_ITS_END)
    _looked_at(world, CLEANED.format(2))
    _looked_at(world, "lead 2; wipe 1 1; sync; tick 100; round")
    looked_at_again(world, 2)


def test_a_copy_that_lacks_a_value_is_reported_though_it_was_away_when_the_accused_came_to_be_right() -> None:
    world = World(STANDARD)
    _a_copy_of_one_that_was_cleaned(world)
    _looked_at(world, "stop 1; tick 100; round; " + COPIED.format(3, 2))
    looked_at_again(world, 3)
    assert _stands(world) == []
    _looked_at(world, "start 1; sync; tick 100; round")
    looked_at_again(world, 20)
    assert _stands(world) == [("visibility_mismatch", -1)]


def test_a_copy_that_lacks_the_values_of_many_keys_of_a_transaction_is_reported_for_each() -> None:
    world = World(STANDARD)
    keys = range(100, 120)
    before = "".join(f"write -1 {key} 4; " for key in keys)
    _a_copy_of_one_that_was_cleaned(world, before, "".join(f"write 0 {key} -1; " for key in keys))
    _looked_at(world, COPIED.format(3, 2))
    looked_at_again(world, 20)
    (stands,) = world.monitor.lifecycle.standing()
    assert (stands.broker, tally_of(stands).count) == (-1, len(keys))


@pytest.mark.parametrize("first", ["7", "-1"])
def test_a_transaction_that_an_audit_has_found_is_no_second_finding_once_its_first_record_is_cleaned(
    first: str,
) -> None:
    world = World(STANDARD)
    begun = "round; write -1 0 4; write -1 1 4; write -1 90 4; sync; round; "
    rolled_back = (
        f"write 0 0 {first}; write 0 1 7; sync; end 0 0; sync; write -1 90 5; write -1 90 6; sync; round; round"
    )
    _looked_at(world, f"{begun}{rolled_back}; stop 2; unindex 2 0; unindex 2 1; start 2; sync; round; audit")
    _looked_at(world, "write -1 0 44; sync; round" if first == "7" else "round")
    _looked_at(world, "; ".join(["tick 1500; write -1 90 1; sync; clean 2; round"] * (1 if first == "7" else 3)))
    _looked_at(world, "audit")
    looked_at_again(world, 3)
    assert _stands(world) == [("outcome_contradicts_marker", 2)]


@pytest.mark.parametrize("alone", [0, ALONE])
def test_a_loss_that_has_spread_goes_on_being_said_of_the_one_that_is_taken_off_while_another_is_away(
    alone: int,
) -> None:
    """1 and 2 have missed an ABORT, and 3 is copied from 2."""
    world = World(replace(STANDARD, alone=alone))
    missed = "write 0 0 -1; sync; round; stop 2; stop 1; end 0 0; sync; round; "
    lapped = "tick 1500; write -1 90 1; sync; clean 3; round; " * 7
    taken = "write 0 3 8; end 0 1; write -1 90 2; sync; round; start 2; start 1; sync; round; tick 150; round; "
    _looked_at(world, f"{missed}{lapped}{taken}lead 2; sync; tick 100; round; wipe 3 1; sync; tick 100; round")
    _looked_at(world, "unassign 2; tick 100; round")
    looked_at_again(world, 3)
    _looked_at(world, "stop 3; tick 100; round")
    looked_at_again(world, 3)
    stands = {(event.broker, str(event.status)) for event in world.monitor.lifecycle.standing()}
    assert stands == {(1, "confirmed"), (2, "spread")}


def test_who_copies_a_right_log_is_not_accused_of_a_transaction_by_the_end_marker_of_another_producers() -> None:
    """2 missed the ABORT of one transaction. Its disk is replaced, and it has come to where another one is open."""
    world = World(STANDARD)
    begun = "round; write -1 90 4; sync; round; round; write 0 0 7; write 1 5 3; sync; round; stop 2; end 0 0; sync; "
    written = "".join(f"write -1 {key} 4; " for key in (6, 7, 8, 9))
    more = f"round; {written}sync; round; end 1 1; write -1 91 3; sync; round; "
    read = "".join(f"read 0 {b} 999; read 1 {b} 999; progress {b}; " for b in BROKERS) + "batch 10"
    for op in parse(f"{begun}{more}{_lapped(9, 1, 3)}start 2; sync; " + "; tick 150; ".join([read] * 5)):
        world.apply(op)
    assert ("read_committed_frozen", 2) in [(str(claim.kind), claim.broker) for claim in world.monitor.pending]
    for op in parse("wipe 2 1; fetch 2 5; probe; sync; round"):
        world.apply(op)
    looked_at_again(world, 2)
    assert _stands(world) == []
    world.settle()


def test_who_is_right_about_a_key_is_not_accused_by_what_an_end_leaves_on_it_while_it_is_away() -> None:
    """1 is a copy of the accused, and away when that is right again. What 2 and 3 show of the key was rolled back."""
    world = World(STANDARD)

    def done(text: str, looks: int) -> None:
        for op in parse(text):
            world.apply(op)
        looked_at_again(world, looks)

    begun = LATE_ABORT.format(before="write -1 0 4; ", written="write 0 0 7; ", away=2)
    done(begun + FORGOTTEN.format(1) + TAKEN_FOR_ITS_END, 1)
    done(COPIED.format(2, 1), 3)
    newer = (
        "lead 1; sync; write -1 0 5; write 1 0 9; write -1 90 1; sync; round; round; stop 2; stop 3; end 1 0; round; "
    )
    taken = "write 1 3 8; end 1 1; write -1 90 2; start 2; start 3; sync; round"
    done(newer + "tick 1500; write -1 90 1; clean 1; " * 8 + taken, 0)
    done("lead 3; sync; stop 1; tick 100; round; wipe 2 1; sync; tick 100; round", 4)
    done("start 1; sync; tick 100; round", 8)
    wrong = {("aborted_record_committed", 2), ("aborted_record_committed", 3)}
    assert set(_stands(world)) == wrong
    assert {event.broker for event in world.monitor.events if event.status is FindingStatus.CONFIRMED} <= {2, 3}


def test_a_finding_on_a_transaction_leaves_what_another_shows_of_any_record_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """1, a copy of the accused, has cleaned one of two records; the readers of 2 saw that its log was replaced."""
    answer = probe._answer

    def seen_replaced(cluster: Cluster, question: Question, *more: Any) -> Any:
        if isinstance(question, Recreated):
            return question.broker == 2
        return answer(cluster, question, *more)

    monkeypatch.setattr(probe, "_answer", seen_replaced)
    world = World(STANDARD)
    begun = LATE_ABORT.format(before="write -1 1 4; ", written="write 0 0 7; write 0 1 8; ", away=2)
    _looked_at(world, begun + FORGOTTEN.format(1) + TAKEN_FOR_ITS_END)
    _looked_at(world, COPIED.format(2, 1))
    looked_at_again(world, 1)
    _looked_at(world, "lead 3; sync; write -1 1 9; sync; round; " + _lapped(6, 1, 3) + "round")
    looked_at_again(world, 1)
    _looked_at(world, COPIED.format(3, 2))
    looked_at_again(world, 7)
    assert _stands(world) == [("aborted_record_committed", 1)]


def test_a_deletion_that_one_committed_is_held_against_a_copy_whoever_has_aborted_it() -> None:
    """1 misses the COMMIT and aborts the deletion; 3, away for longer than the cleaner waits, copies what is left."""
    world = World(STANDARD)
    begun = "write -1 1 9; stop 3; write 3 1 -1; sync; stop 1; end 3 1; round; tick 200; "
    cleaned = "".join(f"write -1 90 {value}; clean 2; tick 2001; " for value in (1, 2, 3))
    for op in parse(f"{begun}{cleaned}write -1 90 4; clean 2; write 3 2 7; end 3 0; start 1; sync; clean 1; stop 2"):
        world.apply(op)
    world.settle()
    assert _stands(world) == [("committed_record_aborted", 1), ("deleted_record_resurrected", 3)]


@pytest.mark.parametrize(
    "read", ["round; ", "read 1 1 999; ", ""], ids=["read", "read as read_committed alone", "unread"]
)
def test_a_plain_tombstone_of_a_log_that_was_lost_is_none_that_another_log_has_aborted_at_its_offset(read: str) -> None:
    """2 alone had deleted the key; 1, elected uncleanly, wrote a deletion of it there that was rolled back."""
    world = World(STANDARD)
    begun = "write -1 1 9; sync; round; stop 3; stop 1; write -1 1 -1; round; stop 2; usurp 1; write 3 1 -1; end 3 0; "
    cleaned = "write -1 90 1; {}tick 200; clean 1; write -1 90 2; clean 1; start 3; sync; round; tick 200; round; "
    _looked_at(world, begun + cleaned.format(read) + "tick 200; round; round")
    looked_at_again(world, 3)
    assert _stands(world) == []
    _looked_at(world, "start 2; sync; round; tick 200; round")
    looked_at_again(world, 3)
    assert _stands(world) == []


def test_a_deletion_whose_commit_an_unclean_election_has_cut_accuses_nobody() -> None:
    """2 alone had the COMMIT; 1, elected uncleanly, aborted the deletion, and 3 and then 1 are copied anew."""
    world = World(STANDARD)
    begun = "write -1 1 9; sync; stop 3; round; write 3 1 -1; sync; stop 1; end 3 1; sync; round; stop 2; usurp 1; "
    aborted = "write -1 90 1; end 3 0; write -1 90 2; tick 200; clean 1; write -1 90 3; clean 1; start 3; sync; "
    _looked_at(world, begun + aborted + "lead 3; sync; wipe 1 1; sync; round; tick 200; round; tick 200; round; round")
    looked_at_again(world, 3)
    _looked_at(world, "start 2; sync; round; tick 200; round")
    looked_at_again(world, 4)
    assert _stands(world) == []
    world.settle()


@pytest.mark.parametrize("limit", [1, 2])
def test_a_deletion_is_held_against_a_copy_of_one_that_aborted_and_cleaned_it_unread(limit: int) -> None:
    """1 misses the COMMIT of two records; its reader saw one, or both, before the cleaner took them. 3 copies 1."""
    world = World(STANDARD)
    waited = "tick 900; round; tick 900; round; tick 500; "
    cleaned = "".join(f"write -1 90 {value}; clean 2; round; {waited}" for value in (1, 2, 3))
    begun = "write -1 1 9; sync; round; stop 3; write 3 0 7; write 3 1 -1; sync; round; stop 1; end 3 1; round; "
    aborted = (
        f"write -1 0 8; tick 200; {cleaned}write -1 90 4; clean 2; round; write 3 2 7; end 3 0; round; start 1; sync; "
    )
    copied = f"read 0 1 999; read 1 1 {limit}; clean 1; round; stop 2; start 3; sync; start 2; sync; "
    _looked_at(world, begun + aborted + copied + "tick 150; round; " * 2 + "tick 150; round")
    looked_at_again(world, 4)
    assert _stands(world) == [("committed_record_aborted", 1), ("deleted_record_resurrected", 3)]
    world.settle()


@pytest.mark.parametrize("written", ["", "write -1 5 5; "], ids=["directly behind", "further up"])
@pytest.mark.parametrize(
    "new", ["write -1 4 4; write -1 5 6; end 0 1; write -1 2 7", "end 0 1"], ids=["longer", "short"]
)
def test_who_contradicted_an_end_marker_that_an_unclean_election_has_cut_is_accused_no_more(
    written: str, new: str
) -> None:
    """2 lost its index and showed the rolled-back record; 3, elected uncleanly, commits it: all logs are equal then."""
    world = World(STANDARD)
    lost = f"write 0 1 9; sync; stop 3; round; {written}end 0 0; sync; stop 2; unindex 2 0; start 2; sync; round; "
    _looked_at(world, f"{lost}tick 200; round")
    assert _stands(world) == [("outcome_contradicts_marker", 2)]
    _looked_at(world, f"usurp 3; {new}; start 1; start 2; sync; round; tick 400; round; tick 400; round")
    assert "outcome_contradicts_marker" not in dict(_stands(world))
    (ended,) = [e for e in world.monitor.events if e.status is FindingStatus.RESOLVED]
    assert evidence_of(ended)["resolution"] in ("outcome_not_proven", "healed")
    assert "log start" not in ended.summary, "nothing was deleted"
    world.settle()


@pytest.mark.parametrize("left", ["unassign 1", "unassign 1; unassign 3"], ids=["two", "three"])
def test_a_deletion_that_was_read_in_time_is_held_against_the_only_replica_that_is_left(left: str) -> None:
    """2 copies what is left, and the others are taken off before its suspect is decided."""
    brokers = (1, 2, 3) if "3" in left else (1, 2)
    world = World(replace(_MOVING, brokers=brokers, hosts=brokers))
    cleaned = "".join(f"clean {broker}; " for broker in brokers if broker != 2)
    rows = "tick 700; round; tick 700; round; tick 700; round; "
    lost = "write -1 1 9; sync; round; stop 2; write -1 1 -1; sync; round; tick 200; "
    away = "".join(f"write -1 90 {value}; sync; {cleaned}round; {rows}" for value in range(4))
    back = "start 2; sync; read 0 2 1000; read 1 2 1000; batch 10; "
    _looked_at(world, f"{lost}{away}{back}{left}; round; tick 200; round; tick 200; round; tick 300; round")
    assert _last_events(world) == {("spread", "deleted_record_resurrected", 2)}
    world.settle()


@pytest.mark.parametrize("cap", [3000, 700], ids=["kept", "left out"])
def test_a_deletion_that_one_committed_is_found_or_unknown_though_its_commit_does_not_fit_the_state(cap: int) -> None:
    """1 misses the COMMIT and aborts the deletion; 3 copies what is left, and is read behind nine later end markers."""
    world = World(replace(STANDARD, cap=cap))
    begun = "write -1 1 9; stop 3; write 3 1 -1; sync; stop 1; end 3 1; round; tick 200; "
    rows = "tick 700; round; tick 700; round; tick 700; round; "
    cleaned = "".join(f"write -1 90 {value}; clean 2; {rows}" for value in (1, 2, 3))
    back = (
        "write -1 90 4; clean 2; write 3 2 7; end 3 0; start 1; sync; clean 1; stop 2; start 3; sync; start 2; sync; "
    )
    later = "".join(f"write 0 3 {value}; end 0 1; " for value in range(8)) + "sync; "
    first = "".join(f"read {v} {b} {4 if (v, b) == (1, 3) else 1000}; " for b in BROKERS for v in (0, 1))
    told = "progress 1; progress 2; progress 3; batch 10; probe; "
    rest = "read 1 3 1000; batch 10; probe; stop 2; round; tick 200; round"
    _looked_at(world, f"{begun}{cleaned}{back}{later}{first}batch 10; {told}tick 100; {told}{rest}")
    found = ("deleted_record_resurrected", 3) in _stands(world)
    assert found or any(world.monitor.coverage.unknown[UnknownReason.DEFERRED])
    world.settle()
