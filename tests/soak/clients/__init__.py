"""What people run beside Kafka, as it is: Streams, Connect and MirrorMaker 2, over topics that they make themselves."""
