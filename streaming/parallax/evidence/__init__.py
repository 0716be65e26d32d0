"""What replicas were seen to show, which of it is of the current log, and where nobody looked.

| word | what it is |
|---|---|
| fact | a record or an end marker at a place |
| place | an (offset, leader epoch); one leader writes an offset of an epoch once |
| evidence | facts, who showed them, readings, what each replica says of its log's ends, outcomes, open transactions |
| reading | a replica was read past some offsets, at a time |
| lineage | whether a place is of the current log: yes, no, or perhaps; what a truncated log showed is void |
| room | offsets where a record or an end marker may have come and gone unseen |

There is no room where a fact of the current log is. There is none either where somebody read before a cleaner can have
been there. `parallax.judge` tries each possibility that the evidence leaves open.

Example: broker 1 showed a tombstone of K at offset 7 of epoch 2. The leader's log holds epoch 2 up to offset 9. So the
place (7, 2) is of the current log, and K is deleted there. A replica that shows an older value of K does not change
that.

Pure: no IO, no clock, no Kafka client. All offsets are Kafka's, all times are in ms on one clock.
"""
