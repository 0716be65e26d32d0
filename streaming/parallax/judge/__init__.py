"""Judges replicas by all possible truths (*worlds*) that the evidence about a partition leaves open.

A replica is wrong if it is wrong in every world. Example: brokers 1 and 3 show nothing of key K, and 2 shows the value
of offset 4. The tombstone at 7 was read and is of the current log: there is one world, and 2 is wrong in it.
Counter-example: nobody read a tombstone, and nobody read offsets 5 to 9 in time. There are two worlds. In one, K was
deleted there and 2 is wrong; in the other it was not, and 1 and 3 are wrong. So they differ, and nobody is accused.

A *component* is a part of the partition that is judged by itself. It is one offset, the records of one producer between
two end markers, or a key with the transactions that wrote it. The evidence may leave open:

- how records ended, where an end marker may lie that nobody was shown (`transactions`);
- whether a fact is in the log, where `parallax.evidence` says perhaps;
- whether something deleted the key's value, at offsets that nobody read in time.

A world is one choice for each of these. In each world, a replica that shows consumers something else than this truth is
wrong. A replica *is wrong* if it is wrong in every world, and it *is right* if it is wrong in none. Replicas *differ*
if in every world at least one of them is wrong. All else is unknown, and the judge names the offsets whose reading
would decide.

Every verdict contains its proof. A verdict that its proof does not imply cannot be constructed (`verdicts`).

| who proves what | module |
|---|---|
| the value of a key | `keys`, `worlds` |
| how a replica ended a transaction | `outcomes` |
| a transaction that a replica holds open | `freezes` |
| what lies at an offset, and where a log begins | `logs` |

Pure: no IO, no texts for people, no Kafka client.
"""
