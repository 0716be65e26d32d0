"""Evidence about one partition: what its replicas were seen to show, and what of that still counts.

| word | what it is |
|---|---|
| fact | a record or an end marker at a place |
| place | an (offset, leader epoch); the leader of an epoch writes an offset once |
| evidence | facts, who showed them, readings, where each replica's epochs end, outcomes, open transactions |
| reading | a replica was read from one offset to another, at a time |
| current log | that of the leader, and of the replicas in sync up to their high watermark |
| lineage | whether a place is of the current log: yes, no, or perhaps; a fact that is not of it proves nothing |
| room | offsets where a record or an end marker may have come and gone unseen |
| in time | before a cleaner can have removed a tombstone or an end marker from the offsets that were read |

There is no room where a fact of the current log is. There is none either where some replica was read in time.
`parallax.judge` tries each possibility that the evidence leaves open.

Example: broker 1 showed a tombstone of K at offset 7 of epoch 2. The leader's log holds epoch 2 up to offset 9. So the
place (7, 2) is of the current log, and K is deleted there. A replica that shows an older value of K does not change
that.

Pure: no IO, no clock, no Kafka client. All offsets are Kafka's, all times are in ms on one clock.
"""
