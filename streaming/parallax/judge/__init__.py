"""Who is wrong: what holds in every truth that the evidence leaves open.

The world model. A *component* is a part of the partition that is judged by itself: a key with the transactions that
touch it, the records of one producer between two end markers, or one offset. Evidence leaves some of it open:

- how records ended, where there is room for an end marker that nobody was shown (`transactions`);
- whether a fact is in the log, where `parallax.evidence` says perhaps;
- whether something deleted the key's value, where there is room for it.

A *world* is one choice of all this: a possible truth. In each, who shows consumers something else than this truth is
wrong. A replica *is wrong* if it is wrong in every world, it *is right* if it is wrong in none; replicas *differ* if in
every world at least one of them is wrong. What is neither is unknown, and the atoms that would decide are named.

Example: 1 and 3 show nothing of K, 2 shows the value of offset 4. The tombstone at 7 was read, and stands: one world, 2
is wrong in it. Counter-example: nobody read a tombstone, and nobody read offsets 5 to 9 in time. Two worlds: K was
deleted there, and 2 is wrong; or it was not, and 1 and 3 are. So they differ, and nobody is accused.

Every verdict holds its proof, and one that its proof does not imply cannot be constructed (`verdicts`).

| who proves what | module |
|---|---|
| the value of a key | `keys`, `worlds` |
| how a replica ended a transaction | `outcomes` |
| a transaction that a replica holds open | `freezes` |
| what lies at an offset, and where a log begins | `logs` |

Pure: no IO, no texts for people, no Kafka client.
"""
