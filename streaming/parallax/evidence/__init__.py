"""What replicas were seen to show, which of it is of the log that stands, and where nobody looked.

The model in five sentences. A *fact* is a record or an end marker at a *place*, an (offset, leader epoch): one leader
writes an offset of an epoch once. *Evidence* is facts, who showed them, readings (who was read past which offsets, and
when), and what each replica says of its log's ends, outcomes and open transactions. *Lineage* says of each place whether
it is of the log that stands: yes, no, or perhaps; evidence of a log that was cut is void. *Room* is where a record or an
end marker may have come and gone unseen: no fact that stands is there, and nobody read there before a cleaner can have
been. What the evidence leaves open becomes a choice of `parallax.judge`.

Example: broker 1 showed a tombstone of K at offset 7 of epoch 2, and the leader's log holds epoch 2 up to offset 9. The
place (7, 2) is of the log that stands, so K is deleted there, whoever shows a value of K that is older.

Pure: no IO, no clock, no Kafka client. All offsets are Kafka's, all times are in ms on one clock.
"""
