"""What replicas were seen to show, which of it is of the log that stands, and where nobody looked.

| word | what it is |
|---|---|
| fact | a record or an end marker at a place |
| place | an (offset, leader epoch); one leader writes an offset of an epoch once |
| evidence | facts, who showed them, readings, what each replica says of its log's ends, outcomes, open transactions |
| reading | a replica was read past some offsets, at a time |
| lineage | whether a place is of the log that stands: yes, no, or perhaps; what a log that was cut showed is void |
| room | offsets where a record or an end marker may have come and gone unseen |

There is no room where a fact stands, nor where somebody read before a cleaner can have been there. What the evidence
leaves open becomes a choice of `parallax.judge`.

Example: broker 1 showed a tombstone of K at offset 7 of epoch 2, and the leader's log holds epoch 2 up to offset 9. The
place (7, 2) is of the log that stands, so K is deleted there, whoever shows a value of K that is older.

Pure: no IO, no clock, no Kafka client. All offsets are Kafka's, all times are in ms on one clock.
"""
