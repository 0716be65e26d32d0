"""Histories that once failed, shrunken."""

from __future__ import annotations

from tests.simulation.ops import FILLER, PLAIN, ROUND, SYNC, TOMBSTONE, turn

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


# A value on all, a newer one while 2 is away, its tombstone while 1 is away as well; 3 has cleaned all of it.
THREE_SIDES = (
    "lead 3; write -1 0 11; sync; stop 2; write -1 0 22; sync; stop 1; write -1 0 -1; "
    + "".join(f"tick 2001; write -1 90 {n}; sync; clean 3; " for n in range(4))
    + "start 2; start 1; sync; cold; "
)
